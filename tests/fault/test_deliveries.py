"""Delivery workers are killed under load and the database restarts: no event is lost."""

import asyncio
import hashlib
import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import msgspec
import pytest

from stoa.access.encryption import Cipher
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.events.notify import Notifier
from stoa.settings import load, secret_key
from stoa.webhooks.http.message import new_secret
from tests.conftest import SECRET_KEY
from tests.fault.test_lost_database import Postgres
from tests.support.data_folders import copy_migrated
from tests.support.deadlocks import Deadlocks, log_deadlocks
from tests.support.receivers import Receiver
from tests.support.service import STOA

SECONDS = float(os.environ.get("DELIVERY_SECONDS", "6"))  # `make deep-deliveries` sets ten minutes
EVENTS_PER_S = 500
STORES, RESOURCES, WORKERS = 4, 50, 3
KILL_EVERY_S = (0.5, 2.5)  # a killed worker is replaced at once, and is often killed again while it starts
RECOVERY_S = 240  # far above what recovery needs, because test machines are busy
MOST_REPEATED = 25  # by a killed worker or a restarted database: requests whose outcome was not stored yet
DATA = '{"id":1,"name":"Mug","description":"' + "x" * 500 + '"}'


class Writer:
    """Writes events at a constant rate, and records which were committed."""

    def __init__(self, database: Database, nudge: Notifier) -> None:
        self.committed: dict[str, int] = {}  # event -> store
        self._database = database
        self._nudge = nudge
        self._versions: Counter[tuple[int, int]] = Counter()

    async def run(self, seconds: float) -> None:
        started, before = time.monotonic(), len(self.committed)
        batch = EVENTS_PER_S // 50
        while (passed := time.monotonic() - started) < seconds:
            behind = int(passed * EVENTS_PER_S) - (len(self.committed) - before)
            if behind >= batch:
                await self._write(batch)
            else:
                await asyncio.sleep((batch - behind) / EVENTS_PER_S)

    async def _write(self, count: int) -> None:
        """Write one transaction of one store; after a failed commit, only missing events are written again."""
        store = random.randint(1, STORES)
        rows: list[tuple[str, int, int]] = []
        for _ in range(count):
            resource = random.randint(1, RESOURCES)
            self._versions[store, resource] += 1
            rows.append((f"evt_{len(self.committed) + len(rows)}", resource, self._versions[store, resource]))
        while True:
            try:
                await self._database.execute(
                    """INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor,
                                           changes, data, request_id)
                       SELECT $1, t.id, 'product.updated', 'product', t.resource::bigint, t.version::integer,
                              '{"type":"operator"}', '{}', $5, 'req'
                         FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS t (id, resource, version, n)
                        WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.store_id = $1 AND e.id = t.id)
                        ORDER BY t.n""",
                    store,
                    *([str(value) for value in column] for column in zip(*rows, strict=True)),
                    DATA,
                )
            except (PostgresError, Unavailable, OSError):
                await asyncio.sleep(0.2)
                continue
            self.committed.update((event, store) for event, _, _ in rows)
            self._nudge(store)
            return


class Workers:
    """Real `stoa worker` processes, which are killed at random and replaced at once."""

    def __init__(self, url: str, folder: Path) -> None:
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("STOA_")},
            "STOA_DATABASE_URL": url,
            "STOA_SECRET_KEY": SECRET_KEY,
            "STOA_DATA_DIR": str(folder),
            "STOA_WEBHOOK_ALLOW": "127.0.0.0/8",
            "STOA_LOG_FORMAT": "json",
        }
        self._log = folder / "workers.log"
        self._members = [self._start() for _ in range(WORKERS)]
        self.kills = 0

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*STOA, "worker", "--only", "deliveries"], env=self._environment, stdout=log, stderr=log
            )

    async def kill_on(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await asyncio.sleep(random.uniform(*KILL_EVERY_S))
            index = random.randrange(WORKERS)
            self._members[index].send_signal(SIGKILL)
            self._members[index].wait()
            self._members[index] = self._start()
            self.kills += 1

    def suspend_most(self) -> list[subprocess.Popen[bytes]]:
        """Suspend all workers but one."""
        for member in self._members[1:]:
            member.send_signal(SIGSTOP)
        return self._members[1:]

    def close(self) -> list[int]:
        """Stop all workers; returns their exit codes."""
        for member in self._members:
            member.send_signal(SIGTERM)
        return [member.wait(60) for member in self._members]

    def output(self) -> str:
        return self._log.read_text()


async def open_stores(database: Database, url: str) -> None:
    """Create stores with one subscription each; every second one requires order per resource."""
    settings = load({}, secret_key=SECRET_KEY)
    cipher = Cipher(secret_key(settings))
    for number in range(1, STORES + 1):
        async with database.transaction() as db:
            await db.execute(
                "INSERT INTO stores (id, handle, name, currency) VALUES ($1, $2, 'A store', 'USD')",
                number,
                f"store-{number}",
            )
            await db.execute(
                "INSERT INTO apps (id, client_id, name, scopes) VALUES ($1, $2, 'An app', '{products:read}')",
                number, f"client-{number}",
            )  # fmt: skip
            await db.execute(
                "INSERT INTO installations (store_id, app_id, scopes) VALUES ($1, $1, '{products:read}')", number
            )
            await db.execute(
                """INSERT INTO webhooks (store_id, id, app_id, url, events, ordering, sealed_secret, same_key)
                   VALUES ($1, $1, $1, $2, '{product.*}', $3, $4, $5)""",
                number,
                f"{url}/{number}",
                "resource" if number % 2 else "none",
                cipher.encrypt(new_secret(), "webhooks", "secret", number, number),
                hashlib.sha256(b"%d" % number).digest(),
            )
            await db.execute("INSERT INTO lanes (store_id, webhook_id) VALUES ($1, $1)", number)


class Arrived(msgspec.Struct):
    store: int
    event: str
    resource: int
    version: int
    sequence: int


def arrivals(receiver: Receiver) -> list[Arrived]:
    found: list[Arrived] = []
    for event in receiver.events:
        resource = event["resource"]
        found.append(Arrived(event["store"]["id"], event["id"], resource["id"], resource["version"], event["sequence"]))
    return found


async def until_drained(database: Database, receiver: Receiver, writer: Writer) -> float:
    """Wait until every event has arrived and is settled; returns how long it took."""
    started = time.monotonic()
    waiting = missing = 1
    while time.monotonic() - started < RECOVERY_S:
        [[waiting]] = await database.fetch(
            "SELECT (SELECT sum(waiting)::bigint FROM lanes) + (SELECT count(*) FROM events WHERE routed_on = 'infinity')"
        )
        if not waiting:
            missing = len(writer.committed.keys() - {received.headers["webhook-id"] for received in receiver.received})
            if not missing:
                return time.monotonic() - started
        await asyncio.sleep(0.5)
    raise AssertionError(f"{missing} events did not arrive, {waiting} are still waiting")


@pytest.mark.timeout(SECONDS + RECOVERY_S + 120)
@pytest.mark.long
async def test_no_event_is_lost_when_workers_are_killed_and_the_database_restarts(tmp_path: Path) -> None:
    with Postgres(copy_migrated(tmp_path / "postgres")) as server:
        await log_deadlocks(server.dsn)
        database, nudge = Database(server.dsn, size=4), Notifier(server.dsn)
        deadlocks = await Deadlocks.since(database.fetch, tmp_path / "postgres" / "server.log")
        async with Receiver() as receiver:
            await open_stores(database, receiver.url)
            workers, writer, stop = Workers(server.dsn, tmp_path), Writer(database, nudge), asyncio.Event()
            killing = asyncio.create_task(workers.kill_on(stop))
            try:
                await writer.run(SECONDS / 2)
                with server.stopped():
                    pass
                await writer.run(SECONDS / 2)
            finally:
                stop.set()
                await killing
            recovered = await until_drained(database, receiver, writer)
            codes = workers.close()
            seen = arrivals(receiver)
        found = await deadlocks.found()
        await nudge.close()
        await database.close()
    assert workers.kills >= WORKERS
    assert {arrived.event for arrived in seen} == set(writer.committed)
    repeated = len(seen) - len(writer.committed)
    print(f"{len(writer.committed)} events, {workers.kills} kills, {repeated} repeated, recovered in {recovered:.1f} s")  # noqa: T201
    assert repeated <= MOST_REPEATED * (workers.kills + 1), f"{repeated} of {len(writer.committed)} arrived twice"
    assert not found, "".join(found)
    # A worker that has just started may not have installed its signal handler yet.
    assert set(codes) <= {0, -SIGTERM}, workers.output()[-2000:]
    assert_gap_free(seen)
    assert_ordered(seen)


@pytest.mark.timeout(RECOVERY_S + 120)
@pytest.mark.long
async def test_the_deliveries_of_a_suspended_worker_are_taken_over(tmp_path: Path) -> None:
    with Postgres(copy_migrated(tmp_path / "postgres")) as server:
        database, nudge = Database(server.dsn, size=4), Notifier(server.dsn)
        async with Receiver() as receiver:
            await open_stores(database, receiver.url)
            workers, writer = Workers(server.dsn, tmp_path), Writer(database, nudge)
            await writer.run(3)
            suspended = workers.suspend_most()
            try:
                await writer.run(3)
                await until_drained(database, receiver, writer)
            finally:
                for member in suspended:
                    member.send_signal(SIGCONT)
            codes = workers.close()
            seen = arrivals(receiver)
        await nudge.close()
        await database.close()
    assert {arrived.event for arrived in seen} == set(writer.committed)
    # On a busy machine, a worker may have been suspended before it installed its signal handler.
    assert set(codes) <= {0, -SIGTERM}, workers.output()[-2000:]
    assert_gap_free(seen)
    assert_ordered(seen)


def assert_gap_free(seen: list[Arrived]) -> None:
    """The sequences of each subscription are 1, 2, 3 ..., one for each event, however often it arrived."""
    for store in range(1, STORES + 1):
        pairs = {(arrived.sequence, arrived.event) for arrived in seen if arrived.store == store}
        assert sorted(sequence for sequence, _ in pairs) == list(range(1, len(pairs) + 1))


def assert_ordered(seen: list[Arrived]) -> None:
    """With ordering by resource, each version of a resource first arrived after the previous one."""
    known: Counter[tuple[int, int]] = Counter()
    for arrived in seen:
        if arrived.store % 2:
            before = known[arrived.store, arrived.resource]
            assert arrived.version <= before + 1
            known[arrived.store, arrived.resource] = max(before, arrived.version)
