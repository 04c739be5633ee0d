"""Databases for tests, empty or migrated: on the server of the test run, or on every node of a Citus cluster."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from stoa.db.connection import Connection, connect
from stoa.db.errors import PostgresError, sqlstate
from stoa.db.migrate import migrate
from stoa.db.pool import Database
from stoa.db.shards import Shards

SERVER = "TEST_POSTGRES_URL"  # if set, the suite uses that server instead of an embedded one
CLUSTER = (
    "TEST_CITUS_URL"  # if set, the suite uses databases that are distributed over this cluster; names the coordinator
)
TEMPLATE = "TEST_TEMPLATE"  # the name of the migrated database of this test run, from which others are copied
FAN_OUT_LOG = "TEST_CITUS_FAN_OUT"  # if set, the coordinator logs the statements that ask several nodes
SHARDS = 4  # few, because each test process distributes a database of its own
PATIENCE_S = 60  # far above what a healthy service needs, because test machines are busy
_TEMPLATE_LOCK = 7306229  # the first process that needs a template creates it
_LOCK = 7306230  # adding a node alters a role on every node, so databases are created one after the other
_NODES = "SELECT nodename, nodeport FROM pg_dist_node WHERE isactive AND noderole = 'primary' ORDER BY groupid"

# With `make test-shards`: the shards of this process by the URL of the one that has its stores.
sharded_runs: dict[str, Shards] = {}

# The databases of this process on a cluster, which outlives it: the URL of a node, and the name.
_made: list[tuple[str, str]] = []


def on_cluster() -> bool:
    return CLUSTER in os.environ


def directory_of(db: Database) -> Database:
    """Where global rows are written: `db` itself, unless it is the shard that has the stores of this run."""
    found = sharded_runs.get(db.url)
    return db if found is None else found.directory


def sibling(url: str, name: str) -> str:
    """The URL of another database on the same server."""
    base, _, options = url.partition("?")
    return f"{base.rsplit('/', 1)[0]}/{name}" + (f"?{options}" if options else "")


async def new_database(
    name: str, server: str = "", *, template: str = "", spare: Sequence[tuple[str, int]] = ()
) -> str:
    """An empty database, by default on the server of this test run; on a cluster also on nodes that it may add later.

    With a template, it is a copy of this database of the same server.
    """
    if not server and on_cluster():
        return await _new_on_every_node(os.environ[CLUSTER], name, spare)
    server = server or os.environ[SERVER]
    await _create(server, name, template)
    return sibling(server, name)


async def migrated_database(name: str) -> str:
    """A database with the schema of this release: a copy of the one that this test run migrates, except on a cluster."""
    if on_cluster():
        url = await new_database(name)
        await migrate(url)
        return url
    return await new_database(name, template=await template_database(os.environ[TEMPLATE], migrate))


async def template_database(name: str, fill: Callable[[str], Awaitable[object]], base: str = "") -> str:
    """The name of a database to copy. The first process that needs it creates it, empty or from a base, and fills it."""
    server = os.environ[SERVER]
    admin = await connect(server, statement_timeout_ms=0, lock_timeout_ms=0)
    try:
        await admin.fetch("SELECT pg_advisory_lock($1::integer, hashtext($2))", _TEMPLATE_LOCK, name)
        if not await admin.fetch("SELECT oid FROM pg_database WHERE datname = $1 AND datistemplate", name):
            await _create(server, name, base)
            await fill(sibling(server, name))
            await admin.execute(f'ALTER DATABASE "{name}" IS_TEMPLATE true')
    finally:
        await admin.close()
    return name


async def _create(server: str, name: str, template: str = "") -> None:
    admin = await connect(server, statement_timeout_ms=0)
    try:
        await _drop(admin, name)
        # Copying the files takes less time than logging each of their pages, which is the default.
        copied = f' TEMPLATE "{template}" STRATEGY file_copy' if template else ""
        await admin.execute(f'CREATE DATABASE "{name}"{copied}')
    finally:
        await admin.close()


async def _drop(admin: Connection, name: str) -> None:
    """Drop a database; while autovacuum works in it, only a superuser may, and another session may just connect again."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            except PostgresError as error:
                if sqlstate(error) not in ("42501", "55006"):
                    raise
                await asyncio.sleep(0.1)
            else:
                return


def at_node(url: str, host: str, port: int) -> str:
    """The same database on another node."""
    address = urlsplit(url)
    login = address.netloc.rpartition("@")[0]
    return address._replace(netloc=f"{login}@{host}:{port}" if login else f"{host}:{port}").geturl()


async def _new_on_every_node(coordinator: str, name: str, spare: Sequence[tuple[str, int]]) -> str:
    admin = await connect(coordinator, statement_timeout_ms=0)
    try:
        nodes = [(str(host), int(port)) for host, port in await admin.fetch(_NODES)]
        await admin.execute("SET lock_timeout = 0")  # creating the database of another process takes a while
        await admin.fetch("SELECT pg_advisory_lock($1)", _LOCK)
        for host, port in (*nodes, *spare):
            node = at_node(coordinator, host, port)
            await _create(node, name)
            _made.append((node, name))
            await _run(sibling(node, name), "CREATE EXTENSION citus")
        (host, port), *workers = nodes
        await _run(
            sibling(coordinator, name),
            f"SELECT citus_set_coordinator_host('{host}', {port})",
            *(f"SELECT citus_add_node('{each}', {at})" for each, at in workers),
            f"SELECT citus_set_node_property('{host}', {port}, 'shouldhaveshards', false)",
        )
    finally:
        await admin.close()
    return sibling(coordinator, name)


async def drop_made() -> None:
    """Drop the databases that this process created on a cluster; the coordinator's go first, because it asks the others."""
    while _made:
        node, name = _made.pop(0)
        admin = await connect(node, statement_timeout_ms=0)
        try:
            await _drop(admin, name)
        finally:
            await admin.close()


async def log_fan_out(url: str) -> None:
    """Let the coordinator log each statement that asks several nodes; `tests/cluster/observed.py` reads the log."""
    if FAN_OUT_LOG in os.environ:
        name = urlsplit(url).path[1:]
        await _run(url, f"ALTER DATABASE \"{name}\" SET citus.multi_task_query_log_level = 'log'")


async def _run(url: str, *statements: str) -> None:
    db = await connect(url, statement_timeout_ms=0)
    try:
        for statement in statements:
            await db.execute(statement)
    finally:
        await db.close()
