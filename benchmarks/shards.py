"""One plain server, and 1, 2 and 4 shards on the same machine, measured in turns: the CPU time of each server for one request."""

import asyncio
import os
import secrets
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path

import msgspec
from rich.console import Console
from tests.support.data_folders import copy_migrated, remove_template
from tests.support.databases import TEMPLATE
from tests.support.fleet import Fleet, replicating_server
from tests.support.sharded import as_superuser

from benchmarks import catalog, services, writes
from benchmarks.apps import get_token, register
from benchmarks.catalog import Loaded
from benchmarks.drive import CannotMeasure, Load, Request, drive_http
from benchmarks.engines import IDLE_S, requests_of
from benchmarks.measures import Access
from benchmarks.report import as_table
from benchmarks.results import describe_machine
from benchmarks.services import Service
from stoa.access.contract import NewSecret
from stoa.db.connection import APPLICATION_NAME, connect
from stoa.db.embedded import MAJOR_VERSION, EmbeddedPostgres
from stoa.db.pool import FENCING
from stoa.db.shards import DIRECTORY_NAME
from stoa.rest.dispatch import PREFIX
from stoa.settings import load
from stoa.shards import moving

STORES = ("s1", "s2", "s3", "s4")  # each is in the shard of the same name
COUNTS = (1, 2, 4)
PLAIN = "one server"
PRODUCTS = 1_000  # of each measured store
COLD_STORES = 2_000  # on each server: so many that no worker has cached the one that a request names
MOST_TIMES, MOST_DIRECTORY_MS = 1.10, 0.02
COLUMNS = (
    "Row",
    "one server",
    *(f"each of {count} shards" if count > 1 else "1 shard" for count in COUNTS),
    "times",
    "directory",
    "together: one server",
    "together: shards",
)
_SESSIONS = (
    "SELECT pid FROM pg_stat_activity WHERE application_name = ANY ($1::text[]) AND backend_type = 'client backend'"
)
_READING = """\
CPU time for one request in ms, of the sessions of each server that serve requests: neither background work, nor vacuum, nor what
these sessions do while nothing is asked, which is measured before each row. Of several rounds the cheapest counts, because what else
runs can only add to it. What a request to one shard costs the others counts, too: they find stores that a worker does not know. Each
shard is a PostgreSQL server with a store of its own, and the one server has as many stores. The service grows from 1 to 2 and 4
shards. After each step every shard is asked in turn, as though it had a machine of its own, and the one server as well. *times* is the
mean of these three comparisons; each of them varies by a tenth from run to run. *directory* is what a request costs there at most.
*together* asks for all stores at the same time, on the one server and on 4 shards: servers that share two cores also share their
caches. `cold` lists the products of one of 2,000 stores, so that the store and the token are looked up each time. Rates would say
nothing here.
"""


class Spent(msgspec.Struct, frozen=True):
    """The CPU for one request in ms: on the one server, on each shard, and at most in the directory."""

    plain: float
    shards: list[float]
    directory: float


class ShardRow(msgspec.Struct, frozen=True):
    """A request, by the number of shards, each asked in turn, and with all asked at the same time."""

    name: str
    spent: Mapping[int, Spent]
    together: Spent

    @property
    def times(self) -> float:
        return statistics.geometric_mean(statistics.mean(spent.shards) / spent.plain for spent in self.spent.values())

    @property
    def directory(self) -> float:
        return max(spent.directory for spent in [*self.spent.values(), self.together])

    def cells(self) -> list[str]:
        figures = [
            statistics.mean(spent.plain for spent in self.spent.values()),
            *(statistics.mean(self.spent[count].shards) for count in COUNTS),
        ]
        together = [self.together.plain, statistics.mean(self.together.shards)]
        return [
            self.name,
            *(f"{figure:.3f}" for figure in figures),
            f"{self.times:.2f}",
            f"{self.directory:.4f}",
            *(f"{figure:.3f}" for figure in together),
        ]


class ShardResults(msgspec.Struct, frozen=True):
    """The rows, and the CPU of these sessions in ms per second while nothing is asked."""

    rows: list[ShardRow]
    idle: Mapping[str, float]

    @property
    def met(self) -> bool:
        return all(row.times <= MOST_TIMES and row.directory <= MOST_DIRECTORY_MS for row in self.rows)

    def summary(self) -> str:
        idle = ", ".join(f"{name} {spent:.1f}" for name, spent in self.idle.items())
        targets = f"At most {MOST_TIMES:g} times the one server, and {MOST_DIRECTORY_MS:g} ms in the directory"
        return f"{targets}: {'met' if self.met else 'missed'}. Idle, in ms of CPU a second: {idle}."


class Server(msgspec.Struct, frozen=True):
    """A database server of this machine."""

    url: str

    async def analyze(self) -> None:
        """Renew the statistics, as autovacuum does within a minute: plans for empty tables read all rows of what has grown since."""
        db = await connect(self.url, name="bench", statement_timeout_ms=0)
        try:
            await db.execute("ANALYZE")
        finally:
            await db.close()

    def cpu(self) -> dict[int, float]:
        """The CPU seconds of each session that serves requests, by process id."""
        return {pid: _seconds(pid) for pid in asyncio.run(self._sessions())}

    async def _sessions(self) -> list[int]:
        db = await connect(self.url, name="bench")
        try:
            rows = await db.fetch(_SESSIONS, [APPLICATION_NAME, APPLICATION_NAME + FENCING])
        finally:
            await db.close()
        return [row[0] for row in rows]


def _seconds(pid: int) -> float:
    with suppress(OSError):  # it has ended
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    return 0.0


class Served(msgspec.Struct, frozen=True):
    """A service, the requests of each of its stores, and its servers; a shard has the name of its store."""

    service: Service
    requests: Mapping[str, Mapping[str, Request]]  # by store, then by row
    servers: Mapping[str, Server]

    def run(self, row: str, stores: Sequence[str], given: Load, idle: Mapping[str, float]) -> dict[str, float]:
        """Ask for some of the stores at the same time; returns the CPU of each server for one of its requests in ms."""
        before, started = _cpu(self.servers), time.monotonic()
        with ThreadPoolExecutor(len(stores)) as threads:
            asked = [
                threads.submit(drive_http, self.service.origin, self.requests[store][row], given) for store in stores
            ]
            figures = [each.result() for each in asked]
        seconds, after = time.monotonic() - started, _cpu(self.servers)
        counts = {store: each.per_second * given.seconds for store, each in zip(stores, figures, strict=True)}
        every = sum(counts.values())
        return {
            name: (1000 * _spent(before[name], after[name]) - idle[name] * seconds) / counts.get(name, every)
            for name in self.servers
        }


def _cpu(servers: Mapping[str, Server]) -> dict[str, dict[int, float]]:
    return {name: server.cpu() for name, server in servers.items()}


def _spent(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """The CPU seconds between two moments; a session that was opened in between counts as a whole."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


def _idle(servers: Mapping[str, Server]) -> dict[str, float]:
    before = _cpu(servers)
    time.sleep(IDLE_S)
    return {name: 1000 * _spent(before[name], after) / IDLE_S for name, after in _cpu(servers).items()}


async def _add_cold_stores(directory: str, name: str, app: NewSecret, shard: str = "", url: str = "") -> None:
    """Add empty stores that are in a shard from the beginning, or else in the one server, and install the app on them."""
    url = url or directory
    db = await connect(directory, statement_timeout_ms=0)
    await db.execute(
        """INSERT INTO stores (handle, name, currency, shard)
           SELECT 'cold-' || $1::text || '-' || n, 'Cold', 'USD', $2 FROM generate_series(1, $3::integer) n""",
        name,
        shard,
        COLD_STORES,
    )
    await db.close()
    db = await connect(url, statement_timeout_ms=0)
    found, pattern = 0, f"cold-{name}-%"
    while found < COLD_STORES:  # until the directory's rows have arrived
        found = (await db.fetch("SELECT count(*) FROM stores WHERE handle LIKE $1", pattern))[0][0]
        await asyncio.sleep(0.05)
    await db.execute(
        """INSERT INTO installations (store_id, app_id, scopes)
           SELECT id, $2, '{products:read}' FROM stores WHERE handle LIKE $1""",
        pattern,
        app.app_id,
    )
    await db.execute("VACUUM ANALYZE")
    await db.close()


async def _load_plain(url: str, secret_key: str) -> tuple[list[Loaded], NewSecret]:
    loaded, app = await _load(url, secret_key, STORES)
    for name in STORES:
        await _add_cold_stores(url, name, app)
    return loaded, app


async def _grow(folder: Path, urls: Mapping[str, str], secret_key: str, app: NewSecret, names: Sequence[str]) -> None:
    """Add shards, and move to each the store of its name."""
    directory = urls[""]
    settings = load({}, database_url=directory, secret_key=secret_key, data_dir=folder)
    fleet = Fleet(settings, directory, {name: urls[name] for name in names})
    await fleet.add_shards()
    for name in names:
        await moving.move(fleet.ask_for(name, name))
        await _add_cold_stores(directory, name, app, name, urls[name])


async def _load(url: str, secret_key: str, handles: Sequence[str]) -> tuple[list[Loaded], NewSecret]:
    db = await connect(url, statement_timeout_ms=0)
    try:
        loaded = await catalog.load_stores(db, handles, PRODUCTS)
        app: NewSecret | None = None
        for store in loaded:
            app = await register(load({}, database_url=url, secret_key=secret_key), store.handle, app)
            await writes.prepare(db, store, baseline=False)
    finally:
        await db.close()
    if app is None:
        raise CannotMeasure("no store was loaded")
    return loaded, app


def _requests(store: Loaded, access: Access, name: str) -> dict[str, Request]:
    headers = {"Authorization": f"Bearer {access.token}"}
    path = f"/stores/cold-{name}-%d{PREFIX}/products?limit=10"
    return {**requests_of(store, access), "cold": Request(path, first_id=1, last_id=COLD_STORES, headers=headers)}


def compare(folder: Path, given: Load, rounds: int, workers: int, console: Console) -> ShardResults:
    """Measure every row on one server and on shards, in turns."""
    given = msgspec.structs.replace(given, connections=max(1, given.connections // max(COUNTS)))
    os.environ.setdefault(TEMPLATE, f"bench_{os.getpid()}")
    secret_key = secrets.token_hex(32)
    with ExitStack() as stack:
        stack.callback(remove_template)
        plain_url = stack.enter_context(EmbeddedPostgres(copy_migrated(folder / "plain"))).dsn
        urls: dict[str, str] = {}
        for name in ("", *STORES):
            server = stack.enter_context(replicating_server(folder / (name or "directory"), durable=True))
            urls[name] = as_superuser(server.dsn)
        one = asyncio.run(_load_plain(plain_url, secret_key))
        many = asyncio.run(_load(urls[""], secret_key, STORES))
        plain = _serve(stack, folder / "one", {"": plain_url}, one, secret_key, workers)
        sharded = _serve(stack, folder / "many", urls, many, secret_key, workers)
        found: dict[str, dict[int, Spent]] = {row: {} for row in plain.requests[STORES[0]]}
        together: dict[str, Spent] = {}
        plain_idle, idle = _idle(plain.servers), _idle(sharded.servers)
        for before, count in pairwise((0, *COUNTS)):
            asyncio.run(_grow(folder, urls, secret_key, many[1], STORES[before:count]))
            time.sleep(IDLE_S)
            for row, by_count in found.items():
                plain_idle, idle = _idle(plain.servers), _idle(sharded.servers)
                both = Sides(plain, plain_idle, sharded, idle, given, rounds)
                by_count[count] = both.in_turn(row, STORES[:count])
                if count == max(COUNTS):
                    together[row] = both.together(row, STORES)
                console.print(f"{row}, {count} shards: {by_count[count]}")
        rows = [ShardRow(name, spent, together[name]) for name, spent in found.items()]
        quiet = {"one server": plain_idle[PLAIN], "directory": idle[DIRECTORY_NAME]}
        return ShardResults(rows, {**quiet, "a shard": statistics.mean(idle[name] for name in STORES)})


class Sides(msgspec.Struct, frozen=True):
    """The one server and the shards, with what each spends while nothing is asked. Of several rounds the cheapest counts: whatever
    else runs on the machine only adds to the CPU time of a request."""

    plain: Served
    plain_idle: Mapping[str, float]
    sharded: Served
    idle: Mapping[str, float]
    given: Load
    rounds: int

    def in_turn(self, row: str, stores: Sequence[str]) -> Spent:
        """Ask the one server for one store, and then each shard."""
        ones: list[float] = []
        many: list[list[dict[str, float]]] = []
        for number in range(self.rounds + 1):
            one = self.plain.run(row, stores[:1], self.given, self.plain_idle)[PLAIN]
            each = [self.sharded.run(row, [store], self.given, self.idle) for store in stores]
            if number:
                ones.append(one)
                many.append(each)
            else:  # a warm-up
                for server in [*self.plain.servers.values(), *self.sharded.servers.values()]:
                    asyncio.run(server.analyze())
        shards = [min(_of_shards(spent[n]) for spent in many) for n in range(len(stores))]
        directory = statistics.median(statistics.mean(each[DIRECTORY_NAME] for each in spent) for spent in many)
        return Spent(min(ones), shards, directory)

    def together(self, row: str, stores: Sequence[str]) -> Spent:
        """Ask for all stores at the same time."""
        ones: list[float] = []
        many: list[dict[str, float]] = []
        for _ in range(self.rounds):
            ones.append(self.plain.run(row, stores, self.given, self.plain_idle)[PLAIN])
            many.append(self.sharded.run(row, stores, self.given, self.idle))
        shards = [min(spent[store] for spent in many) for store in stores]
        return Spent(min(ones), shards, statistics.median(spent[DIRECTORY_NAME] for spent in many))


def _of_shards(spent: Mapping[str, float]) -> float:
    """What a request to one shard cost all of them."""
    return sum(figure for name, figure in spent.items() if name != DIRECTORY_NAME)


def _serve(
    stack: ExitStack,
    home: Path,
    urls: Mapping[str, str],
    loaded: tuple[list[Loaded], NewSecret],
    secret_key: str,
    workers: int,
) -> Served:
    """Serve the stores."""
    home.mkdir()
    stores, app = loaded
    service = stack.enter_context(services.stoa(urls[""], home, workers=workers, secret_key=secret_key))
    access = Access(app, get_token(service, app))
    requests = {store.handle: _requests(store, access, store.handle) for store in stores}
    names = {"": PLAIN if len(urls) == 1 else DIRECTORY_NAME}
    return Served(service, requests, {names.get(key, key): Server(as_superuser(url)) for key, url in urls.items()})


def as_markdown(results: ShardResults, command: str) -> str:
    machine = describe_machine(MAJOR_VERSION).sentence()
    table = as_table(COLUMNS, [row.cells() for row in results.rows])
    return "\n".join([f"Made by `{command}`. {machine}\n", _READING, table, f"{results.summary()}\n"])
