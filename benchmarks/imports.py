"""`python -m benchmarks.imports`: rows per second of an import, compared with COPY of the same rows."""

import asyncio
import io
import os
import resource
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import click
import httpx
import msgspec
from rich.console import Console
from rich.table import Table
from tests.support.termination import exit_on_sigterm

from benchmarks.report import as_table, record
from benchmarks.results import Mark, describe_machine
from stoa.access.apps import create_app
from stoa.access.contract import SCOPES
from stoa.access.grants import install, issue_token
from stoa.access.operator import Operator
from stoa.access.stores import create_store
from stoa.app import Application
from stoa.db.connection import connect
from stoa.db.embedded import MAJOR_VERSION, EmbeddedPostgres
from stoa.db.migrate import migrate
from stoa.db.pool import Database
from stoa.imports.contract import Options
from stoa.imports.importable import Task
from stoa.imports.jobs import new_import_id, start_import
from stoa.imports.products import PRODUCTS
from stoa.imports.queries import GET, STORE
from stoa.imports.runner import claim_this, run_import
from stoa.rest.call import Store
from stoa.rest.headers import NDJSON
from stoa.settings import Settings, load

TABLES = ("products", "product_terms", "variants", "stock_movements", "events")
ID_OFFSET = 1_000_000_000  # between the ids of a row and of its copy
LEAST_SHARE = 0.25  # of the rate of COPY
MOST_GROWTH_MB = 100
MOST_SLOWER = 2.0  # of a listing while an import runs
COLUMNS = ("Part", "rows/s", "of COPY")
PARTS = {
    "copy": "COPY of the same rows",
    "create": "import, all rows new",
    "update": "import, all rows changed",
    "unchanged": "import, no rows changed",
    "upload": "upload of the file",
}


class Round(msgspec.Struct):
    """The seconds of each part, for the same rows."""

    upload: float
    create: float
    unchanged: float
    update: float
    copy: float
    growth_mb: float


def rows(count: int, *, price: int) -> Iterator[bytes]:
    """Products with one variant each, as an app would send them."""
    for n in range(count):
        yield (
            msgspec.json.encode(
                {
                    "name": f"Washed linen shirt {n}",
                    "price": f"{price + n % 300}.90",
                    "external_id": f"erp-{n}",
                    "description": "Made in small batches by people who have done little else for thirty years. It gets "
                    "softer with every wash.",
                    "brand": "Fjord",
                    "category": "Clothing/Women",
                    "tags": ["summer", "linen"],
                    "metadata": {"material": "linen", "pieces": n % 7},
                    "sku": f"SKU-{n}",
                    "barcode": f"40{n:08}",
                    "stock": {"on_hand": n % 80 + 1},
                }
            )
            + b"\n"
        )


@contextmanager
def _timed(figures: dict[str, float], name: str) -> Generator[None]:
    started = time.perf_counter()
    yield
    figures[name] = time.perf_counter() - started


async def measure(database: Database, operator: Operator, files: tuple[Path, Path], number: int) -> Round:
    """Import a file into a new store: all rows new, unchanged, and all changed; and COPY the created rows."""
    file, changed = files
    made = await create_store(operator, f"import-{number}", "Import", "USD")
    copied = await create_store(operator, f"copy-{number}", "Copy", "USD")
    store = await STORE.one(database, made.id)
    figures: dict[str, float] = {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with _timed(figures, "upload"):
        first = await _start(database, store, file)
    with _timed(figures, "create"):
        await _run_import(database, store, first, "created")
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    figures["copy"] = await _copy(database, store.id, copied.id)
    second = await _start(database, store, file)
    with _timed(figures, "unchanged"):
        await _run_import(database, store, second, "unchanged")
    third = await _start(database, store, changed)
    with _timed(figures, "update"):
        await _run_import(database, store, third, "updated")
    return Round(**figures, growth_mb=growth)


async def _start(database: Database, store: Store, file: Path) -> str:
    task = Task(store, new_import_id(), None, "req_benchmark", Options())
    async with database.transaction() as db:
        return (await start_import(db, task, PRODUCTS, file, NDJSON)).id


async def _run_import(database: Database, store: Store, import_id: str, expected: str) -> None:
    claimed = await claim_this(database, "benchmark", store.id, import_id)
    assert claimed is not None
    await run_import(database, claimed, "benchmark")
    job = await GET.one(database, store.id, "products", import_id)
    assert getattr(job, expected) == job.total, job


async def _copy(database: Database, from_store: int, to_store: int) -> float:
    """The seconds to COPY the rows of an import to another store in one transaction."""
    seconds = 0.0
    async with database.transaction() as connection:
        db = cast("Any", connection)
        for table in TABLES:
            columns: list[str] = [
                row[0]
                for row in await db.fetch(
                    """SELECT attname::text FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0
                          AND NOT attisdropped AND attgenerated = '' ORDER BY attnum""",
                    table,
                )
            ]
            shifted = {"store_id": str(to_store)}
            numbered = {"id", "product_id", "variant_id", "position"} - ({"position"} if table == "variants" else set())
            shifted |= {name: f"{name} + {ID_OFFSET}" for name in numbered if name in columns}
            if table == "events":
                shifted["id"] = "id || 'x'"
            select = ", ".join(shifted.get(name, name) for name in columns)
            buffer = io.BytesIO()
            await db.copy_from_query(f"SELECT {select} FROM {table} WHERE store_id = {from_store}", output=buffer)
            buffer.seek(0)
            started = time.perf_counter()
            await db.copy_to_table(table, source=buffer, columns=columns)
            seconds += time.perf_counter() - started
        started = time.perf_counter()
    return seconds + time.perf_counter() - started


# --- a listing during an import --------------------------------------------------------------------------------------


async def listing_during_import(
    settings: Settings, operator: Operator, database: Database, file: Path
) -> tuple[float, float]:
    """The median milliseconds of a page, alone and while a worker imports a file."""
    store = await STORE.one(database, (await create_store(operator, "listed", "Listed", "USD")).id)
    app = await create_app(operator, "Benchmark", list(SCOPES))
    await install(operator, app.client_id, "listed", rate_burst=1_000_000, rate_refill=100_000)
    token = await issue_token(operator, app.client_id, "listed", None)
    await _run_import(database, store, await _start(database, store, file), "created")
    application = Application(settings)
    transport = httpx.ASGITransport(application)
    headers = {"authorization": f"Bearer {token.access_token}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/stores/listed/api/v3/app") as client:

        async def page() -> float:
            started = time.perf_counter()
            answer = await client.get("/products", headers=headers)
            assert answer.status_code == 200
            return (time.perf_counter() - started) * 1000

        alone = statistics.median([await page() for _ in range(400)])
        other = await STORE.one(database, (await create_store(operator, "busy", "Busy", "USD")).id)
        import_id = await _start(database, other, file)
        during: list[float] = []
        with _worker(settings):
            while (job := await GET.one(database, other.id, "products", import_id)).finished_at is None:
                taken = [await page() for _ in range(20)]
                during += taken if job.processed else []
    await application.notifier.close()
    await application.database.close()
    return alone, statistics.median(during)


@contextmanager
def _worker(settings: Settings) -> Generator[int]:
    given = {"STOA_DATABASE_URL": settings.database_url, "STOA_SECRET_KEY": settings.secret_key, "STOA_METRICS": "off"}
    process = subprocess.Popen([sys.executable, "-m", "stoa.worker"], env={**os.environ, **given})
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


@asynccontextmanager
async def _database(folder: Path) -> AsyncGenerator[tuple[Database, Settings]]:
    with EmbeddedPostgres(folder / "postgres") as server:
        await migrate(server.dsn)
        db = await connect(server.dsn)
        await db.close()
        settings = load({}, database_url=server.dsn, secret_key=secrets.token_hex(32), metrics="off", access_log=False)
        database = Database(server.dsn, size=4, statement_timeout_ms=30_000)
        try:
            yield database, settings
        finally:
            await database.close()


async def run(count: int, rounds: int, *, listing: bool) -> tuple[list[Round], tuple[float, float] | None]:
    with tempfile.TemporaryDirectory(prefix="stoa-bench-") as folder:
        files = [Path(folder) / "rows.ndjson", Path(folder) / "changed.ndjson"]
        for file, price in zip(files, (5, 6), strict=True):
            with file.open("wb") as out:
                out.writelines(rows(count, price=price))
        async with _database(Path(folder)) as (database, settings):
            operator = Operator(database, settings, actor="operator:benchmark", request_id="req_benchmark")
            done = [await measure(database, operator, (files[0], files[1]), number) for number in range(rounds)]
            pages = await listing_during_import(settings, operator, database, files[0]) if listing else None
    return done, pages


def marks_of(done: Sequence[Round], pages: tuple[float, float] | None) -> list[Mark]:
    share = min(each.copy for each in done) / min(each.create for each in done)
    growth = done[0].growth_mb  # later rounds start with the memory of the first
    found = [
        Mark("import, share of COPY", f"{share:.2f}", f"at least {LEAST_SHARE}", share >= LEAST_SHARE),
        Mark("memory growth by an import", f"{growth:.0f} MB", f"below {MOST_GROWTH_MB} MB", growth < MOST_GROWTH_MB),
    ]
    if pages:
        slower = pages[1] / pages[0]
        figure = f"{pages[1]:.2f} ms instead of {pages[0]:.2f} ms, {slower:.2f} times"
        found.append(Mark("a page during an import", figure, f"at most {MOST_SLOWER:g} times", slower <= MOST_SLOWER))
    return found


def figures_of(count: int, done: Sequence[Round]) -> list[list[str]]:
    """Rows per second of each part, best of all rounds, and the share of COPY."""
    best = {name: count / min(getattr(each, name) for each in done) for name in PARTS}
    return [[title, f"{best[name]:,.0f}", f"{best[name] / best['copy']:.2f}"] for name, title in PARTS.items()]


def show(count: int, done: Sequence[Round], marks: Sequence[Mark]) -> None:
    table = Table(*COLUMNS, title=f"{count:,} products with one variant each, best of {len(done)}")
    for cells in figures_of(count, done):
        table.add_row(*cells)
    terminal = Console()
    terminal.print(table)
    for mark in marks:
        terminal.print(f"{mark.what}: {mark.figure} ({mark.wanted}{'' if mark.met else ': not met'})")


def as_markdown(count: int, done: Sequence[Round], marks: Sequence[Mark]) -> str:
    rows = [[mark.what, mark.figure, mark.wanted, "yes" if mark.met else "**no**"] for mark in marks]
    machine = describe_machine(str(MAJOR_VERSION)).sentence()
    return "\n".join(
        [
            f"Made by `python -m benchmarks.imports --rows {count} --rounds {len(done)}`: NDJSON, one variant each.\n",
            f"{machine}\n",
            as_table(COLUMNS, figures_of(count, done)),
            as_table(("What", "Result", "Target", "Met"), rows),
        ]
    )


@click.command()
@click.option("--rows", "count", type=click.IntRange(1_000, 100_000), default=100_000, show_default=True)
@click.option("--rounds", type=click.IntRange(1, 5), default=1, show_default=True)
@click.option("--listing/--no-listing", default=True, help="Also measure a page while an import runs.")
@click.option("--record", "file", type=click.Path(path_type=Path), help="Write the results to a Markdown file.")
def main(count: int, rounds: int, *, listing: bool, file: Path | None) -> None:
    """Measure imports on a temporary database."""
    exit_on_sigterm()
    done, pages = asyncio.run(run(count, rounds, listing=listing))
    marks = marks_of(done, pages)
    show(count, done, marks)
    if file:
        record(file, "imports", as_markdown(count, done, marks))
    sys.exit(0 if all(mark.met for mark in marks) else 1)


if __name__ == "__main__":
    main()
