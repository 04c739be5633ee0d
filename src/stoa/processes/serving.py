"""Running the service: the main process owns the port, the database and the metrics, and stops everything in order."""

import asyncio
import errno
import ipaddress
import os
import resource
import signal
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import msgspec
import structlog

from stoa.access.key_rotation import adopt_keys
from stoa.db import migrate
from stoa.db.connection import connect, path_to_server
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.errors import Unavailable
from stoa.db.pool import Database
from stoa.db.service_facts import note_webhook_allow
from stoa.operations import exposition
from stoa.operations.connection_budget import check_connections, replica_problem, service_budget
from stoa.operations.telemetry import configure_logging, log_start, log_stop
from stoa.operations.tracing import check_extra
from stoa.processes import command_lines
from stoa.processes.supervisor import Supervisor
from stoa.settings import PREFIX, Settings, WrongSetting, announced, metrics_address
from stoa.shards.migrating import migrate_all
from stoa.shards.registry import check_restored
from stoa.webhooks.http.address_guard import check_setting

PORT_TIMEOUT_S = 2.0
_claims: list[socket.socket] = []  # names that this process holds until it exits


@contextmanager
def database(settings: Settings) -> Generator[Settings]:
    """Settings whose database runs: the configured one, or an embedded one until the context ends."""
    check_setting(settings)
    check_extra(settings)
    # Until the supervisor handles this signal, it stops everything started so far.
    signal.signal(signal.SIGTERM, _stop)
    if settings.database_url:
        asyncio.run(_check_database(settings.database_url))
        if settings.database_direct_url:
            asyncio.run(_check_database(settings.database_direct_url, "STOA_DATABASE_DIRECT_URL"))
        with announced(settings):
            yield settings
        return
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with EmbeddedPostgres(settings.data_dir / "postgres") as server, _watched(server), announced(settings):
        yield msgspec.structs.replace(settings, database_url=server.dsn)


@contextmanager
def _watched(server: EmbeddedPostgres) -> Generator[None]:
    """Restart the database whenever it dies; the workers reconnect on their own."""
    stopping = threading.Event()

    def watch() -> None:
        while not stopping.wait(0.5):
            if not server.running:
                exposition.restarts["database"] += 1
                structlog.get_logger().error("the database exited unexpectedly", process="database")
            try:
                server.start()
            except Exception as error:  # noqa: BLE001 - the next start may succeed
                structlog.get_logger().error("the database does not restart", error=type(error).__name__)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stopping.set()
        watcher.join()


def _stop(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


async def _check_database(url: str, name: str = "STOA_DATABASE_URL") -> None:
    try:
        db = await connect(url, timeout_s=10)
        [[version]] = await db.fetch("SELECT current_setting('server_version_num')::int")
        await db.close()
    except Unavailable as error:
        raise WrongSetting(f"{name}: {error}; check that it runs and that the URL is correct") from error
    if version < migrate.OLDEST_POSTGRES * 10_000:
        raise WrongSetting(
            f"{name}: the server runs PostgreSQL {version // 10_000}; Stoa needs {migrate.OLDEST_POSTGRES} or newer"
        )


def check_port(settings: Settings) -> None:
    """Claim the port for this process; workers share it (SO_REUSEPORT), so a second service would start unnoticed."""
    address = f"{settings.host}:{settings.port}"
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(settings.host).version == 6 else socket.AF_INET
    except ValueError as error:
        raise WrongSetting(f"STOA_HOST={settings.host} must be an IP address, such as 127.0.0.1 or 0.0.0.0") from error
    deadline = time.monotonic() + PORT_TIMEOUT_S  # workers of a killed service take a moment to exit
    while True:
        # If two services start at the same moment, only one gets the name.
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0stoa {address}")
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((settings.host, settings.port))
                probe.listen(1)
        except OSError as error:
            claim.close()
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise WrongSetting(
                    f"STOA_PORT={settings.port}: {address} cannot be used ({error.strerror}); choose another port"
                ) from error
            time.sleep(0.1)
        else:
            _claims.append(claim)
            return


def check_metrics(settings: Settings) -> None:
    """Claim the metrics address as well, before anything is started that would have to be stopped again."""
    if settings.metrics == "off":
        return
    claim = socket.socket(socket.AF_UNIX)
    try:
        host, port = metrics_address(settings.metrics)
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        claim.bind(f"\0stoa {address[0]}:{port}")
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except (OSError, UnicodeError) as error:
        claim.close()
        raise exposition.unusable(settings.metrics, error) from error
    _claims.append(claim)


def serve(
    settings: Settings,
    *,
    on_ready: Callable[[], None] = lambda: None,
    background: bool = True,
    migrate_on_reload: bool = True,
) -> None:
    """Serve until a signal to stop, after `check_start`. Without `background`, other machines deliver and import."""
    configure_logging(settings)
    log_start("main", settings)
    for field in msgspec.structs.fields(Settings):
        os.environ[f"{PREFIX}{field.name.upper()}"] = _text(getattr(settings, field.name))
    if settings.metrics != "off":
        exposition.prepare(settings.data_dir / "metrics")
    # Each connection is an open file.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    workers = command_lines.background_workers() if background else {}
    supervisor = Supervisor(settings, command_lines.web_worker(), workers, migrate=migrate_on_reload)
    if settings.metrics != "off":
        exposition.serve(settings.metrics, supervisor.processes)

    def answered() -> None:
        on_ready()
        supervisor.answered = True

    announce(settings, answered)
    try:
        supervisor.run()
    finally:
        log_stop("main")


def migrate_schema(settings: Settings) -> bool:
    """Migrate the database. Returns False if only a pooler leads to it; `check_start` then refuses an old schema."""
    return asyncio.run(_migrate_schema(settings))


async def _migrate_schema(settings: Settings) -> bool:
    if (await path_to_server(settings.direct_url)).pooled:
        return False
    configure_logging(settings)
    await migrate_all(settings.direct_url, settings, skip_away=True)
    return True


def check_start(settings: Settings, *, background: bool = True) -> tuple[Settings, list[str]]:
    """Refuse a schema, a key or a number of connections with which the service would fail later, and a restore that has not
    ended; returns the settings with
    every key of the database, and warnings."""
    return asyncio.run(_check_start(settings, background=background))


async def _check_start(settings: Settings, *, background: bool) -> tuple[Settings, list[str]]:
    db = Database(settings.database_url, size=1)
    try:
        await migrate.check_schema(db)
        settings = await adopt_keys(db, settings)  # the key is created before several processes would create it
        await check_restored(db, settings)
        await note_webhook_allow(db, settings.webhook_allow)
        budget = service_budget(settings, background=background)
        warnings = await check_connections(db, settings.database_url, settings, budget)
    finally:
        await db.close()
    return settings, [*warnings, *await _check_replica(settings)]


async def _check_replica(settings: Settings) -> list[str]:
    """A replica that cannot serve is a warning, never a reason not to start."""
    if not settings.database_read_url:
        return []
    primary = Database(settings.database_url, size=1)
    try:
        problem = await replica_problem(primary, settings)
    finally:
        await primary.close()
    return [f"STOA_DATABASE_READ_URL: {problem}"] if problem else []


def announce(settings: Settings, on_ready: Callable[[], None]) -> None:
    """Call `on_ready` after the first successful answer, from a separate thread."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    address = f"http://[{host}]:{settings.port}/ready" if ":" in host else f"http://{host}:{settings.port}/ready"
    ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def wait() -> None:
        pause = 0.02
        while True:
            try:
                with ask(address, timeout=1):
                    on_ready()
                    return
            except OSError:
                time.sleep(pause)
                pause = min(1.0, pause * 1.05)

    threading.Thread(target=wait, daemon=True).start()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
