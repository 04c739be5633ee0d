"""The background workers: one process delivers webhooks, another runs imports at low priority."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable

import click
import structlog
import uvloop

from stoa import api
from stoa.access.console import Console
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.imports.queries import Claimed
from stoa.imports.runner import claim_import, run_import
from stoa.settings import Settings, WrongSetting, load, metrics_address
from stoa.telemetry import DeliveryObserver, configure_logging, fault
from stoa.webhooks.delivery.worker import DeliveryWorker

CONCURRENT_JOBS = 4  # so that a small import does not wait for a large one
POLL_S = 0.3
RETRY_S = 2.0  # after the database was unreachable
STATEMENT_MS = 30_000
NICENESS = 10  # requests have priority
DELIVERIES = "--deliveries"

_ = api.EVENTS  # importing the slices registers the scope of each event


def run_imports(settings: Settings, parent: int | None = None) -> None:
    """Run imports until a signal to stop, then finish the current batches; the next worker resumes the rest."""
    configure_logging(settings)
    os.nice(NICENESS)
    uvloop.run(_until_stopped(lambda stop: _import(settings, stop), parent))


def run_deliveries(settings: Settings, parent: int | None = None) -> None:
    """Deliver webhooks until a signal to stop, then finish the requests in flight and release the rest."""
    configure_logging(settings)
    uvloop.run(_until_stopped(lambda stop: _deliver(settings, stop), parent))


async def _until_stopped(work: Callable[[asyncio.Event], Awaitable[None]], parent: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watcher = asyncio.create_task(_watch(parent, stop))
    try:
        await work(stop)
    finally:
        watcher.cancel()


async def _watch(parent: int | None, stop: asyncio.Event) -> None:
    """Stop when the parent process has exited; kill -9 leaves no other sign."""
    while parent in (None, os.getppid()):  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(POLL_S)
    stop.set()


def _url(settings: Settings) -> str:
    return settings.database_url or EmbeddedPostgres(settings.data_dir / "postgres").dsn


async def _deliver(settings: Settings, stop: asyncio.Event) -> None:
    observer = DeliveryObserver()
    worker = DeliveryWorker(_url(settings), settings, observe=observer.sent, measure=observer.backlog)
    await worker.run(stop)


async def _import(settings: Settings, stop: asyncio.Event) -> None:
    database = Database(_url(settings), size=CONCURRENT_JOBS + 1, statement_timeout_ms=STATEMENT_MS)
    try:
        await _run_jobs(database, stop)
    finally:
        await database.close()


async def _run_jobs(database: Database, stop: asyncio.Event) -> None:
    stopped = asyncio.create_task(stop.wait())
    running: set[asyncio.Task[None]] = set()
    while not stop.is_set():
        started = await _start_job(database, stop) if len(running) < CONCURRENT_JOBS else None
        if started is not None:
            running.add(started)
            continue
        done, _ = await asyncio.wait({stopped, *running}, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
        running -= done
    await asyncio.gather(*running)


async def _start_job(database: Database, stop: asyncio.Event) -> asyncio.Task[None] | None:
    # A new owner name for each claim fences off an earlier claim of the same job by this process.
    owner = f"{os.getpid()}-{secrets.token_hex(8)}"
    try:
        claimed = await claim_import(database, owner)
    except (PostgresError, Unavailable) as error:
        structlog.get_logger().warning("cannot claim imports", **fault(error))
        await asyncio.sleep(RETRY_S)
        return None
    return asyncio.create_task(_run(database, claimed, owner, stop)) if claimed else None


async def _run(database: Database, claimed: Claimed, owner: str, stop: asyncio.Event) -> None:
    try:
        await run_import(database, claimed, owner, stop.is_set)
    except Exception as error:  # noqa: BLE001 - the lease expires, and another claim resumes the job
        structlog.get_logger().error("import failed", store_id=claimed.store_id, **fault(error))


@click.command()
@click.option("--only", type=click.Choice(["deliveries", "imports"]), help="Run only one kind of work.")
@click.option(
    "--metrics",
    default="off",
    show_default=True,
    help="Address of the Prometheus endpoint /metrics, as host:port, or off.",
)
@click.pass_obj
def worker(console: Console, only: str | None, metrics: str) -> None:
    """Deliver webhooks and run imports, in addition to the workers of a running service.

    \b
    Example:
      STOA_DATABASE_URL=postgresql://stoa@db.example.com/stoa stoa worker
    """
    if metrics != "off":
        _serve_metrics(metrics)
    if only == "imports":
        run_imports(console.settings)
        return
    # In a separate process, because imports would delay deliveries.
    imports = subprocess.Popen(command(os.getpid())) if only is None else None  # noqa: S603 - a fixed command
    try:
        run_deliveries(console.settings)
    finally:
        if imports is not None:
            imports.terminate()
            imports.wait()


def command(parent: int, *, deliveries: bool = False) -> list[str]:
    """The command that starts a background worker, which exits with its parent."""
    return [sys.executable, "-m", "stoa.worker", *([DELIVERIES] if deliveries else []), str(parent)]


def _serve_metrics(address: str) -> None:
    from prometheus_client import start_http_server  # noqa: PLC0415 - only a standalone worker needs it

    host, port = metrics_address(address)
    try:
        start_http_server(port, host)
    except OSError as error:
        raise WrongSetting(
            f"--metrics {address} cannot be used ({error.strerror}); choose another address, or off"
        ) from error


COMMANDS: list[click.Command] = [worker]

if __name__ == "__main__":
    arguments = sys.argv[1:]
    parents = [int(argument) for argument in arguments if argument.isdigit()]
    (run_deliveries if DELIVERIES in arguments else run_imports)(load(), parents[0] if parents else None)
