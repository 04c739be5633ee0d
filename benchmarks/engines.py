"""One plain server and a Citus cluster on the same machine, measured in turns: rates, and the CPU time of each node."""

import asyncio
import os
import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from rich.console import Console
from tests.support.databases import CLUSTER, new_database
from tests.support.nodes import Node, nodes_of

from benchmarks import catalog, deliveries, measures, services, writes
from benchmarks.apps import get_token, register
from benchmarks.catalog import Loaded
from benchmarks.drive import Load, Request, drive_http
from benchmarks.measures import Access
from benchmarks.report import as_table
from benchmarks.results import describe_machine
from benchmarks.services import Service
from stoa.access.contract import NewSecret
from stoa.cluster.distribution import distribute
from stoa.db.connection import connect
from stoa.db.migrate import migrate
from stoa.settings import load

COLUMNS = ("Row", "plain /s", "Citus /s", "times", "CPU plain", "CPU coordinator", "CPU workers")
IDLE_S = 5.0
EVENTS = 3_000
_READING = """\
Both databases are on the same servers: the plain one on the coordinator's, without Citus. Each has a service with the same
data, and the load alternates between them round by round; rates are medians. CPU is the time of the server processes for one
request in ms, without what they spend while nothing is asked. The services and the load generator share the cores.
"""


class Side(msgspec.Struct, frozen=True):
    """What one engine did in one run: its rate, and the CPU of each node for one request in ms."""

    per_second: float
    cpu_ms: list[float]


class EngineRow(msgspec.Struct, frozen=True):
    name: str
    plain: Side
    citus: Side

    def cells(self) -> list[str]:
        plain, citus = self.plain, self.citus
        rates = [f"{plain.per_second:,.0f}", f"{citus.per_second:,.0f}", f"{citus.per_second / plain.per_second:.2f}"]
        return [self.name, *rates, f"{plain.cpu_ms[0]:.2f}", f"{citus.cpu_ms[0]:.2f}", f"{sum(citus.cpu_ms[1:]):.2f}"]


class Engine(msgspec.Struct, frozen=True):
    """A database and the servers that it lives on: the first one is the plain server, or the coordinator."""

    url: str
    nodes: list[Node]

    def cpu(self) -> list[float]:
        return [node.cpu_seconds() for node in self.nodes]


async def _engines(url: str, name: str) -> tuple[Engine, Engine]:
    """A migrated database on one server, and one on every node of the cluster, which is not distributed yet."""
    os.environ[CLUSTER] = url
    coordinator, workers = await nodes_of(url)
    plain = Engine(await new_database(f"bench_{name}_plain", url), [coordinator])
    citus = Engine(await new_database(f"bench_{name}_citus"), [coordinator, *workers])
    for engine in (plain, citus):
        await migrate(engine.url)
    return plain, citus


async def _load(engine: Engine, secret_key: str, *, distributed: bool) -> tuple[Loaded, NewSecret]:
    db = await connect(engine.url, statement_timeout_ms=0)
    try:
        large = await catalog.load(db)
        app = await register(load({}, database_url=engine.url, secret_key=secret_key), large.handle)
        await writes.prepare(db, large, baseline=False)
    finally:
        await db.close()
    if distributed:
        await distribute(engine.url)
        db = await connect(engine.url, statement_timeout_ms=0)
        await db.execute("VACUUM ANALYZE")
        await db.close()
    return large, app


def requests_of(large: Loaded, access: Access) -> dict[str, Request]:
    """Reads and writes of a store, one of each kind that costs the database much or little."""
    reads = {row.name: row.request for row in measures.of_large_store(large, access)}
    return {name: reads[name] for name in ("listing", "one")} | {
        "create-order": writes.post(large, access, "/orders", writes.NEW_ORDER),
        "adjust": writes.post(large, access, "/products/inventory/adjustments", writes.ADJUSTMENT),
    }


def _run(engine: Engine, service: Service, request: Request, given: Load, idle: Sequence[float]) -> Side:
    before, started = engine.cpu(), time.monotonic()
    figures = drive_http(service.origin, request, given)
    seconds = time.monotonic() - started
    count = figures.per_second * given.seconds
    spent = [after - earlier - rest * seconds for after, earlier, rest in zip(engine.cpu(), before, idle, strict=True)]
    return Side(figures.per_second, [1000 * second / count for second in spent])


def _idle(engine: Engine) -> list[float]:
    """The CPU seconds of each node in a second without requests, while both services look for work."""
    before = engine.cpu()
    time.sleep(IDLE_S)
    return [(after - earlier) / IDLE_S for after, earlier in zip(engine.cpu(), before, strict=True)]


def _median(sides: Sequence[Side]) -> Side:
    return sorted(sides, key=lambda side: side.per_second)[len(sides) // 2]


def _measure_requests(
    url: str, folder: Path, given: Load, rounds: int, workers: int, console: Console
) -> list[EngineRow]:
    secret_key = secrets.token_hex(32)
    engines = asyncio.run(_engines(url, "requests"))
    loaded = [asyncio.run(_load(engine, secret_key, distributed=n == 1)) for n, engine in enumerate(engines)]
    with ExitStack() as stack:
        served: list[tuple[Engine, Service, dict[str, Request]]] = []
        for n, (engine, (large, app)) in enumerate(zip(engines, loaded, strict=True)):
            home = folder / str(n)
            home.mkdir()
            running = services.stoa(engine.url, home, workers=workers, secret_key=secret_key)
            service = stack.enter_context(running)
            served.append((engine, service, requests_of(large, Access(app, get_token(service, app)))))
        time.sleep(IDLE_S)
        idle = [_idle(engine) for engine in engines]
        rows: list[EngineRow] = []
        for name in served[0][2]:
            sides: list[list[Side]] = [[], []]
            for number in range(rounds + 1):  # the first is a warm-up
                for n, (engine, service, requests) in enumerate(served):
                    side = _run(engine, service, requests[name], given, idle[n])
                    if number:
                        sides[n].append(side)
            rows.append(EngineRow(name, _median(sides[0]), _median(sides[1])))
            console.print(" | ".join(rows[-1].cells()))
    return rows


async def _measure_deliveries(url: str, folder: Path) -> EngineRow:
    """Deliveries of one worker on a full queue."""
    plain, citus = await _engines(url, "deliveries")
    await distribute(citus.url)
    sides: list[Side] = []
    for name, engine in (("plain", plain), ("citus", citus)):
        home = folder / name
        home.mkdir()
        before = engine.cpu()
        per_second = (await deliveries.throughput(home, EVENTS, url=engine.url)).per_second
        spent = [after - earlier for after, earlier in zip(engine.cpu(), before, strict=True)]
        sides.append(Side(per_second, [1000 * second / EVENTS for second in spent]))
    return EngineRow("deliveries", *sides)


def compare(url: str, folder: Path, given: Load, rounds: int, workers: int, console: Console) -> list[EngineRow]:
    """Measure every row on both engines; the URL names a database on the coordinator whose workers are registered."""
    rows = _measure_requests(url, folder, given, rounds, workers, console)
    rows.append(asyncio.run(_measure_deliveries(url, folder)))
    console.print(" | ".join(rows[-1].cells()))
    return rows


def as_markdown(rows: Sequence[EngineRow], command: str) -> str:
    machine = describe_machine("15").sentence()
    return "\n".join([f"Made by `{command}`. {machine}\n", _READING, as_table(COLUMNS, [row.cells() for row in rows])])
