"""`python -m benchmarks`: loads a database, measures both services in turns, and compares the results with their targets."""

import asyncio
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import click
import msgspec
from rich.console import Console
from tests.support.nodes import Node
from tests.support.termination import exit_on_sigterm

from benchmarks import catalog, engines, measures, report, sameness, services, shards, streams, trade, writes
from benchmarks.apps import get_token, register
from benchmarks.catalog import Loaded
from benchmarks.demo_start import seconds_to_first_answer
from benchmarks.drive import CannotMeasure, Figures, Load, Target, drive_database, drive_http
from benchmarks.measures import Access, Measure
from benchmarks.results import Results, Round, Row, describe_machine, marks_of, row_of
from benchmarks.services import Memory, Service
from stoa.access.contract import NewSecret
from stoa.db.connection import connect
from stoa.db.embedded import MAJOR_VERSION, EmbeddedPostgres
from stoa.db.migrate import migrate
from stoa.settings import Settings, load

BASELINE = Path(__file__).parent / "baseline"
HTTP_ROWS = ("listing", "listing-same", "one", "listing-250", "deep", "token", "installations")
TRADE_ROWS = ("orders", "customers")
STREAM_ROWS = ("stream",)
WRITE_ROWS = (
    "create-product",
    "adjust",
    "create-order",
    "create-order-locations",
    "historical-orders",
    "pay-order",
    "unasked-order",
    "hot-order",
)
MILLION_ROWS = ("million-first", "million-deep", "stores")
ALL = (*HTTP_ROWS, *TRADE_ROWS, *STREAM_ROWS, *WRITE_ROWS, "demo")
WARM_UP_S = 2.0


class Plan(msgspec.Struct, frozen=True):
    """The options of the command line."""

    only: tuple[str, ...]
    load: Load
    rounds: int
    workers: int
    million: bool
    million_orders: bool

    @property
    def http(self) -> bool:
        return any(name in self.only for name in (*ALL, *MILLION_ROWS) if name != "demo")

    def command(self) -> str:
        """The command that repeats this measurement."""
        only = f" --only {','.join(self.only)}" if self.only != (*ALL, *(MILLION_ROWS if self.million else ())) else ""
        options = f"--seconds {self.load.seconds:g} --rounds {self.rounds} --connections {self.load.connections}"
        large = (" --million" if self.million else "") + (" --million-orders" if self.million_orders else "")
        return f"python -m benchmarks{only}{large} {options} --workers {self.workers}"

    @property
    def section(self) -> str:
        """The section of the documentation for these results."""
        return "million-orders" if self.million_orders else "million" if self.million else "requests"

    def conditions(self) -> str:
        return (
            f"{self.load.connections} connections, {self.workers} workers, "
            f"{self.rounds} rounds of {self.load.seconds:g} s each."
        )


class Prepared(msgspec.Struct, frozen=True):
    """A loaded database."""

    large: Loaded
    places: Loaded
    million: Loaded | None
    trade: trade.Trade
    app: NewSecret
    postgres: str


async def prepare(settings: Settings, plan: Plan, console: Console) -> Prepared:
    """Migrate, load every store, register an app, and fill the baseline's tables from the same rows."""
    await migrate(settings.database_url)
    db = await connect(settings.database_url, statement_timeout_ms=0)
    try:
        started = time.monotonic()
        large = await catalog.load(db)
        app = await register(settings, large.handle)
        business = await trade.load(db, settings, large, app, million=plan.million_orders)
        for file in ("schema.sql", "trade.sql"):
            await db.execute(f"BEGIN; {(BASELINE / file).read_text()} COMMIT")
        places = await catalog.load_places(db, large, writes.ENDLESS)
        await register(settings, places.handle, app)
        huge = await catalog.load_million(db, large) if plan.million else None
        if huge:
            await register(settings, huge.handle, app)
        await catalog.install_everywhere(db, app.app_id)
        if plan.million:
            await catalog.fill_stores(db, large)
        await db.execute("VACUUM ANALYZE")
        console.print(f"Loaded {catalog.STORES} stores in {time.monotonic() - started:.0f} s.")
        postgres: str = (await db.fetch("SHOW server_version"))[0][0]
    finally:
        await db.close()
    return Prepared(large, places, huge, business, app, postgres)


async def deadlocks(dsn: str) -> int:
    db = await connect(dsn)
    try:
        return (await db.fetch("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))[0][0]
    finally:
        await db.close()


def counted(run: Callable[[], Figures], load: Load, service: Service | None, database: Node) -> Figures:
    """The figures of a run, with the CPU time for one request."""
    before = service.cpu_seconds() if service else 0, database.cpu_seconds()
    figures = run()
    requests = figures.per_second * load.seconds / 1e6
    spent = (service.cpu_seconds() if service else 0) - before[0], database.cpu_seconds() - before[1]
    return msgspec.structs.replace(figures, service_us=spent[0] / requests, database_us=spent[1] / requests)


def take_turns(
    measure: Measure,
    like: Measure | None,
    ours: Service,
    theirs: Service,
    database: Node,
    folder: Path,
    plan: Plan,
    console: Console,
) -> Row:
    """Measure all rounds of one row: in each the service, its limit, the baseline, and the row it is compared with."""
    sameness.check(measure, ours, theirs)
    rounds: list[Round] = []
    for number in range(plan.rounds + 1):  # the first is a warm-up
        load = plan.load if number else msgspec.structs.replace(plan.load, seconds=WARM_UP_S)
        limit, baseline = measure.limit, measure.baseline
        run = Round(
            counted(partial(drive_http, ours.origin, measure.request, load), load, ours, database),
            counted(partial(drive_database, database.url, limit, folder, load), load, None, database)
            if limit
            else None,
            counted(partial(drive_http, theirs.origin, baseline, load), load, theirs, database) if baseline else None,
            drive_http(ours.origin, like.request, load) if like else None,
        )
        if number:
            rounds.append(run)
            console.print(f"{measure.name:14} round {number}: {run.summary()}")
    return row_of(measure, rounds)


class Measured(msgspec.Struct, frozen=True):
    rows: list[Row]
    memory: Memory
    deadlocks: int
    postgres: str


class Running(msgspec.Struct, frozen=True):
    """A loaded database and the service that serves it."""

    settings: Settings
    prepared: Prepared
    service: Service
    access: Access

    def reads(self) -> list[Measure]:
        rows = measures.of_large_store(self.prepared.large, self.access)
        return rows + (measures.of_million_store(self.prepared.million, self.access) if self.prepared.million else [])

    def trade(self, *, baseline: bool) -> list[Measure]:
        return measures.of_trade(self.prepared.large, self.prepared.trade, self.access, baseline=baseline)

    def writes(self, *, baseline: bool) -> list[Measure]:
        large, places, trade = self.prepared.large, self.prepared.places, self.prepared.trade
        return asyncio.run(writes.of_store(self.settings, large, places, trade, self.access, baseline=baseline))


@contextmanager
def running(plan: Plan, folder: Path, console: Console) -> Generator[Running, None, None]:
    """Load a database and serve it until the context ends."""
    secret_key = secrets.token_hex(32)
    server = EmbeddedPostgres(folder / "postgres")
    settings = load({}, database_url=server.dsn, secret_key=secret_key, metrics="off", access_log=False)
    with server:
        prepared = asyncio.run(prepare(settings, plan, console))
    # After a restart everything is on disk, and no checkpoint of the load disturbs a run.
    with server, services.stoa(server.dsn, folder, workers=plan.workers, secret_key=secret_key) as service:
        yield Running(settings, prepared, service, Access(prepared.app, get_token(service, prepared.app)))


def measure_http(plan: Plan, folder: Path, console: Console) -> Measured:
    """Measure every row that needs a loaded database and both services."""
    with ExitStack() as stack:
        ours = stack.enter_context(running(plan, folder, console))
        dsn, key = ours.settings.database_url, ours.settings.secret_key
        theirs = stack.enter_context(services.baseline(dsn, folder, workers=plan.workers, secret_key=key))
        database = asyncio.run(Node.of(dsn, "database"))

        def taken(rows: list[Measure]) -> list[Row]:
            by_name = {row.name: row for row in rows}
            return [
                take_turns(row, by_name.get(row.wanted.like), ours.service, theirs, database, folder, plan, console)
                for row in rows
                if row.name in plan.only
            ]

        few = not plan.million_orders  # the baseline is not loaded with a million orders
        found = taken(ours.reads() + ours.trade(baseline=few))
        if any(name in plan.only for name in STREAM_ROWS):
            at, large = ours.prepared, ours.prepared.large
            found.append(
                streams.measure(ours.service, dsn, large, at.trade, ours.access, plan.load, plan.rounds, console)
            )
        if any(name in plan.only for name in WRITE_ROWS):
            # Recorded and measured last, because they add rows to the store.
            found += taken(ours.writes(baseline=few))
        return Measured(found, ours.service.memory(), asyncio.run(deadlocks(dsn)), ours.prepared.postgres)


def serve(plan: Plan, target: Path, console: Console) -> None:
    """Serve the measured requests until SIGTERM; `target` tells another process where they are."""
    with _folder() as folder, running(plan, folder, console) as ours:
        rows = ours.reads() + ours.trade(baseline=False) + ours.writes(baseline=False)
        requests = {row.name: row.request for row in rows}
        partial = target.with_suffix(".partial")
        partial.write_bytes(msgspec.json.encode(Target(ours.service.origin, requests)))
        partial.rename(target)
        signal.pause()


def measure_starts(folder: Path) -> dict[str, float]:
    return {"cold": seconds_to_first_answer(folder), "warm": seconds_to_first_answer(folder)}


def _names(_context: click.Context, _parameter: click.Parameter, given: str | None) -> tuple[str, ...]:
    names = tuple(given.split(",")) if given else ()
    if unknown := set(names) - {*ALL, *MILLION_ROWS}:
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: choose from {', '.join((*ALL, *MILLION_ROWS))}")
    return names


@click.command()
@click.option("--only", callback=_names, help=f"Comma-separated rows to measure: {', '.join(ALL)}.")
@click.option("--million", is_flag=True, help="Also measure a store with a million products; loading it takes minutes.")
@click.option("--million-orders", is_flag=True, help="Load a million orders instead of ten thousand.")
@click.option("--seconds", default=5.0, show_default=True, type=click.FloatRange(1, 120), help="Duration of a run.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1, 20), help="Number of runs of each side.")
@click.option("--connections", default=16, show_default=True, type=click.IntRange(1, 60), help="Concurrent requests.")
@click.option(
    "--workers", default=2, show_default=True, type=click.IntRange(1, 16), help="Worker processes of each service."
)
@click.option("--citus", help="Compare one plain server with a cluster instead; names a database on the coordinator.")
@click.option("--shards", "sharded", is_flag=True, help="Compare one plain server with 1, 2 and 4 shards instead.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the results to this file as JSON.")
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    help="Write the results to a Markdown file, replacing earlier ones.",
)
@click.option(
    "--serve",
    "target",
    type=click.Path(path_type=Path),
    help="Measure nothing: serve the requests until SIGTERM, and write them to this file.",
)
def main(
    only: tuple[str, ...], million: bool, million_orders: bool, seconds: float, rounds: int, connections: int,
    workers: int, citus: str | None, sharded: bool,
    json_file: Path | None, record: Path | None, target: Path | None,
) -> None:  # fmt: skip
    """Measure Stoa, its limit (pgbench with the same statements), and a baseline on a common stack."""
    exit_on_sigterm()
    million = million or any(name in MILLION_ROWS for name in only)
    chosen = only or (*ALL, *(MILLION_ROWS if million else ()))
    plan = Plan(chosen, Load(connections, seconds), rounds, workers, million, million_orders)
    console = Console(width=None if sys.stdout.isatty() else 200)
    try:
        if citus:
            with _folder() as folder:
                rows = engines.compare(citus, folder, plan.load, rounds, workers, console)
            if record:
                command = f"python -m benchmarks --citus URL --seconds {seconds:g} --rounds {rounds} --connections {connections}"
                report.record(record, "engines", engines.as_markdown(rows, command))
            return
        if sharded:
            with _folder() as folder:
                found = shards.compare(folder, plan.load, rounds, workers, console)
            console.print(found.summary())
            if record:
                command = (
                    f"python -m benchmarks --shards --seconds {seconds:g} --rounds {rounds} --connections {connections}"
                )
                report.record(record, "shards", shards.as_markdown(found, command))
            return
        if target:
            serve(plan, target, console)
            return
        results = _measure(plan, console)
    except CannotMeasure as error:
        raise click.ClickException(str(error)) from error
    report.show(results, console)
    if json_file:
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
    if record:
        report.record(record, plan.section, report.as_markdown(results, explained=plan.section == "requests"))


@contextmanager
def _folder() -> Generator[Path, None, None]:
    with tempfile.TemporaryDirectory(prefix="stoa-bench-") as name:
        Path(name).chmod(0o711)  # the database server may run as another user
        yield Path(name)


def _measure(plan: Plan, console: Console) -> Results:
    machine = describe_machine(MAJOR_VERSION)
    found: Measured | None = None
    starts: dict[str, float] = {}
    with _folder() as folder:
        if plan.http:
            found = measure_http(plan, folder, console)
            machine = msgspec.structs.replace(machine, postgres=found.postgres)
        if "demo" in plan.only:
            starts = measure_starts(folder)
    rows, memory = (found.rows, found.memory) if found else ([], None)
    marks = marks_of(rows, memory, starts, found.deadlocks if found else None)
    return Results(machine, plan.command(), plan.conditions(), rows, marks, memory, starts)


if __name__ == "__main__":
    main()
