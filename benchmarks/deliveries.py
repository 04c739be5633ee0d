"""`python -m benchmarks.deliveries`: measures webhook latency, throughput, and the queue in the database."""

import asyncio
import itertools
import os
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from tests.support.termination import exit_on_sigterm

from benchmarks import certificates
from benchmarks.report import as_table, record
from benchmarks.results import Mark, describe_machine
from benchmarks.services import free_port, running
from stoa.access.encryption import Cipher
from stoa.db.connection import connect
from stoa.db.embedded import MAJOR_VERSION, EmbeddedPostgres
from stoa.db.migrate import migrate
from stoa.db.pool import Database
from stoa.db.query import json_rows
from stoa.events.notify import Notifier
from stoa.settings import load, secret_key
from stoa.webhooks.delivery import queries
from stoa.webhooks.http.message import new_secret

SECRET = secrets.token_hex(32)
LANES = 64
DATA = '{"id":1,"name":"Washed linen shirt","description":"' + "x" * 800 + '"}'
LEASE_S = 600.0


class Bench(msgspec.Struct):
    """A database with subscriptions, and their receiver."""

    database: Database
    notify: Notifier
    url: str
    arrivals: Path
    folder: Path
    trusted: Path | None = None


class Latency(msgspec.Struct):
    """Sorted milliseconds: from commit to arrival, and of the commit itself."""

    arrival: list[float]
    commit: list[float]


@contextmanager
def _server(folder: Path, url: str) -> Generator[str]:
    """A migrated database that is given, or a temporary server."""
    if url:
        yield url
        return
    with EmbeddedPostgres(folder / "postgres") as server:
        yield server.dsn


@asynccontextmanager
async def prepared(folder: Path, *, dead: int = 0, tls: bool = False, url: str = "") -> AsyncGenerator[Bench]:
    """Stores with one subscription each, some of them with a receiver that never responds."""
    port, arrivals = free_port(), folder / "arrivals"
    trusted, certificate = certificates.make(folder) if tls else (None, None)
    receiver = [sys.executable, "-m", "benchmarks.receiver", str(port), str(arrivals)]
    receiver += [str(certificate)] if certificate else []
    scheme = "https" if tls else "http"
    with _server(folder, url) as dsn, running(receiver, {}, folder / "receiver.log"):
        await migrate(dsn)
        database, notify = Database(dsn, size=4, statement_timeout_ms=0), Notifier(dsn)
        cipher = Cipher(secret_key(load({}, secret_key=SECRET)))
        for number in range(1, LANES + 1):
            path = "dead" if number <= dead else "hook"
            await _subscribe(database, cipher, number, f"{scheme}://127.0.0.1:{port}/{path}/{number}")
        try:
            yield Bench(database, notify, dsn, arrivals, folder, trusted)
        finally:
            await notify.close()
            await database.close()


async def _subscribe(database: Database, cipher: Cipher, number: int, url: str) -> None:
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO stores (id, handle, name, currency) VALUES ($1, $2, 'A store', 'USD')",
            number,
            f"store-{number}",
        )
        await db.execute(
            "INSERT INTO apps (id, client_id, name, scopes) VALUES ($1, $2, 'An app', '{products:read}')",
            number,
            f"client-{number}",
        )
        await db.execute(
            "INSERT INTO installations (store_id, app_id, scopes) VALUES ($1, $1, '{products:read}')", number
        )
        await db.execute(
            """INSERT INTO webhooks (store_id, id, app_id, url, events, sealed_secret, same_key)
               VALUES ($1, $1, $1, $2, '{product.*}', $3, $4)""",
            number,
            url,
            cipher.encrypt(new_secret(), "webhooks", "secret", number, number),
            os.urandom(8),
        )
        await db.execute("INSERT INTO lanes (store_id, webhook_id) VALUES ($1, $1)", number)


_EVENTS = """INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
             SELECT 1 + n % $1::integer, $2 || n, 'product.updated', 'product', n, 1, '{"type":"operator"}', '{}', $3, 'req'
               FROM generate_series($4::integer, $5::integer) AS n"""


def _worker(bench: Bench) -> Any:
    settings = {
        "STOA_DATABASE_URL": bench.url,
        "STOA_SECRET_KEY": SECRET,
        "STOA_DATA_DIR": str(bench.folder / "data"),
        "STOA_WEBHOOK_ALLOW": "127.0.0.0/8",
        "STOA_METRICS": "off",
        **({"SSL_CERT_FILE": str(bench.trusted)} if bench.trusted else {}),
    }
    command = [sys.executable, "-m", "stoa", "worker", "--only", "deliveries"]
    return running(command, settings, bench.folder / "worker.log")


def _arrived(bench: Bench) -> dict[str, float]:
    """The time of each event's first arrival."""
    found: dict[str, float] = {}
    for line in bench.arrivals.read_text().splitlines():
        event, _, moment = line.partition(" ")
        if moment:
            found.setdefault(event, float(moment))
    return found


async def _until(bench: Bench, count: int) -> dict[str, float]:
    deadline = time.monotonic() + 300
    while len(found := _arrived(bench)) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} arrived"
        await asyncio.sleep(0.2)
    return found


def _cpu_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Throughput(msgspec.Struct):
    """Deliveries per second of one worker on a full queue, and the CPU time of each in the worker and in its connections."""

    per_second: float
    worker_us: float
    connections_us: float


async def throughput(folder: Path, count: int, *, tls: bool = False, url: str = "") -> Throughput:
    async with prepared(folder, tls=tls, url=url) as bench:
        [[before]] = await bench.database.fetch("SELECT now()")
        with _worker(bench) as process:
            await bench.database.execute(_EVENTS, LANES, "warm", DATA, 1, 500)
            await _until(bench, 500)
            rows = await bench.database.fetch(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_start > $1", before
            )
            measured = [process, *(row[0] for row in rows)]
            began = [_cpu_seconds(each) for each in measured]
            await bench.database.execute(_EVENTS, LANES, "evt", DATA, 1, count)
            found = await _until(bench, 500 + count)
            worker, *connections = [_cpu_seconds(each) - start for each, start in zip(measured, began, strict=True)]
    times = sorted(moment for event, moment in found.items() if event.startswith("evt"))
    return Throughput(count / (times[-1] - times[0]), worker / count * 1e6, sum(connections) / count * 1e6)


async def capacity(folder: Path, seconds: float) -> float:
    """Deliveries per second while four writers commit single events as fast as they can."""
    async with prepared(folder) as bench:
        with _worker(bench):
            await bench.database.execute(_EVENTS, LANES, "warm", DATA, 1, 500)
            await _until(bench, 500)
            started = time.time()
            ends = time.monotonic() + seconds
            numbers = itertools.count(1)

            async def write() -> None:
                while time.monotonic() < ends:
                    await _commit_one(bench, next(numbers))

            await asyncio.gather(*(write() for _ in range(4)))
            times = [
                moment for moment in _arrived(bench).values() if started + seconds / 3 < moment < started + seconds
            ]
    return len(times) / (seconds * 2 / 3)


async def _commit_one(bench: Bench, number: int) -> tuple[str, float, float]:
    """Commit one event; returns its id, the time of the commit, and how long it took."""
    store, began = 1 + number % LANES, time.time()
    await bench.database.execute(_EVENTS.replace("1 + n % $1::integer", "$1"), store, "evt", DATA, number, number)
    committed = time.time()
    bench.notify(store)
    return f"evt{number}", committed, committed - began


async def latency(folder: Path, per_s: float, seconds: float, *, dead: int = 0) -> Latency:
    """The time from commit to arrival, of events at a constant rate."""
    writing: list[asyncio.Task[tuple[str, float, float]]] = []
    async with prepared(folder, dead=dead) as bench:
        with _worker(bench):
            await bench.database.execute(_EVENTS, LANES, "warm", DATA, 1, 500)
            await _until(bench, 500 * (LANES - dead) // LANES - 5)
            if dead:
                await asyncio.sleep(20)  # until the breakers of the dead receivers are open
            started, number = time.monotonic(), 0
            while time.monotonic() - started < seconds:
                number += 1
                writing.append(asyncio.create_task(_commit_one(bench, number)))
                await asyncio.sleep(max(0.0, started + number / per_s - time.monotonic()))
            written = await asyncio.gather(*writing)
            sent = {event: committed for event, committed, _ in written}
            expected = [event for event in sent if 1 + int(event[3:]) % LANES > dead]
            found = await _until(bench, len(expected))
    return Latency(
        sorted((found[event] - sent[event]) * 1000 for event in expected if event in found),
        sorted(took * 1000 for _, _, took in written),
    )


async def queue(folder: Path, pending: int, seconds: float) -> tuple[float, list[float]]:
    """Claimed and settled deliveries per second in the database alone, and the milliseconds of each claim, while one lane
    has this many pending deliveries."""
    async with prepared(folder) as bench:
        fill = """INSERT INTO pending_deliveries (store_id, webhook_id, sequence, event_id, event_day, event_type,
                         resource_type, resource_id, resource_version, due_at, created_at)
                  SELECT $1::bigint, $1, n, 'evt' || n, current_date, 'product.updated', 'product', n, 1, now(), now()
                    FROM generate_series($2::bigint, $3::bigint) AS n"""
        each = 20_000
        for number in range(2, LANES + 1):
            await bench.database.execute(fill, number, 1, each)
        for start in range(1, pending + 1, 500_000):
            await bench.database.execute(fill, 1, start, min(start + 499_999, pending))
        await bench.database.execute(
            """UPDATE lanes SET due_at = now(), waiting = CASE WHEN webhook_id = 1 THEN $1::bigint ELSE $2 END,
                      next_sequence = CASE WHEN webhook_id = 1 THEN $1::bigint ELSE $2 END + 1""",
            pending,
            each,
        )
        await bench.database.execute("VACUUM ANALYZE pending_deliveries")
        relaxed = f"{bench.url}{'&' if '?' in bench.url else '?'}synchronous_commit=off"
        claims: list[float] = []
        done = await asyncio.gather(*(_drain_lanes(relaxed, f"worker-{n}", seconds, claims) for n in range(3)))
    return sum(done) / seconds, sorted(claims)


ATTEMPTS = '[{"at":"2026-01-01T00:00:00Z","duration_ms":9,"response_status":200,"response_body":"ok","error":null}]'


async def _drain_lanes(url: str, owner: str, seconds: float, claims: list[float]) -> int:
    """Lease a lane, read its first deliveries, settle them as succeeded, and release it, until the time is over."""
    db = await connect(url, statement_timeout_ms=0)
    done, ends = 0, time.monotonic() + seconds
    while time.monotonic() < ends:
        started = time.perf_counter()
        leased = await queries.LEASE_LANES.all(db, list(range(LANES)), owner, 1, LEASE_S, LEASE_S)
        claims.append((time.perf_counter() - started) * 1000)
        for lane in leased:
            rows = await db.fetch(
                """SELECT sequence FROM pending_deliveries WHERE store_id = $1 AND webhook_id = $2 AND due_at <= now()
                    ORDER BY due_at, sequence LIMIT 50""",
                lane.store_id,
                lane.webhook_id,
            )
            count, key = len(rows), (lane.store_id, lane.webhook_id)
            state = queries.LaneState(
                lane=1, store_id=lane.store_id, webhook_id=lane.webhook_id, epoch=lane.epoch, released=True,
                succeeded=count, attempts=count, duration_ms=1,
            )  # fmt: skip
            results = [queries.DeliveryResult(*key, row[0], "succeeded", None, 1, ATTEMPTS, lane=1) for row in rows]
            await queries.SETTLE.all(db, owner, LEASE_S, LEASE_S, json_rows([state]), json_rows(results))
            done += count
    await db.close()
    return done


def _percentile(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]


def _spread(values: Sequence[float]) -> str:
    return ", ".join(f"p{round(share * 100)} {_percentile(values, share):.1f} ms" for share in (0.5, 0.95, 0.99))


def _meets(values: Sequence[float], *wanted: float) -> bool:
    return all(_percentile(values, share) <= most for share, most in zip((0.5, 0.95, 0.99), wanted, strict=True))


async def run(seconds: float, pending: int) -> list[Mark]:
    marks: list[Mark] = []
    with tempfile.TemporaryDirectory(prefix="stoa-bench-") as name:
        folders = iter(Path(name) / str(n) for n in range(9))

        def folder() -> Path:
            made = next(folders)
            made.mkdir()
            return made

        if pending:
            rate, claims = await queue(folder(), pending, seconds)
            p99 = _percentile(claims, 0.99)
            marks.append(Mark(f"claim, {pending:,} pending", f"p99 {p99:.1f} ms", "p99 20 ms", p99 <= 20))
            marks.append(Mark(f"claim and settle, {pending:,} pending", f"{rate:,.0f}/s", "20,000/s", rate >= 20_000))
            return marks
        plain = await throughput(folder(), int(1_500 * seconds))
        cpu = f"{plain.worker_us:,.0f} µs"
        marks.append(Mark("CPU time of the worker for a delivery, plain HTTP", cpu, "400 µs", plain.worker_us <= 400))
        marks.append(
            Mark("CPU time of its connections in PostgreSQL", f"{plain.connections_us:,.0f} µs", "-", met=True)
        )
        marks.append(Mark("deliveries per second of one worker", f"{plain.per_second:,.0f}/s", "-", met=True))
        secure = await throughput(folder(), int(700 * seconds), tls=True)
        cpu = f"{secure.worker_us:,.0f} µs"
        marks.append(Mark("CPU time of the worker, TLS with keep-alive", cpu, "1,000 µs", secure.worker_us <= 1_000))
        steady = await capacity(folder(), seconds)
        marks.append(Mark("steady state, one event per transaction", f"{steady:,.0f}/s", "-", met=True))
        times = await latency(folder(), steady / 2, seconds)
        met = _meets(times.arrival, 10, 25, 50)
        marks.append(Mark("commit to arrival, half load", _spread(times.arrival), "10, 25, 50 ms", met))
        marks.append(Mark("the commit itself", _spread(times.commit), "-", met=True))
        times = await latency(folder(), steady / 4, seconds, dead=LANES // 4)
        p99 = _percentile(times.arrival, 0.99)
        marks.append(
            Mark("commit to arrival, a quarter of receivers dead", _spread(times.arrival), "p99 100 ms", p99 <= 100)
        )
        marks.append(Mark("the commit itself", _spread(times.commit), "-", met=True))
        rate, _ = await queue(folder(), 20_000, seconds)
        marks.append(Mark("claim and settle in the database", f"{rate:,.0f}/s", "20,000/s", rate >= 20_000))
    return marks


def as_markdown(marks: Sequence[Mark], command: str) -> str:
    rows = [[mark.what, mark.figure, mark.wanted, "yes" if mark.met else "**no**"] for mark in marks]
    machine = describe_machine(str(MAJOR_VERSION)).sentence()
    setup = (
        f"{LANES} stores with one subscription each; worker, database, receiver and writer share the machine's cores."
    )
    return "\n".join(
        [f"Made by `{command}`. {setup}\n", f"{machine}\n", as_table(("What", "Result", "Target", "Met"), rows)]
    )


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(2, 600), default=20, show_default=True, help="Duration of each measurement."
)
@click.option(
    "--pending",
    type=click.IntRange(0),
    default=0,
    help="Measure only the queue, with this many pending deliveries in one lane.",
)
@click.option("--record", "file", type=click.Path(path_type=Path), help="Write the results to a Markdown file.")
def main(seconds: float, pending: int, file: Path | None) -> None:
    """Measure deliveries on a temporary database."""
    exit_on_sigterm()
    marks = asyncio.run(run(seconds, pending))
    for mark in marks:
        Console().print(f"{mark.what}: {mark.figure} ({mark.wanted}{'' if mark.met else ': not met'})")
    if file:
        extra = f" --pending {pending}" if pending else ""
        section = "pending" if pending else "deliveries"
        record(file, section, as_markdown(marks, f"python -m benchmarks.deliveries --seconds {seconds:g}{extra}"))
    sys.exit(0 if all(mark.met for mark in marks) else 1)


if __name__ == "__main__":
    main()
