"""The background processes: one runs the duties of `background.py`, another runs imports at low priority."""

import asyncio
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import click
import msgspec
import structlog
import uvloop

from stoa import api
from stoa.access.console import Console
from stoa.access.encryption import Cipher, shard_url
from stoa.access.key_rotation import with_known_keys
from stoa.background import Work, open_pools, run_duties
from stoa.db import migrate
from stoa.db.connection import connect
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.db.service_facts import check_key
from stoa.db.shards import Shards, run_in_shards
from stoa.imports.queries import Claimed
from stoa.imports.runner import claim_import, run_import
from stoa.loops import beside
from stoa.operations import exposition
from stoa.operations.connection_budget import CONCURRENT_IMPORTS, Budget, check_connections, worker_budget
from stoa.operations.exposition import Process
from stoa.operations.measuring import Sampler, measure_forever
from stoa.operations.telemetry import configure_logging, count_attempt, fault, log_start, log_stop
from stoa.operations.tracing import Tracing, check_extra
from stoa.processes.command_lines import DELIVERIES, background_workers
from stoa.processes.supervisor import Supervisor
from stoa.settings import PREFIX, Settings, load, secret_key
from stoa.shards.registry import check_restored
from stoa.webhooks.http.address_guard import check_setting

POLL_S = 0.3
RETRY_S = 2.0  # after the database was unreachable
STATEMENT_MS = 30_000
NICENESS = 10  # requests have priority
APPLICATION_NAME = "stoa imports"

_ = api.EVENTS  # importing the slices registers the scope of each event


def run_imports(settings: Settings, parent: int | None = None) -> None:
    """Run imports until a signal to stop, then finish the current batches; the next worker resumes the rest."""
    configure_logging(settings)
    os.nice(NICENESS)
    log_start("imports")
    uvloop.run(_until_stopped(lambda stop: _import(settings, stop), parent))
    log_stop("imports")


def run_deliveries(settings: Settings, parent: int | None = None) -> None:
    """Run the background duties until a signal to stop; deliveries finish the requests in flight and release the rest."""
    configure_logging(settings)
    log_start("deliveries")
    uvloop.run(_until_stopped(lambda stop: _deliver(settings, stop), parent))
    log_stop("deliveries")


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
    """Run the duties of the directory, and beside them those of each shard, which has its own connections."""
    pools = open_pools(_url(settings))
    shards = Shards(pools.durable, partial(shard_url, Cipher(secret_key(settings))))
    tracing = Tracing(settings, "deliveries") if settings.otlp_endpoint else None
    trace = tracing.deliveries(pools.relaxed) if tracing is not None else None
    sampler = Sampler("deliveries", {"durable": pools.durable, "relaxed": pools.relaxed})
    try:
        async with beside(sampler.run(), measure_forever(shards, sends=bool(settings.smtp_url), look=True)):
            await asyncio.gather(
                run_duties(Work(settings, pools, stop, count_attempt, trace)),
                run_in_shards(shards, stop, partial(_deliver_in_shard, settings, pools.durable, tracing), pools.fence),
            )
    finally:
        await shards.close()
        await pools.close()
    if tracing is not None:
        await asyncio.to_thread(tracing.close)


async def _deliver_in_shard(
    settings: Settings, directory: Database, tracing: Tracing | None, url: str, stop: asyncio.Event
) -> None:
    pools = open_pools(url)
    pools.fence()
    here = msgspec.structs.replace(settings, database_url=url, database_direct_url="")
    trace = tracing.deliveries(pools.relaxed) if tracing is not None else None
    try:
        await run_duties(Work(here, pools, stop, count_attempt, trace, directory))
    finally:
        await pools.close()


async def _import(settings: Settings, stop: asyncio.Event) -> None:
    database = _import_pool(_url(settings))
    shards = Shards(database, partial(shard_url, Cipher(secret_key(settings))))
    try:
        async with beside(Sampler("imports", {"imports": database}).run()):
            await asyncio.gather(
                _run_jobs(database, stop), run_in_shards(shards, stop, _import_in_shard, database.fence)
            )
    finally:
        await database.close()


async def _import_in_shard(url: str, stop: asyncio.Event) -> None:
    database = _import_pool(url)
    database.fence()
    try:
        await _run_jobs(database, stop)
    finally:
        await database.close()


def _import_pool(url: str) -> Database:
    return Database(url, size=CONCURRENT_IMPORTS + 1, statement_timeout_ms=STATEMENT_MS, name=APPLICATION_NAME)


async def _run_jobs(database: Database, stop: asyncio.Event) -> None:
    stopped = asyncio.create_task(stop.wait())
    running: set[asyncio.Task[None]] = set()
    while not stop.is_set():
        started = await _start_job(database, stop) if len(running) < CONCURRENT_IMPORTS else None
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
    check_extra(console.settings)
    check_setting(console.settings)
    configure_logging(console.settings)
    budget = worker_budget(deliveries=only != "imports", imports=only != "deliveries")
    settings = asyncio.run(_check_start(console.settings, budget))
    if settings is None:
        return
    if settings.secret_key:
        os.environ[f"{PREFIX}SECRET_KEY"] = settings.secret_key  # for the processes that it starts
    with ExitStack() as stack:
        if only is not None:
            kind = run_imports if only == "imports" else run_deliveries
            if metrics != "off":
                exposition.serve(metrics, lambda: [Process(only, 0, os.getpid())])
            kind(settings)
            return
        # In separate processes, because imports would delay deliveries.
        supervisor = Supervisor(settings, None, background_workers(), migrate=False)
        if metrics != "off":
            exposition.prepare(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stoa-metrics-"))))
            exposition.serve(metrics, supervisor.processes)
        log_start("main", settings)
        supervisor.run()
        log_stop("main")


async def _check_start(settings: Settings, budget: Budget) -> Settings | None:
    """Refuse an old schema, a wrong key, a restore that has not ended or too many connections, as soon as the database responds; returns the settings with
    every key of the database, or None if stopped before."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    while not stop.is_set():
        try:
            db = await connect(_url(settings))
        except Unavailable as error:
            structlog.get_logger().warning("the database cannot be reached", **fault(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), RETRY_S)
            continue
        try:
            await migrate.check_schema(db)
            await check_key(db, secret_key(settings))
            known = await with_known_keys(db, settings)
            await check_restored(db, known)
            for warning in await check_connections(db, _url(settings), settings, budget):
                structlog.get_logger().warning("the connections are limited", reason=warning)
        finally:
            await db.close()
        return known
    return None


COMMANDS: list[click.Command] = [worker]

if __name__ == "__main__":
    arguments = sys.argv[1:]
    parents = [int(argument) for argument in arguments if argument.isdigit()]
    (run_deliveries if DELIVERIES in arguments else run_imports)(load(), parents[0] if parents else None)
