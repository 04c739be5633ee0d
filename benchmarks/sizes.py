"""`python -m benchmarks.sizes`: the bytes that a product, a customer, an order and an adjustment take in the database."""

import asyncio
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec
from tests.support.termination import exit_on_sigterm

from benchmarks import catalog, services, trade, writes
from benchmarks.apps import get_token, register
from benchmarks.drive import Load, drive_http
from benchmarks.measures import Access
from benchmarks.report import as_table, record
from benchmarks.results import describe_machine
from stoa.db.connection import connect
from stoa.db.embedded import MAJOR_VERSION, EmbeddedPostgres
from stoa.db.migrate import migrate
from stoa.settings import Settings, load

CONNECTIONS = 8
_SIZES = """SELECT coalesce(i.inhparent, c.oid)::regclass::text, sum(pg_total_relation_size(c.oid))::bigint
              FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
             WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace GROUP BY 1"""


class Size(msgspec.Struct, frozen=True):
    """The bytes of one resource with all that is written with it, indexes included, and its largest tables."""

    name: str
    count: int
    total: int
    tables: Mapping[str, int]

    def cells(self) -> list[str]:
        largest = sorted(self.tables.items(), key=lambda table: -table[1])[:5]
        parts = ", ".join(f"{name} {size / self.count / 1000:.1f}" for name, size in largest)
        return [self.name, f"{self.count:,}", f"{self.total / self.count / 1000:.1f}", parts]


async def _sizes(url: str) -> dict[str, int]:
    db = await connect(url, statement_timeout_ms=0)
    try:
        return {row[0]: row[1] for row in await db.fetch(_SIZES)}
    finally:
        await db.close()


async def _grown(url: str, name: str, count: int, before: Mapping[str, int]) -> Size:
    tables = {table: size - before.get(table, 0) for table, size in (await _sizes(url)).items()}
    return Size(name, count, sum(tables.values()), tables)


async def _load(settings: Settings) -> tuple[catalog.Loaded, Access, list[Size]]:
    url = settings.database_url
    await migrate(url)
    db = await connect(url, statement_timeout_ms=0)
    try:
        empty = await _sizes(url)
        large = await catalog.load(db)
        [[products]] = await db.fetch("SELECT count(*) FROM products")
        found = [await _grown(url, "product, with 2.5 variants", products, empty)]
        app = await register(settings, large.handle)
        before = await _sizes(url)
        business = await trade.load(db, settings, large, app)
        sizes = {name: size - before[name] for name, size in (await _sizes(url)).items()}
        customers = {name: size for name, size in sizes.items() if name.startswith("customer")}
        found.append(Size("customer", business.customers, sum(customers.values()), customers))
        await writes.prepare(db, large, baseline=False)
        return large, Access(app, ""), found
    finally:
        await db.close()


def measure(folder: Path, seconds: float) -> list[Size]:
    """Load a catalog, then place orders and adjust stock through the service."""
    key = secrets.token_hex(32)
    with EmbeddedPostgres(folder / "postgres") as server:
        url = server.dsn
        large, access, found = asyncio.run(
            _load(load({}, database_url=url, secret_key=key, metrics="off", access_log=False))
        )
        with services.stoa(url, folder, workers=2, secret_key=key) as service:
            access = Access(access.app, get_token(service, access.app))
            requests = {
                "order with three line items": writes.post(large, access, "/orders", writes.NEW_ORDER),
                "adjustment of one variant": writes.post(
                    large, access, "/products/inventory/adjustments", writes.ADJUSTMENT
                ),
            }
            for name, request in requests.items():
                before = asyncio.run(_sizes(url))
                rate = drive_http(service.origin, request, Load(CONNECTIONS, seconds)).per_second
                found.append(asyncio.run(_grown(url, name, round(rate * seconds), before)))
    return found


@click.command()
@click.option("--seconds", default=15.0, show_default=True, type=click.FloatRange(2, 120), help="Duration of each run.")
@click.option("--record", "file", type=click.Path(path_type=Path), help="Write the results to a Markdown file.")
def main(seconds: float, file: Path | None) -> None:
    """Measure sizes on a temporary database."""
    exit_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="stoa-bench-") as name:
        Path(name).chmod(0o711)
        found = measure(Path(name), seconds)
    table = as_table(("What", "count", "kB each", "largest tables, kB each"), [size.cells() for size in found])
    click.echo(table)
    if file:
        machine = describe_machine(str(MAJOR_VERSION)).sentence()
        made = f"Made by `python -m benchmarks.sizes --seconds {seconds:g}`. {machine}\n\n"
        record(file, "sizes", made + table)


if __name__ == "__main__":
    main()
