"""The front doors of background work: a process that delivers webhooks, and a patient one that carries out imports."""

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

SEATS = 4  # jobs at the same time: a small one need not wait for a large one
LOOK_EVERY_S = 0.3
PAUSE_S = 2.0  # after the database could not be asked
STATEMENT_MS = 30_000
NICENESS = 10  # whoever waits for an answer comes first
DELIVERIES = "--deliveries"

_ = api.EVENTS  # importing the slices declares the scope that each event needs


def run_worker(settings: Settings, parent: int | None = None) -> None:
    """Carry out imports until told to stop, then finish the parts in hand; what is left is for the next worker."""
    configure_logging(settings)
    os.nice(NICENESS)
    uvloop.run(_until_told(lambda stop: _import(settings, stop), parent))


def run_deliveries(settings: Settings, parent: int | None = None) -> None:
    """Deliver webhooks until told to stop, then finish what is in flight and hand back the rest."""
    configure_logging(settings)
    uvloop.run(_until_told(lambda stop: _deliver(settings, stop), parent))


async def _until_told(work: Callable[[asyncio.Event], Awaitable[None]], parent: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watching = asyncio.create_task(_watch(parent, stop))
    try:
        await work(stop)
    finally:
        watching.cancel()


async def _watch(parent: int | None, stop: asyncio.Event) -> None:
    """A worker must not outlive its service, and kill -9 of that one leaves no other sign."""
    while parent in (None, os.getppid()):  # noqa: ASYNC110 - nobody would set an event
        await asyncio.sleep(LOOK_EVERY_S)
    stop.set()


def _url(settings: Settings) -> str:
    return settings.database_url or EmbeddedPostgres(settings.data_dir / "postgres").dsn


async def _deliver(settings: Settings, stop: asyncio.Event) -> None:
    watched = DeliveryObserver()
    worker = DeliveryWorker(_url(settings), settings, observe=watched.sent, measure=watched.backlog)
    await worker.run(stop)


async def _import(settings: Settings, stop: asyncio.Event) -> None:
    database = Database(_url(settings), size=SEATS + 1, statement_timeout_ms=STATEMENT_MS)
    try:
        await _take_jobs(database, stop)
    finally:
        await database.close()


async def _take_jobs(database: Database, stop: asyncio.Event) -> None:
    stopped = asyncio.create_task(stop.wait())
    running: set[asyncio.Task[None]] = set()
    while not stop.is_set():
        taken = await _take_one(database, stop) if len(running) < SEATS else None
        if taken is not None:
            running.add(taken)
            continue
        done, _ = await asyncio.wait({stopped, *running}, timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
        running -= done
    await asyncio.gather(*running)


async def _take_one(database: Database, stop: asyncio.Event) -> asyncio.Task[None] | None:
    # One name for each claim: should a job come back to this very process, its first hands are fenced off.
    owner = f"{os.getpid()}-{secrets.token_hex(8)}"
    try:
        claimed = await claim_import(database, owner)
    except (PostgresError, Unavailable) as error:
        structlog.get_logger().warning("no jobs to be had", **fault(error))
        await asyncio.sleep(PAUSE_S)
        return None
    return asyncio.create_task(_run(database, claimed, owner, stop)) if claimed else None


async def _run(database: Database, claimed: Claimed, owner: str, stop: asyncio.Event) -> None:
    try:
        await run_import(database, claimed, owner, stop.is_set)
    except Exception as error:  # noqa: BLE001 - the lease runs out, and the job is taken up again
        structlog.get_logger().error("import", store_id=claimed.store_id, **fault(error))


@click.command()
@click.option("--only", type=click.Choice(["deliveries", "imports"]), help="Do one kind of work alone.")
@click.option("--metrics", default="off", show_default=True, help="Where Prometheus finds /metrics, as host:port.")
@click.pass_obj
def worker(console: Console, only: str | None, metrics: str) -> None:
    """Deliver webhooks and carry out imports beside a running service, which has such processes of its own.

    \b
    Example:
      STOA_DATABASE_URL=postgresql://stoa@db.example.com/stoa stoa worker
    """
    if metrics != "off":
        _serve_metrics(metrics)
    if only == "imports":
        run_worker(console.settings)
        return
    # Apart, because an import's work would make deliveries wait.
    beside = subprocess.Popen(command(os.getpid())) if only is None else None  # noqa: S603 - our own words
    try:
        run_deliveries(console.settings)
    finally:
        if beside is not None:
            beside.terminate()
            beside.wait()


def command(parent: int, *, deliveries: bool = False) -> list[str]:
    """How a process for background work is started, to end with its parent."""
    return [sys.executable, "-m", "stoa.worker", *([DELIVERIES] if deliveries else []), str(parent)]


def _serve_metrics(address: str) -> None:
    from prometheus_client import start_http_server  # noqa: PLC0415 - only a worker of its own needs it

    host, port = metrics_address(address)
    try:
        start_http_server(port, host)
    except OSError as error:
        raise WrongSetting(f"--metrics {address} cannot be used ({error.strerror}); choose another, or off") from error


COMMANDS: list[click.Command] = [worker]

if __name__ == "__main__":
    words = sys.argv[1:]
    given = [int(word) for word in words if word.isdigit()]
    (run_deliveries if DELIVERIES in words else run_worker)(load(), given[0] if given else None)
