"""Workers killed again and again under load, and the database restarted in the middle: no event is lost on its way."""

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

from stoa.access.sealing import Sealer
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.migrate import migrate
from stoa.db.pool import Database
from stoa.events.notify import Notifier
from stoa.settings import load, secret_key
from stoa.webhooks.http.signing import new_secret
from tests.conftest import SECRET_KEY
from tests.fault.test_lost_database import Postgres
from tests.support.receivers import Receiver
from tests.support.service import STOA

SECONDS = float(os.environ.get("DELIVERY_SECONDS", "60"))  # `make deep-deliveries` takes ten minutes
EVENTS_PER_S = 500
STORES, RESOURCES, WORKERS = 4, 50, 3
RECOVERY_S = 240  # only a fault lasts this long: machines that run tests are busy
MOST_REPEATED = 0.005
DATA = '{"id":1,"name":"Mug","description":"' + "x" * 500 + '"}'


class Press:
    """Writes events at an even pace, and knows which of them were committed."""

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
        """One transaction of one store; whether a commit that was cut off took place is asked afterwards."""
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


class Crew:
    """Real `stoa worker` processes, of which one is killed every now and then and replaced at once."""

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
            await asyncio.sleep(random.uniform(1, 4))
            place = random.randrange(WORKERS)
            self._members[place].send_signal(SIGKILL)
            self._members[place].wait()
            self._members[place] = self._start()
            self.kills += 1

    def stop_most(self) -> list[subprocess.Popen[bytes]]:
        """Make all but one stand still, wherever they are just now."""
        for member in self._members[1:]:
            member.send_signal(SIGSTOP)
        return self._members[1:]

    def close(self) -> list[int]:
        """End them in order; answers their exit codes."""
        for member in self._members:
            member.send_signal(SIGTERM)
        return [member.wait(60) for member in self._members]

    def said(self) -> str:
        return self._log.read_text()


async def open_stores(database: Database, url: str) -> None:
    """Stores with one subscription each; of every second one, what happens to a resource must arrive in order."""
    settings = load({}, secret_key=SECRET_KEY)
    sealer = Sealer(secret_key(settings))
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
                sealer.seal(new_secret(), "webhooks", "secret", number, number),
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


async def until_drained(database: Database, receiver: Receiver, press: Press) -> float:
    """Wait until everything has arrived and was recorded; says how long that took."""
    started = time.monotonic()
    waiting = missing = 1
    while time.monotonic() - started < RECOVERY_S:
        [[waiting]] = await database.fetch(
            "SELECT (SELECT sum(waiting)::bigint FROM lanes) + (SELECT count(*) FROM events WHERE routed_on = 'infinity')"
        )
        if not waiting:
            missing = len(press.committed.keys() - {received.headers["webhook-id"] for received in receiver.received})
            if not missing:
                return time.monotonic() - started
        await asyncio.sleep(0.5)
    raise AssertionError(f"{missing} events did not arrive, {waiting} still wait")


@pytest.mark.timeout(SECONDS + RECOVERY_S + 120)
async def test_no_event_is_lost_when_workers_are_killed_and_the_database_restarts(tmp_path: Path) -> None:
    with Postgres(tmp_path / "postgres") as server:
        await migrate(server.dsn)
        database, nudge = Database(server.dsn, size=4), Notifier(server.dsn)
        async with Receiver() as receiver:
            await open_stores(database, receiver.url)
            crew, press, stop = Crew(server.dsn, tmp_path), Press(database, nudge), asyncio.Event()
            killing = asyncio.create_task(crew.kill_on(stop))
            try:
                await press.run(SECONDS / 2)
                with server.stopped():
                    pass
                await press.run(SECONDS / 2)
            finally:
                stop.set()
                await killing
            recovered = await until_drained(database, receiver, press)
            codes = crew.close()
            seen = arrivals(receiver)
        [[deadlocks]] = await database.fetch(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        await nudge.close()
        await database.close()
    assert {arrived.event for arrived in seen} == set(press.committed)
    repeated = len(seen) - len(press.committed)
    print(f"{len(press.committed)} events, {crew.kills} kills, {repeated} repeated, recovered in {recovered:.1f} s")  # noqa: T201
    assert repeated <= MOST_REPEATED * len(press.committed), f"{repeated} of {len(press.committed)} came twice"
    assert deadlocks == 0
    # One that replaced a killed one a moment ago may not have come so far as to hear the signal itself.
    assert set(codes) <= {0, -SIGTERM}, crew.said()[-2000:]
    assert_gap_free(seen)
    assert_ordered(seen)


@pytest.mark.timeout(RECOVERY_S + 120)
async def test_what_a_worker_that_stands_still_has_in_hand_is_taken_over(tmp_path: Path) -> None:
    with Postgres(tmp_path / "postgres") as server:
        await migrate(server.dsn)
        database, nudge = Database(server.dsn, size=4), Notifier(server.dsn)
        async with Receiver() as receiver:
            await open_stores(database, receiver.url)
            crew, press = Crew(server.dsn, tmp_path), Press(database, nudge)
            await press.run(5)
            still = crew.stop_most()
            try:
                await press.run(5)
                await until_drained(database, receiver, press)
            finally:
                for member in still:
                    member.send_signal(SIGCONT)
            codes = crew.close()
            seen = arrivals(receiver)
        await nudge.close()
        await database.close()
    assert {arrived.event for arrived in seen} == set(press.committed)
    # On a busy machine one may have been stopped before it came so far as to hear signals.
    assert set(codes) <= {0, -SIGTERM}, crew.said()[-2000:]
    assert_gap_free(seen)
    assert_ordered(seen)


def assert_gap_free(seen: list[Arrived]) -> None:
    """Each subscription's sequences are 1, 2, 3 ..., one for each event, however often it came."""
    for store in range(1, STORES + 1):
        pairs = {(arrived.sequence, arrived.event) for arrived in seen if arrived.store == store}
        assert sorted(sequence for sequence, _ in pairs) == list(range(1, len(pairs) + 1))


def assert_ordered(seen: list[Arrived]) -> None:
    """Where order was asked for, each version of a resource came for the first time after the one before it."""
    known: Counter[tuple[int, int]] = Counter()
    for arrived in seen:
        if arrived.store % 2:
            before = known[arrived.store, arrived.resource]
            assert arrived.version <= before + 1
            known[arrived.store, arrived.resource] = max(before, arrived.version)
