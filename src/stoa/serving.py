"""Running the service: one owner process that holds the port, the database and the workers, and ends them in order."""

import asyncio
import errno
import ipaddress
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import msgspec
import structlog
from granian.constants import HTTPModes, Interfaces, Loops  # pyright: ignore[reportMissingTypeStubs]
from granian.http import HTTP1Settings  # pyright: ignore[reportMissingTypeStubs]
from granian.log import LogLevels  # pyright: ignore[reportMissingTypeStubs]

from stoa.crew import RESPAWN_PAUSE_S, START_PATIENCE_S, Server, Wakeup
from stoa.db.embedded import EmbeddedPostgres, EmbeddedPostgresFailed
from stoa.db.errors import Unavailable
from stoa.db.pool import connect
from stoa.settings import PREFIX, Settings, WrongSetting, metrics_address, secret_key
from stoa.shifts import HEADER_READ_MS
from stoa.webhooks.http.address_guard import check_setting

# Above our own limit of 16 KiB, so that it is we who answer 431.
READ_BUFFER_BYTES = 128 * 1024
# Of each worker, idle ones included: it is max_in_flight that limits requests, and answers those it turns away.
MOST_CONNECTIONS = 10_000
OLDEST_POSTGRES = 15
PORT_PATIENCE_S = 2.0
# Granian's own words go the way of all other log lines.
_GRANIAN_LOG: dict[str, Any] = {"loggers": {"_granian": {"handlers": [], "propagate": True}}}
_claims: list[socket.socket] = []  # what this process holds for as long as it lives


@contextmanager
def database(settings: Settings) -> Generator[Settings]:
    """Settings whose database is up: the given one, or an embedded one for as long as this lasts."""
    check_setting(settings)
    # Until the server takes this signal over, to stop means to end what was started so far.
    signal.signal(signal.SIGTERM, _stop)
    if settings.database_url:
        asyncio.run(_check_database(settings.database_url))
        yield settings
        return
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with EmbeddedPostgres(settings.data_dir / "postgres") as server, _watched(server):
        yield msgspec.structs.replace(settings, database_url=server.dsn)


@contextmanager
def _watched(server: EmbeddedPostgres) -> Generator[None]:
    """Start the database again whenever it dies; the workers find it by themselves."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            try:
                server.start()
            except EmbeddedPostgresFailed as error:
                structlog.get_logger().error("the database does not start again", error=type(error).__name__)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _stop(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


async def _check_database(url: str) -> None:
    try:
        db = await connect(url, timeout_s=10)
        [[version]] = await db.fetch("SELECT current_setting('server_version_num')::int")
        await db.close()
    except Unavailable as error:
        raise WrongSetting(f"STOA_DATABASE_URL: {error}; check that it runs and that the URL is right") from error
    if version < OLDEST_POSTGRES * 10_000:
        raise WrongSetting(f"STOA_DATABASE_URL: PostgreSQL {version // 10_000} runs there, {OLDEST_POSTGRES} is needed")


def check_port(settings: Settings) -> None:
    """Take the port for this process: workers share theirs, so a second service would start silently."""
    address = f"{settings.host}:{settings.port}"
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(settings.host).version == 6 else socket.AF_INET
    except ValueError as error:
        raise WrongSetting(f"STOA_HOST={settings.host} must be an IP address, such as 127.0.0.1 or 0.0.0.0") from error
    deadline = time.monotonic() + PORT_PATIENCE_S  # workers of a killed service need a moment to end
    while True:
        # Of two services that start in the same instant, only one gets the name.
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
    """Take the address of the metrics for this process too, before anything runs that a refusal would have to end."""
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
        raise _no_metrics(settings, error) from error
    _claims.append(claim)


def _no_metrics(settings: Settings, error: Exception) -> WrongSetting:
    why = error.strerror if isinstance(error, OSError) else "no such host"
    return WrongSetting(f"STOA_METRICS={settings.metrics} cannot be used ({why}); choose another, or off")


def serve(settings: Settings, *, on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve until told to stop; the database must be up and migrated."""
    secret_key(settings)  # made before there are several who would make it
    for field in msgspec.structs.fields(Settings):
        os.environ[f"{PREFIX}{field.name.upper()}"] = _text(getattr(settings, field.name))
    if settings.metrics != "off":
        _serve_metrics(settings)
    # Each connection is an open file.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # Workers begin clean: nothing of this process, its locks and threads, is copied into them.
    multiprocessing.set_start_method("spawn", force=True)
    server = Server(
        "stoa.app:create",
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        workers=settings.workers,
        loop=Loops.uvloop,
        factory=True,
        # With HTTP/2 on the same port, a connection that sends nothing would be kept for ever.
        http=HTTPModes.http1,
        websockets=False,
        backpressure=MOST_CONNECTIONS,
        log_dictconfig=_GRANIAN_LOG,
        log_level=LogLevels.warning,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_READ_MS, max_buffer_size=READ_BUFFER_BYTES),
        workers_kill_timeout=settings.drain_seconds,
        respawn_failed_workers=True,
        respawn_interval=START_PATIENCE_S,
    )

    server.main_loop_interrupt = Wakeup(lambda: server.interrupt_signal or server.reload_signal)  # pyright: ignore[reportAttributeAccessIssue]
    background = [Background(deliveries=deliveries) for deliveries in (True, False)]

    def answered() -> None:
        server.answered = True
        on_ready()
        for each in background:
            each.start()
        from stoa.telemetry import configure_logging  # noqa: PLC0415 - the first answer need not wait for it

        configure_logging(settings)

    announce(settings, answered)
    try:
        server.serve()
    finally:
        for each in background:
            each.end()
        for each in background:
            each.wait(settings.drain_seconds)


class Background:
    """A process for work that nobody waits for: started after the first answer, and again whenever it dies."""

    def __init__(self, *, deliveries: bool) -> None:
        self._deliveries = deliveries
        self._over = threading.Event()
        self._turn = threading.Lock()  # so that nothing is started once the end has begun
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        threading.Thread(target=self._keep, daemon=True).start()

    def _keep(self) -> None:
        words = ["--deliveries"] if self._deliveries else []
        command = [sys.executable, "-m", "stoa.worker", *words, str(os.getpid())]
        while True:
            with self._turn:
                if self._over.is_set():
                    return
                # In a session of its own: Ctrl-C is for us, who then stop it in order.
                process = self._process = subprocess.Popen(command, start_new_session=True)  # noqa: S603
            process.wait()
            self._over.wait(RESPAWN_PAUSE_S)

    def end(self) -> None:
        """Tell it to finish what it has in hand."""
        with self._turn:
            self._over.set()
            if self._process is not None:
                self._process.terminate()

    def wait(self, patience_s: float) -> None:
        process = self._process
        if process is None:
            return
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()


def announce(settings: Settings, on_ready: Callable[[], None]) -> None:
    """Call back once the first answer comes, without holding up the start."""
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


def _serve_metrics(settings: Settings) -> None:
    folder = settings.data_dir / "metrics"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    # The library decides when it is imported whether several processes share their figures.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415
    from prometheus_client.multiprocess import MultiProcessCollector  # noqa: PLC0415

    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # pyright: ignore[reportUnknownMemberType]
    host, port = metrics_address(settings.metrics)
    try:
        start_http_server(port, host, registry)
    except OSError as error:
        raise _no_metrics(settings, error) from error


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
