"""What a receiver got, compared with the order events of all stores."""

import asyncio
from collections.abc import Sequence

import msgspec

from stoa.db.connection import connect
from tests.support.receivers import Receiver

DRAIN_S = 180


class Deliveries(msgspec.Struct):
    """The deliveries of all subscriptions, compared with the events of their stores."""

    events: int
    missing: int
    repeated: int
    gaps: int

    @property
    def intact(self) -> bool:
        return not (self.missing or self.gaps)

    def __str__(self) -> str:
        return f"{self.events} events: {self.missing} not delivered, {self.repeated} delivered again, {self.gaps} gaps"


async def delivered_to(receiver: Receiver, url: str) -> Deliveries:
    """Wait until all events are delivered, and compare."""
    db = await connect(url, statement_timeout_ms=0)
    try:
        async with asyncio.timeout(DRAIN_S):
            while (await db.fetch(_WAITING))[0][0]:
                await asyncio.sleep(0.5)
        rows = await db.fetch("SELECT store_id, id FROM events WHERE type LIKE 'order.%'")
    finally:
        await db.close()
    expected = {(store_id, event_id) for store_id, event_id in rows}
    seen = [(event["store"]["id"], event["id"], event["sequence"]) for event in receiver.events]
    arrived = {(store_id, event_id) for store_id, event_id, _ in seen}
    return Deliveries(len(expected), len(expected - arrived), len(seen) - len(arrived), _gaps(seen))


_WAITING = (
    "SELECT (SELECT sum(waiting)::bigint FROM lanes) + (SELECT count(*) FROM events WHERE routed_on = 'infinity')"
)


def _gaps(seen: Sequence[tuple[int, str, int]]) -> int:
    """The numbers that are missing or taken twice in the sequences of the subscriptions, one for each store."""
    sequences: dict[int, set[tuple[int, str]]] = {}
    for store_id, event_id, sequence in seen:
        sequences.setdefault(store_id, set()).add((sequence, event_id))
    return sum(len(set(range(1, len(pairs) + 1)) ^ {sequence for sequence, _ in pairs}) for pairs in sequences.values())
