"""Running the service: one owner process that holds the port, the database and the workers, and ends them in order."""

import multiprocessing
import os
import shutil
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import msgspec
from granian import Granian  # pyright: ignore[reportMissingTypeStubs]
from granian.constants import Interfaces, Loops  # pyright: ignore[reportMissingTypeStubs]
from granian.http import HTTP1Settings  # pyright: ignore[reportMissingTypeStubs]
from granian.log import LogLevels  # pyright: ignore[reportMissingTypeStubs]

from stoa.db.embedded import EmbeddedPostgres
from stoa.settings import PREFIX, SERVING_PID, Settings, WrongSetting, metrics_address

HEADER_READ_MS = 10_000
# Above our own limit of 16 KiB, so that it is we who answer 431.
READ_BUFFER_BYTES = 128 * 1024


@contextmanager
def database(settings: Settings) -> Generator[Settings]:
    """Settings whose database is up: the given one, or an embedded one for as long as this lasts."""
    if settings.database_url:
        yield settings
        return
    with EmbeddedPostgres(settings.data_dir / "postgres") as server:
        yield msgspec.structs.replace(settings, database_url=server.dsn)


def check_port(settings: Settings) -> None:
    """Refuse a port that is taken: workers share theirs, so a second service would start silently."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
            probe.listen(1)
        except OSError as error:
            raise WrongSetting(
                f"STOA_PORT={settings.port}: {settings.host}:{settings.port} cannot be used ({error.strerror}); choose another port"
            ) from error


def serve(settings: Settings, *, on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve until told to stop; the database must be up and migrated."""
    for field in msgspec.structs.fields(Settings):
        os.environ[f"{PREFIX}{field.name.upper()}"] = _text(getattr(settings, field.name))
    os.environ[SERVING_PID] = str(os.getpid())
    if settings.metrics != "off":
        _serve_metrics(settings)
    # Workers begin clean: nothing of this process, its locks and threads, is copied into them.
    multiprocessing.set_start_method("spawn", force=True)
    server = Granian(
        "stoa.app:create",
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        workers=settings.workers,
        loop=Loops.uvloop,
        factory=True,
        websockets=False,
        log_enabled=False,
        log_level=LogLevels.warning,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_READ_MS, max_buffer_size=READ_BUFFER_BYTES),
        workers_kill_timeout=settings.drain_seconds,
        respawn_failed_workers=True,
        respawn_interval=0.2,
    )
    announce(settings, on_ready)
    server.serve()


def announce(settings: Settings, on_ready: Callable[[], None]) -> None:
    """Call back once the first answer comes, without holding up the start."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    address = f"http://[{host}]:{settings.port}/ready" if ":" in host else f"http://{host}:{settings.port}/ready"

    def wait() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(address, timeout=1):  # noqa: S310
                    on_ready()
                    return
            except OSError:
                time.sleep(0.02)

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
        raise WrongSetting(
            f"STOA_METRICS={settings.metrics} cannot be used ({error.strerror}); choose another, or off"
        ) from error


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
