"""Messages from the directory to its shards: written in the transaction of their cause, and received exactly once by each store.

The mirror image of `directory_outbox`. The table is global: replication brings a message to a shard together with the global
rows of its transaction, so a receiver reads them there. A message is for one store, wherever it is, or for all stores of a shard.
"""

from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any

import msgspec
import structlog

from stoa.db.connection import Connection
from stoa.db.errors import StoreElsewhere, cause
from stoa.db.pool import Database
from stoa.db.query import Command, Executor, Query, json_of

BATCH = 100
LONGEST_PAUSE_S = 60.0  # between two tries of a message that fails
_END = 2**63 - 1  # after the last store
_SERVICE = "messages to shards belong to the directory"


class Message(msgspec.Struct):
    position: int
    id: str
    kind: str
    content: str  # JSON
    store_id: int  # 0 if it is for all stores of a shard


class Late(msgspec.Struct):
    """Messages of one kind that one receiver has not received, and for how many seconds the oldest has waited."""

    kind: str
    receiver: str
    messages: int
    seconds: float


class Messages(msgspec.Struct):
    """All messages that wait, and the age of the oldest."""

    waiting: int
    oldest_seconds: float


SEND_TO_STORE = Command("INSERT INTO shard_outbox (store_id, kind, content) VALUES ($1, $2, $3)")
# Writes nothing in a service without shards.
SEND_TO_SHARDS = Command(
    "INSERT INTO shard_outbox (shard, kind, content) SELECT name, $1, $2 FROM shards ORDER BY name", unbound=_SERVICE
)
FOR_STORES = Query(
    Message,
    """SELECT position, id, kind, content, store_id FROM shard_outbox
        WHERE store_id IS NOT NULL AND store_is_here(store_id) AND position > $1 ORDER BY position LIMIT $2::integer""",
    unbound=_SERVICE,
)
TO_STORE = Query(
    Message,
    "SELECT position, id, kind, content, store_id FROM shard_outbox WHERE store_id = $1 ORDER BY position",
)
FOR_SHARD = Query(
    Message,
    """SELECT position, id, kind, content, 0::bigint AS store_id FROM shard_outbox
        WHERE shard = (SELECT value FROM service_facts WHERE name = 'shard') ORDER BY position LIMIT $1::integer""",
    unbound=_SERVICE,
)
# Waits for another worker that receives the same message.
RECEIVE = Command("INSERT INTO store_inbox (store_id, id) VALUES ($1, $2) ON CONFLICT (store_id, id) DO NOTHING")
BEGIN = Command("INSERT INTO shard_inbox (id) VALUES ($1) ON CONFLICT (id) DO NOTHING", unbound=_SERVICE)
# Without a row while another worker brings the message to the stores.
AFTER = Query(int, "SELECT after_store_id FROM shard_inbox WHERE id = $1 FOR UPDATE SKIP LOCKED", unbound=_SERVICE)
ADVANCE = Command("UPDATE shard_inbox SET after_store_id = $2 WHERE id = $1", unbound=_SERVICE)
FORGET = Command("DELETE FROM shard_outbox WHERE position = $1", unbound=_SERVICE)
FORGET_OF_SHARD = Command("DELETE FROM shard_outbox WHERE shard = $1", unbound=_SERVICE)
# What was received is remembered for as long as the message may be seen, also in a shard to which replication brings its end late.
FORGET_RECEIVED_BY_STORES = Command(
    """DELETE FROM store_inbox i WHERE i.received_at < now() - interval '7 days'
          AND i.id <> ALL (ARRAY(SELECT m.id FROM shard_outbox m))""",
    unbound=_SERVICE,
    over="shard",
)
FORGET_RECEIVED_BY_SHARD = Command(
    """DELETE FROM shard_inbox i WHERE i.received_at < now() - interval '7 days'
          AND i.id <> ALL (ARRAY(SELECT m.id FROM shard_outbox m))""",
    unbound=_SERVICE,
)

# Messages that have waited for longer than $1 seconds, by kind and receiver, the oldest first.
LATE = Query(
    Late,
    """SELECT m.kind, coalesce('store ' || s.handle, 'shard ' || m.shard, 'a deleted store') AS receiver, count(*) AS messages,
              extract(epoch FROM now() - min(m.created_at))::float8 AS seconds
         FROM shard_outbox m LEFT JOIN stores s ON s.id = m.store_id
        WHERE m.created_at < now() - make_interval(secs => $1)
        GROUP BY 1, 2 ORDER BY seconds DESC, receiver, kind""",
    unbound=_SERVICE,
)
MESSAGES = Query(
    Messages,
    """SELECT count(*) AS waiting, coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS oldest_seconds
         FROM shard_outbox""",
    unbound=_SERVICE,
)

# Gets the transaction in which the store receives its message, which is committed with it.
ReceiveForStore = Callable[[Connection, int, bytes], Awaitable[Any]]
# Brings a message to the next stores after one. Returns the last of them, or None if there are no more. It may be repeated.
ReceiveForShard = Callable[[Database, int, bytes], Awaitable[int | None]]


async def send_to_store(db: Executor, store_id: int, kind: str, content: Any) -> None:
    """Write a message to a store in the transaction of its cause, in the directory."""
    await SEND_TO_STORE.run(db, store_id, kind, json_of(content))


async def send_to_shards(db: Executor, kind: str, content: Any) -> None:
    """Write a message to all stores of every shard in the transaction of its cause, which acts on the directory's own stores."""
    await SEND_TO_SHARDS.run(db, kind, json_of(content))


class Retries:
    """When a process tries a message again that failed: after 1, 2, 4 seconds and so on, at most a minute.

    Each process has its own. The age of a message in the outbox shows that it fails.
    """

    def __init__(self) -> None:
        self._next: dict[int, tuple[int, float]] = {}  # by position: the tries so far, and the time of the next

    def are_due(self, position: int) -> bool:
        return position not in self._next or self._next[position][1] <= monotonic()

    def failed(self, message: Message, error: Exception) -> None:
        """Note a try that failed, and log it."""
        tries = self._next.get(message.position, (0, 0.0))[0] + 1
        pause = min(2.0 ** (tries - 1), LONGEST_PAUSE_S)
        self._next[message.position] = tries, monotonic() + pause
        structlog.get_logger().warning(
            "a message from the directory failed",
            kind=message.kind,
            store_id=message.store_id or None,
            tries=tries,
            retry_in_s=pause,
            **cause(error),
        )

    def succeeded(self, position: int) -> None:
        self._next.pop(position, None)


async def receive_for_stores(
    here: Database, directory: Database, receivers: Mapping[str, ReceiveForStore], retries: Retries | None = None
) -> int:
    """Receive the messages to the stores of a database, each in one transaction; returns how many were received.

    A message that fails stays for a later time, and keeps no other one. One whose store leaves meanwhile is received where the
    store is then.
    """
    retries = retries or Retries()
    received = after = 0
    while messages := await FOR_STORES.all(here, after, BATCH):
        for message in messages:
            after = message.position
            if not retries.are_due(message.position):
                continue
            try:
                received += await _receive(here, directory, message, receivers[message.kind])
            except StoreElsewhere:
                continue
            except Exception as error:  # noqa: BLE001 - the message stays
                retries.failed(message, error)
            else:
                retries.succeeded(message.position)
    return received


async def receive_at_once(
    here: Database, directory: Database, store_id: int, receivers: Mapping[str, ReceiveForStore]
) -> int:
    """Receive the messages of these kinds to one store now, because somebody waits for them; returns how many were received.

    The copies of global tables here are as new as the messages. If this fails, a worker receives them later.
    """
    messages = [each for each in await TO_STORE.all(here, store_id) if each.kind in receivers]
    return sum([await _receive(here, directory, each, receivers[each.kind]) for each in messages])


async def _receive(here: Database, directory: Database, message: Message, receive: ReceiveForStore) -> bool:
    """Receive a message to a store, unless that has happened; then forget it."""
    async with here.transaction(message.store_id) as db:
        new = bool(await RECEIVE.run(db, message.store_id, message.id))
        if new:
            await receive(db, message.store_id, message.content.encode())
    await FORGET.run(directory, message.position)
    return new


async def receive_for_shard(
    here: Database, directory: Database, receivers: Mapping[str, ReceiveForShard], retries: Retries | None = None
) -> int:
    """Bring each message to a shard to its next stores; returns how many have further stores to reach."""
    retries = retries or Retries()
    waiting = 0
    for message in await FOR_SHARD.all(here, BATCH):
        if not retries.are_due(message.position):
            continue
        try:
            last = await _go_on(here, message, receivers[message.kind])
            if last == _END:
                await FORGET.run(directory, message.position)
            elif last is not None:
                waiting += 1
        except Exception as error:  # noqa: BLE001 - the message stays
            retries.failed(message, error)
        else:
            retries.succeeded(message.position)
    return waiting


async def _go_on(here: Database, message: Message, receive: ReceiveForShard) -> int | None:
    """Bring a message to the next stores; returns the last of them, or None while another worker does this."""
    await BEGIN.run(here, message.id)
    async with here.transaction() as db:
        after = await AFTER.maybe(db, message.id)
        if after is None or after == _END:
            return after
        reached = await receive(here, after, message.content.encode())
        last = _END if reached is None else reached
        await ADVANCE.run(db, message.id, last)
        return last
