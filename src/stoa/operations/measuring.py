"""Measures what an operator watches: the queues in the database, and the pools and the event loop of each process."""

import asyncio
import contextlib
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec
from prometheus_client import Gauge

from stoa.db import service_facts
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.fan_out import ANSWER_S
from stoa.db.pool import Database
from stoa.db.query import Executor, Query
from stoa.db.replica import Replica
from stoa.db.shard_outbox import MESSAGES
from stoa.db.shards import DIRECTORY, Shards
from stoa.mail.contract import MailBacklog
from stoa.mail.queries import BACKLOG as MAIL_BACKLOG
from stoa.media.queries import PICTURES_WAITING
from stoa.operations import telemetry
from stoa.rest.unsent import UnsentResponses
from stoa.shards.moves import MOVES_LEFT
from stoa.usage.load import ADD_GAUGES
from stoa.webhooks.delivery.queries import BACKLOG, NOW, Backlog

MEASURE_S = 5.0
MOST_MEASURE_S = 15.0
SAMPLE_S = 0.5
LATE_S = 60.0  # a delivery that no worker takes for this long is a problem
LATE_IMPORT_S = 900.0  # imports of one app wait for each other
MAX_CLOCK_OFFSET_S = 5.0


class ImportQueue(msgspec.Struct):
    running: int
    waiting: int
    oldest: datetime | None


IMPORT_QUEUE = Query(
    ImportQueue,
    """SELECT count(*) FILTER (WHERE lease_owner <> '' AND lease_until > now()) AS running,
              count(*) FILTER (WHERE lease_owner = '' OR lease_until <= now()) AS waiting,
              min(created_at) FILTER (WHERE lease_owner = '' OR lease_until <= now()) AS oldest
         FROM import_queue""",
    unbound="the queue covers all stores",
    over="shard",
)


# What the server keeps for the slowest subscriber of this database: a shard of the directory, or the target of a move.
SLOT_BYTES = Query(
    int,
    """SELECT CASE WHEN pg_is_in_recovery() THEN 0 ELSE (
           SELECT coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)), 0)
             FROM pg_replication_slots WHERE database = current_database()) END::bigint""",
    unbound="a server keeps its log for all stores",
)


class Queues(msgspec.Struct):
    """The queues and the clock of the database at one moment."""

    backlog: Backlog
    imports: ImportQueue
    mails: MailBacklog
    backup_at: datetime | None
    now: datetime
    clock_offset: float  # this machine's clock minus the database's
    response_s: float = 0.0  # how long the database took for the simplest statement
    pictures: int = 0  # to be fetched

    @property
    def oldest_import_s(self) -> float:
        return max(0.0, (self.now - self.imports.oldest).total_seconds()) if self.imports.oldest else 0.0


async def read_queues(db: Executor) -> Queues:
    backlog, imports = await BACKLOG.one(db), await IMPORT_QUEUE.one(db)
    mails, backup_at = await MAIL_BACKLOG.one(db), await service_facts.last_backup(db)
    before = time.time()
    now = await NOW.one(db)
    after = time.time()
    offset = (before + after) / 2 - now.timestamp()
    pictures = await PICTURES_WAITING.one(db)
    return Queues(backlog, imports, mails, backup_at, now, offset, max(0.0, after - before), pictures)


def problems(queues: Queues) -> dict[str, str]:
    """What is wrong with the queues and the clock, by subject."""
    found: dict[str, str] = {}
    backlog = queues.backlog
    waited = round(max(backlog.oldest_unrouted_seconds, backlog.late_seconds))
    if not backlog.workers:
        found["deliveries"] = "no delivery worker is connected to the database"
    elif waited > LATE_S:
        found["deliveries"] = f"events have waited {waited} s for a delivery worker"
    if queues.oldest_import_s > LATE_IMPORT_S:
        found["imports"] = f"an import has waited {round(queues.oldest_import_s)} s for a worker"
    if abs(queues.clock_offset) > MAX_CLOCK_OFFSET_S:
        found["clock"] = f"this machine's clock differs from the database's by {round(queues.clock_offset)} s"
    return found


def publish(queues: Queues, *, sends: bool, shard: str = DIRECTORY) -> None:
    """Publish the figures; without a mail server (`sends`), mails wait on purpose, and their age is no backlog."""
    backlog, mails = queues.backlog, queues.mails
    telemetry.PENDING.labels(shard).set(backlog.pending)
    telemetry.UNROUTED.labels(shard).set(backlog.unrouted)
    telemetry.OLDEST.labels(shard).set(backlog.oldest_seconds)
    telemetry.OLDEST_UNROUTED.labels(shard).set(backlog.oldest_unrouted_seconds)
    telemetry.LATE.labels(shard).set(backlog.late_seconds)
    telemetry.BREAKERS.labels(shard).set(backlog.open_breakers)
    telemetry.RECEIVERS.labels(shard).set(backlog.receivers)
    telemetry.DELIVERY_WORKERS.labels(shard).set(backlog.workers)
    telemetry.IMPORTS_WAITING.labels(shard).set(queues.imports.waiting)
    telemetry.IMPORTS_RUNNING.labels(shard).set(queues.imports.running)
    telemetry.OLDEST_IMPORT.labels(shard).set(queues.oldest_import_s)
    telemetry.PICTURES_WAITING.labels(shard).set(queues.pictures)
    telemetry.BACKUP_AT.labels(shard).set(queues.backup_at.timestamp() if queues.backup_at else 0)
    telemetry.MEASURED_AT.labels(shard).set(time.time())
    if shard == DIRECTORY:
        telemetry.MAILS_WAITING.set(mails.waiting)
        telemetry.OLDEST_MAIL.set(mails.oldest_seconds if sends else 0)
        telemetry.MAILS_GIVEN_UP.set(mails.given_up)
        telemetry.CLOCK_OFFSET.set(queues.clock_offset)


async def record(db: Executor, queues: Queues) -> None:
    """Add the figures to the samples that operators see as charts."""
    backlog = queues.backlog
    waited = max(0.0, backlog.oldest_unrouted_seconds, backlog.late_seconds)
    waiting = (backlog.pending, backlog.unrouted, waited, queues.imports.waiting)
    await ADD_GAUGES.run(db, *waiting, queues.response_s * 1000)


async def measure_forever(shards: Shards, *, sends: bool, workers: int = 1, look: bool = False) -> None:
    """Measure the queues; `workers` processes take turns, so that more of them do not measure more often. `look` is for a process
    that does not watch the shards."""
    measured: set[str] = set()
    while True:
        with contextlib.suppress(PostgresError, Unavailable):  # an alert fires when the figures get old
            if look:
                await shards.look()
            await measure(shards, sends=sends)
            for shard in measured - set(shards.databases):
                for gauge in telemetry.OF_SHARDS:
                    gauge.labels(shard).set(math.nan)  # with which no alert fires
            measured = set(shards.databases)
        await asyncio.sleep(min(MOST_MEASURE_S, MEASURE_S * workers) * random.uniform(0.8, 1.2))  # noqa: S311


async def measure(shards: Shards, *, sends: bool) -> None:
    """Measure the queues of every database once. A shard that does not answer keeps its figures, and counts as away."""
    found = await shards.fan_out(_measured, seconds=ANSWER_S)
    if DIRECTORY in found.away:
        raise Unavailable("the directory does not answer")
    for shard, queues in found.answers.items():
        publish(queues, sends=sends, shard=shard)
    if shards.directory.fenced:
        telemetry.MOVES_LEFT.set(await MOVES_LEFT.one(shards.directory))
        messages = await MESSAGES.one(shards.directory)
        telemetry.MESSAGES_WAITING.set(messages.waiting)
        telemetry.OLDEST_MESSAGE.set(messages.oldest_seconds)
        kept = await shards.fan_out(SLOT_BYTES.one, seconds=ANSWER_S)
        for shard, count in kept.answers.items():
            telemetry.SLOT_BYTES.labels(shard).set(count)
        for shard in shards.databases:
            telemetry.SHARD_AWAY.labels(shard).set(shard in found.away)


async def _measured(db: Database) -> Queues:
    queues = await read_queues(db)
    await record(db, queues)
    return queues


async def measure_replica_forever(replica: Replica) -> None:
    """Measure how far the replica is behind, and use one again that was lost."""
    while True:
        lag = await replica.lag()
        telemetry.REPLICA_AWAY.set(lag is None)
        if lag is not None:
            telemetry.REPLICA_LAG.set(lag)
        await asyncio.sleep(MEASURE_S * random.uniform(0.8, 1.2))  # noqa: S311


class Sampler:
    """Publishes the figures of one process. Nothing is counted twice, and nothing is done while a request runs."""

    def __init__(
        self,
        process: str,
        pools: Mapping[str, Database],
        gauges: Mapping[Gauge, Callable[[], int]] | None = None,
        unsent: UnsentResponses | None = None,
        replica: Replica | None = None,
        shards: Shards | None = None,
    ) -> None:
        self._pools = pools
        self._shards = shards
        self._replica = replica
        self._gauges = gauges or {}
        self._unsent = unsent
        self._lag = telemetry.LOOP_LAG.labels(process)
        self._copies: set[str] = set()  # the shards whose age is published
        self._published: defaultdict[tuple[str, str], float] = defaultdict(float)

    async def run(self) -> None:
        while True:
            planned = time.monotonic() + SAMPLE_S
            await asyncio.sleep(SAMPLE_S)
            self._lag.observe(max(0.0, time.monotonic() - planned))
            await self.sample()

    async def sample(self) -> None:
        for gauge, read in self._gauges.items():
            gauge.set(read())
        if self._unsent is not None:
            telemetry.UNSENT.set(await self._unsent.measure())
            for limit, count in self._unsent.closed.items():
                telemetry.SLOW_CLIENTS.labels(limit).inc(self._since("unsent", limit, count))
        for name, pool in self._pools.items():
            self._sample_pool(name, DIRECTORY, pool)
        if self._shards is not None:
            for shard, pool in self._shards.databases.items():
                if shard != DIRECTORY:
                    self._sample_pool("requests", shard, pool)
                    telemetry.SHARD_COPY_AGE.labels(shard).set(self._shards.age(shard))
            for shard in self._copies - set(self._shards.copies):
                telemetry.SHARD_COPY_AGE.labels(shard).set(math.nan)  # with which no alert fires
            self._copies = set(self._shards.copies)
        if self._replica is not None:
            for server, count in self._replica.reads.items():
                telemetry.READS.labels(server).inc(self._since("replica", f"reads {server}", count))
            for reason, count in self._replica.fallbacks.items():
                telemetry.FALLBACKS.labels(reason).inc(self._since("replica", f"fallbacks {reason}", count))

    def _sample_pool(self, name: str, shard: str, pool: Database) -> None:
        """Publish the figures of a pool; an empty shard, which Prometheus treats as none, is the directory."""
        telemetry.POOL_SIZE.labels(name, shard).set(pool.size)
        telemetry.CONNECTIONS.labels(name, "in_use", shard).set(pool.in_use)
        telemetry.CONNECTIONS.labels(name, "idle", shard).set(pool.idle)
        telemetry.POOL_WAITING.labels(name, shard).set(len(pool.line))
        of_pool, line = f"{name} {shard}", pool.line
        telemetry.POOL_WAITS.labels(name, shard).inc(self._since(of_pool, "waits", line.waits))
        telemetry.POOL_WAIT_SECONDS.labels(name, shard).inc(self._since(of_pool, "wait_s", line.wait_s))
        telemetry.POOL_TIMEOUTS.labels(name, shard).inc(self._since(of_pool, "timeouts", line.timeouts))
        for kind, count in list(pool.errors.items()):
            telemetry.DATABASE_ERRORS.labels(kind).inc(self._since(of_pool, f"error {kind}", count))

    def _since(self, pool: str, figure: str, total: float) -> float:
        """How much a total has grown since it was last published."""
        grown = total - self._published[pool, figure]
        self._published[pool, figure] = total
        return grown
