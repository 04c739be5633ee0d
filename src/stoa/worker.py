"""The front door of background work: a process beside the serving ones that carries out what they have put off."""

import asyncio
import os
import secrets
import signal
import sys

import click
import structlog
import uvloop

from stoa.access.console import Console
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.imports.queries import Claimed
from stoa.imports.runner import claim_import, run_import
from stoa.settings import Settings, load
from stoa.telemetry import configure_logging, fault

SEATS = 4  # jobs at the same time: a small one need not wait for a large one
LOOK_EVERY_S = 0.3
PAUSE_S = 2.0  # after the database could not be asked
STATEMENT_MS = 30_000
NICENESS = 10  # whoever waits for an answer comes first


def run_worker(settings: Settings, parent: int | None = None) -> None:
    """Work until told to stop, then finish the parts in hand; what is left of their jobs is for the next worker."""
    configure_logging(settings)
    os.nice(NICENESS)
    uvloop.run(_work(settings, parent))


async def _work(settings: Settings, parent: int | None) -> None:
    url = settings.database_url or EmbeddedPostgres(settings.data_dir / "postgres").dsn
    database = Database(url, size=SEATS + 1, statement_timeout_ms=STATEMENT_MS)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await _take_jobs(database, stop, parent)
    finally:
        await database.close()


async def _take_jobs(database: Database, stop: asyncio.Event, parent: int | None) -> None:
    stopped = asyncio.create_task(stop.wait())
    running: set[asyncio.Task[None]] = set()
    while not stop.is_set():
        taken = await _take_one(database, stop) if len(running) < SEATS else None
        if taken is not None:
            running.add(taken)
            continue
        done, _ = await asyncio.wait({stopped, *running}, timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
        running -= done
        if parent not in (None, os.getppid()):  # kill -9 of the service leaves no other sign
            stop.set()
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
@click.pass_obj
def worker(console: Console) -> None:
    """Carry out imports beside a running service, which has one such process of its own.

    \b
    Example:
      STOA_DATABASE_URL=postgresql://stoa@db.example.com/stoa stoa worker
    """
    run_worker(console.settings)


COMMANDS: list[click.Command] = [worker]

if __name__ == "__main__":
    run_worker(load(), int(sys.argv[1]) if sys.argv[1:] else None)
