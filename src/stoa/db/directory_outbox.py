"""Messages from a shard to the directory: written in the transaction of their cause, and received there exactly once.

A transaction cannot span two databases, so what a shard causes in global tables, such as a notification, follows in a message.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from stoa.db.pool import Database
from stoa.db.query import Command, Executor, Query, json_of

BATCH = 100
_SERVICE = "messages to the directory belong to no store"


class Message(msgspec.Struct):
    position: int
    id: str
    kind: str
    content: str  # JSON


# Writes nothing in the directory itself, where no name of a shard is noted.
SEND = Command(
    """INSERT INTO directory_outbox (kind, content)
       SELECT $1, $2 FROM service_facts WHERE name = 'shard'""",
    unbound=_SERVICE,
)
WAITING = Query(bool, "SELECT EXISTS (SELECT FROM directory_outbox WHERE kind = $1)", unbound=_SERVICE)
NEXT = Query(
    Message,
    "SELECT position, id, kind, content FROM directory_outbox ORDER BY position LIMIT $1::integer",
    unbound=_SERVICE,
)
# Waits for another worker that receives the same message.
RECEIVE = Command("INSERT INTO directory_inbox (id) VALUES ($1) ON CONFLICT (id) DO NOTHING", unbound=_SERVICE)
FORGET = Command("DELETE FROM directory_outbox WHERE position = $1", unbound=_SERVICE)
FORGET_RECEIVED = Command("DELETE FROM directory_inbox WHERE received_at < now() - interval '7 days'", unbound=_SERVICE)

Receive = Callable[[Executor, bytes], Awaitable[Any]]


async def send(db: Executor, kind: str, content: Any) -> bool:
    """Write a message in the transaction of its cause; False in the directory itself, where the caller acts at once."""
    return bool(await SEND.run(db, kind, json_of(content)))


async def collect(shard: Database, directory: Database, receivers: Mapping[str, Receive]) -> int:
    """Bring the messages of a shard to the directory, in order; returns their number."""
    messages = await NEXT.all(shard, BATCH)
    for message in messages:
        async with directory.transaction() as db:
            if await RECEIVE.run(db, message.id):
                await receivers[message.kind](db, message.content.encode())
        await FORGET.run(shard, message.position)
    return len(messages)
