"""One plain server, and 1, 2 and 4 shards on the same machine, measured in turns: the CPU time of each server for one request."""

import asyncio
import os
import secrets
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
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
from stoa.rest.dispatch import PREFIX
from stoa.settings import load
from stoa.shards import moving

SHARDS = ("s1", "s2", "s3", "s4")
COUNTS = (1, 2, 4)
PRODUCTS = 1_000  # of each measured store
COLD_STORES = 2_000  # on each server: so many that no worker has cached the one that a request names
MOST_TIMES, MOST_DIRECTORY_MS = 1.10, 0.02
COLUMNS = (
    "Row",
    "one server",
    *(f"{count} shards" if count > 1 else "1 shard" for count in COUNTS),
    "worst",
    "directory",
)
_SESSIONS = (
    "SELECT pid FROM pg_stat_activity WHERE application_name = ANY ($1::text[]) AND backend_type = 'client backend'"
)
_READING = """\
CPU time for one request in ms, of the sessions of each server that serve requests: neither background work, nor vacuum, nor what these
sessions do while nothing is asked. Each shard is a PostgreSQL server with a store of its own, which gets as many connections as the one server: with 4 shards there are four times as
many requests at once. *worst* is the shard whose requests cost most, compared with the one server, and *directory* is what a
request costs there, with 4 shards. `cold` lists the products of one of 2,000 stores, so that the store and the token are looked up
each time. Servers, services and load generators share the cores, so rates would say nothing.
"""


class Spent(msgspec.Struct, frozen=True):
    """The CPU for one request in ms: on each shard that was asked, and in the directory."""

    shards: list[float]
    directory: float = 0.0


class ShardRow(msgspec.Struct, frozen=True):
    """A request on one server, and by the number of shards that are asked at the same time."""

    name: str
    plain: float
    sharded: Mapping[int, Spent]

    @property
    def worst(self) -> float:
        return max(cpu for spent in self.sharded.values() for cpu in spent.shards) / self.plain

    @property
    def directory(self) -> float:
        return max(spent.directory for spent in self.sharded.values())

    def cells(self) -> list[str]:
        means = [f"{statistics.mean(self.sharded[count].shards):.3f}" for count in COUNTS]
        return [self.name, f"{self.plain:.3f}", *means, f"{self.worst:.2f} times", f"{self.directory:.4f}"]


class ShardResults(msgspec.Struct, frozen=True):
    """The rows, and the CPU of these sessions in ms per second while nothing is asked."""

    rows: list[ShardRow]
    idle: Mapping[str, float]

    @property
    def met(self) -> bool:
        return all(row.worst <= MOST_TIMES and row.directory <= MOST_DIRECTORY_MS for row in self.rows)

    def summary(self) -> str:
        idle = ", ".join(f"{name} {spent:.1f}" for name, spent in self.idle.items())
        targets = f"At most {MOST_TIMES:g} times the one server, and {MOST_DIRECTORY_MS:g} ms in the directory"
        return f"{targets}: {'met' if self.met else 'missed'}. Idle, in ms of CPU a second: {idle}."


class Server(msgspec.Struct, frozen=True):
    """A database server of this machine."""

    url: str

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
    """A service, and for each of its servers with stores the requests that are measured there."""

    service: Service
    requests: Mapping[str, Mapping[str, Request]]  # by server, then by row
    servers: Mapping[str, Server]

    def run(self, row: str, servers: Sequence[str], given: Load, idle: Mapping[str, float]) -> dict[str, float]:
        """Drive some of the servers at the same time; returns the CPU of each server for one of its requests in ms."""
        before, started = _cpu(self.servers), time.monotonic()
        with ThreadPoolExecutor(len(servers)) as threads:
            asked = [
                threads.submit(drive_http, self.service.origin, self.requests[server][row], given) for server in servers
            ]
            figures = [each.result() for each in asked]
        seconds, after = time.monotonic() - started, _cpu(self.servers)
        counts = {server: each.per_second * given.seconds for server, each in zip(servers, figures, strict=True)}
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


async def _add_cold_stores(directory: str, shard: str, name: str, app: NewSecret) -> None:
    """Add empty stores that are in a shard from the beginning, and install the app on them."""
    db = await connect(directory, statement_timeout_ms=0)
    await db.execute(
        """INSERT INTO stores (handle, name, currency, shard)
           SELECT 'cold-' || $1::text || '-' || n, 'Cold', 'USD', $2 FROM generate_series(1, $3::integer) n""",
        name or "plain",
        name,
        COLD_STORES,
    )
    await db.close()
    db = await connect(shard, statement_timeout_ms=0)
    found, pattern = 0, f"cold-{name or 'plain'}-%"
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
    loaded, app = await _load(url, secret_key, ["plain"])
    await _add_cold_stores(url, url, "", app)
    return loaded, app


async def _load_sharded(folder: Path, urls: Mapping[str, str], secret_key: str) -> tuple[list[Loaded], NewSecret]:
    """Load the stores of all shards into the directory, and move each to its shard."""
    directory = urls[""]
    loaded, app = await _load(directory, secret_key, SHARDS)
    settings = load({}, database_url=directory, secret_key=secret_key, data_dir=folder)
    fleet = Fleet(settings, directory, {name: url for name, url in urls.items() if name})
    await fleet.add_shards()
    for store, name in zip(loaded, SHARDS, strict=True):
        await moving.move(fleet.ask_for(store.handle, name))
        await _add_cold_stores(directory, urls[name], name, app)
    return loaded, app


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
    os.environ.setdefault(TEMPLATE, f"bench_{os.getpid()}")
    secret_key = secrets.token_hex(32)
    with ExitStack() as stack:
        stack.callback(remove_template)
        plain_url = stack.enter_context(EmbeddedPostgres(copy_migrated(folder / "plain"))).dsn
        urls: dict[str, str] = {}
        for name in ("", *SHARDS):
            server = stack.enter_context(replicating_server(folder / (name or "directory"), durable=True))
            urls[name] = as_superuser(server.dsn)
        started = time.monotonic()
        plain = _serve(
            stack, folder / "one", {"": plain_url}, asyncio.run(_load_plain(plain_url, secret_key)), secret_key, workers
        )
        loaded = asyncio.run(_load_sharded(folder, urls, secret_key))
        sharded = _serve(stack, folder / "many", urls, loaded, secret_key, workers)
        console.print(f"Loaded {len(SHARDS) + 1} servers in {time.monotonic() - started:.0f} s.")
        time.sleep(IDLE_S)
        plain_idle, idle = _idle(plain.servers), _idle(sharded.servers)
        rows: list[ShardRow] = []
        for name in plain.requests["plain"]:
            ones: list[float] = []
            many: dict[int, list[dict[str, float]]] = {count: [] for count in COUNTS}
            for number in range(rounds + 1):  # the first is a warm-up
                one = plain.run(name, ["plain"], given, plain_idle)["plain"]
                shares = {count: sharded.run(name, SHARDS[:count], given, idle) for count in COUNTS}
                if number:
                    ones.append(one)
                    for count, spent in shares.items():
                        many[count].append(spent)
            rows.append(ShardRow(name, statistics.median(ones), {n: _median(spent, n) for n, spent in many.items()}))
            console.print(" | ".join(rows[-1].cells()))
        quiet = {"one server": plain_idle["plain"], "directory": idle["directory"]}
        return ShardResults(rows, {**quiet, "a shard": statistics.mean(idle[name] for name in SHARDS)})


def _median(rounds: Sequence[Mapping[str, float]], count: int) -> Spent:
    def of(name: str) -> float:
        return statistics.median(spent[name] for spent in rounds)

    return Spent([of(name) for name in SHARDS[:count]], of("directory"))


def _serve(
    stack: ExitStack,
    home: Path,
    urls: Mapping[str, str],
    loaded: tuple[list[Loaded], NewSecret],
    secret_key: str,
    workers: int,
) -> Served:
    """Serve the stores. A server with one of them has the name of the store; the directory of shards has none."""
    home.mkdir()
    stores, app = loaded
    service = stack.enter_context(services.stoa(urls[""], home, workers=workers, secret_key=secret_key))
    access = Access(app, get_token(service, app))
    requests = {store.handle: _requests(store, access, store.handle) for store in stores}
    names = {"": "plain" if len(urls) == 1 else "directory"}
    return Served(service, requests, {names.get(key, key): Server(as_superuser(url)) for key, url in urls.items()})


def as_markdown(results: ShardResults, command: str) -> str:
    machine = describe_machine(MAJOR_VERSION).sentence()
    table = as_table(COLUMNS, [row.cells() for row in results.rows])
    return "\n".join([f"Made by `{command}`. {machine}\n", _READING, table, f"{results.summary()}\n"])
