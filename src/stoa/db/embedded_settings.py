"""The settings of the embedded PostgreSQL server."""

import os

PORT = "5432"  # only part of the socket's name: the server does not listen on TCP

SETTINGS = {
    "listen_addresses": "",
    "port": PORT,
    "unix_socket_permissions": "0700",
    "max_connections": "300",  # several workers with a pool each, deliveries and imports
    "random_page_cost": "1.1",
    "jit": "off",
    "max_logical_replication_workers": "0",
    "max_parallel_workers_per_gather": "0",  # one core per request, for steady latency
    "dynamic_shared_memory_type": "mmap",  # containers often have a /dev/shm of 64 MB
    "fsync": "on",
    "synchronous_commit": "on",
    "wal_compression": "on",
    "track_io_timing": "on",
    "autovacuum_naptime": "15s",  # the rows of queue tables live for seconds
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_analyze_scale_factor": "0.05",
    "autovacuum_vacuum_cost_limit": "1000",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_error_verbosity": "terse",  # error details quote the row, which may be personal data
    "log_min_error_statement": "panic",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}
# For tests, which run many services on one server: autovacuum visits each of their databases once in this time.
NOT_DURABLE = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "800",
    "autovacuum_naptime": "60s",
}

# Replaces the file in the data folder, which may be from a release that trusted every host.
HOST_BASED_AUTHENTICATION = """# Stoa writes this file at every start.
local all all trust
"""

INITDB_OPTIONS = (
    "--username=postgres",
    "--auth-local=trust",  # only root and the server's user can reach the socket
    "--auth-host=reject",
    "--data-checksums",
    "--encoding=UTF8",
    "--locale-provider=builtin",  # sort by code point and lower() for all scripts, the same on every system
    "--builtin-locale=C.UTF-8",
    "--locale=C.UTF-8",  # the letters of text search
    "--no-instructions",
)

# The role is no superuser, and its errors are not logged, because their text may quote personal data.
CREATE_DATABASE = r"""
SELECT 'CREATE ROLE stoa LOGIN CREATEDB', 'GRANT pg_monitor TO stoa',
       'ALTER ROLE stoa SET log_min_messages = log'
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'stoa') \gexec
SELECT 'CREATE DATABASE stoa OWNER stoa'
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'stoa') \gexec
"""


def _buffers_mb() -> int:
    """A sixteenth of the machine's memory, at most 512 MB, because a container may have less memory than its machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(128, min(512, memory // 16 // 1024**2))


def settings(*, durable: bool) -> dict[str, str]:
    """The server's settings for this machine."""
    return SETTINGS | {"shared_buffers": f"{_buffers_mb()}MB"} | ({} if durable else NOT_DURABLE)
