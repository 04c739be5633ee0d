"""The live tail: streams an app's deliveries to an open page as server-sent events."""

import time
from collections import Counter
from collections.abc import AsyncGenerator
from datetime import datetime

import msgspec
from starlette.responses import Response, StreamingResponse

from stoa.accounts.ownership import owned_app
from stoa.accounts.sessions import find_session
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.fan_out import FanOut, in_order
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.portal.apps.apps import APPS
from stoa.portal.apps.deliveries import order_numbers
from stoa.portal.apps.impersonation import READ, ImpersonatedCall, InstalledStore, effective_scopes, installed_stores
from stoa.portal.kit.pages import Pages, View
from stoa.portal.kit.visit import EVENT_STREAM, Visit
from stoa.settings import secret_key
from stoa.webhooks.api.feed import watch_of

pages = Pages()
_BATCH_SIZE = 25
_POLL_INTERVAL_S, _MAX_STREAM_S = 1.0, 60.0
_MAX_STREAMS, _MAX_STREAMS_PER_ACCOUNT = 100, 4
_MAX_LANES, _MAX_UNSETTLED = 100, 100
_streams: Counter[int] = Counter()  # open streams of this process, by account


Subscription = tuple[int, int]  # its store and its number: two shards can number two alike


class Lane(msgspec.Struct):
    """A subscription and its latest sequence."""

    store_id: int
    webhook_id: int
    name: str
    held: bool
    last_sequence: int
    last_attempt_at: datetime | None

    @property
    def key(self) -> Subscription:
        return self.store_id, self.webhook_id


LANES_OF_APP = FanOut(
    Lane,
    """SELECT w.store_id, w.id AS webhook_id, coalesce(nullif(w.name, ''), w.url, '') AS name,
              w.status <> 'active' OR w.url IS NULL AS held, l.next_sequence - 1 AS last_sequence,
              l.last_attempt_at
         FROM webhooks w JOIN lanes l ON l.store_id = w.store_id AND l.webhook_id = w.id
        WHERE w.app_id = $1 AND w.store_id = ANY ($2::text[]::bigint[]) AND w.ended_at IS NULL
          AND w.store_id <> ALL ($4::bigint[])
        ORDER BY l.last_attempt_at DESC NULLS LAST, w.id DESC, w.store_id DESC LIMIT $3""",
    in_order("-last_attempt_at", "-webhook_id", "-store_id", limit=3, unique=["store_id", "webhook_id"]),
    unbound="an app's developer follows its deliveries on all stores",
)


class DeliveryRow(msgspec.Struct):
    """A delivery in the delivery log."""

    sequence: int
    event_type: str
    resource_type: str
    resource_id: int
    status: str
    attempt_count: int
    last_attempt: str
    created_at: datetime


_DELIVERIES = """SELECT sequence, event_type, resource_type, resource_id, status, attempt_count::bigint,
       coalesce((attempts::json -> -1)::text, '') AS last_attempt, created_at
  FROM delivery_log WHERE store_id = $1 AND webhook_id = $2"""
NEW_DELIVERIES = Query(DeliveryRow, f"{_DELIVERIES} AND sequence > $3 ORDER BY sequence DESC LIMIT $4")
DELIVERIES = Query(DeliveryRow, f"{_DELIVERIES} AND sequence = ANY ($3::bigint[]) ORDER BY sequence")


class LastAttempt(msgspec.Struct):
    """The part of an attempt that the tail shows."""

    duration_ms: int = 0
    response_status: int | None = None
    response_body: str | None = None
    error: str | None = None


class TailEntry(msgspec.Struct):
    """A delivery on the page, without its payload."""

    id: str
    url: str
    at: datetime
    event: str
    resource: str
    store: str
    webhook: str
    status: str
    attempts: int
    response_status: int | None
    duration_ms: int | None
    error: str | None
    verified: bool  # the receiver of the demo has verified the signature


class Tail:
    """The state of one open page; each poll returns the deliveries that are new or have changed."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._last_sequences: dict[Subscription, int] = {}
        self._unsettled: dict[tuple[Subscription, int], str] = {}  # state by subscription and sequence

    async def poll(self) -> list[TailEntry]:
        """Return what changed since the last poll, oldest first; the first poll returns the latest deliveries."""
        stores = {each.id: each for each in await _readable_stores(self._visit)}
        ids, everywhere = [str(each) for each in stores], self._visit.everywhere
        lanes = await LANES_OF_APP.all(everywhere, self._visit.app.id, ids, _MAX_LANES)
        entries: list[TailEntry] = []
        for lane in lanes:
            store = stores[lane.store_id]
            found = await everywhere.ask(store.shard, lambda db, lane=lane, store=store: self._entries(db, store, lane))
            if found is not None:
                entries += found
                self._last_sequences[lane.key] = lane.last_sequence
        while len(self._unsettled) > _MAX_UNSETTLED:
            self._unsettled.pop(next(iter(self._unsettled)))
        entries.sort(key=lambda each: each.at)
        return entries[-_BATCH_SIZE:]

    async def _entries(self, db: Database, store: InstalledStore, lane: Lane) -> list[TailEntry]:
        rows = [*await self._changed(db, lane), *await self._new(db, lane)]
        call = ImpersonatedCall(self._visit, db, store)
        numbers = await order_numbers(call, [(row.resource_type, row.resource_id) for row in rows])
        return [self._entry(store, lane, row, numbers) for row in rows]

    async def _new(self, db: Database, lane: Lane) -> list[DeliveryRow]:
        last = self._last_sequences.get(lane.key, 0)
        if lane.last_sequence <= last:
            return []
        return await NEW_DELIVERIES.all(db, lane.store_id, lane.webhook_id, last, _BATCH_SIZE)

    async def _changed(self, db: Database, lane: Lane) -> list[DeliveryRow]:
        """Return the unsettled deliveries whose state differs from the one last sent."""
        sequences = [sequence for key, sequence in self._unsettled if key == lane.key]
        if not sequences:
            return []
        rows = await DELIVERIES.all(db, lane.store_id, lane.webhook_id, sequences)
        return [row for row in rows if self._unsettled[lane.key, row.sequence] != _state(row)]

    def _entry(self, store: InstalledStore, lane: Lane, row: DeliveryRow, numbers: dict[int, int]) -> TailEntry:
        key = (lane.key, row.sequence)
        unsettled = row.status in ("pending", "retrying")
        if unsettled:
            self._unsettled[key] = _state(row)
        else:
            self._unsettled.pop(key, None)
        last = msgspec.json.decode(row.last_attempt, type=LastAttempt) if row.last_attempt else None
        number = numbers.get(row.resource_id) if row.resource_type == "order" else None
        return TailEntry(
            id=f"{lane.store_id}-{lane.webhook_id}-{row.sequence}",
            url=f"{APPS}/{self._visit.app.id}/webhooks/{store.handle}/{lane.webhook_id}/deliveries/{row.sequence}",
            at=row.created_at,
            event=row.event_type,
            resource=f"{row.resource_type} {row.resource_id if number is None else f'#{number}'}",
            store=store.handle,
            webhook=lane.name or f"Subscription {lane.webhook_id}",
            status="held" if unsettled and lane.held else row.status,
            attempts=row.attempt_count,
            response_status=last.response_status if last else None,
            duration_ms=last.duration_ms if last else None,
            error=last.error if last else None,
            verified=self._visit.settings.demo and last is not None and _verified(last),
        )


def _verified(attempt: LastAttempt) -> bool:
    return attempt.response_status == 200 and (attempt.response_body or "").startswith('{"verified":true')


def _state(row: DeliveryRow) -> str:
    return f"{row.status} {row.attempt_count}"


@pages.page("/apps/{app_id:int}/tail", nav="list_apps")
async def app_tail(visit: Visit) -> View | Response:
    if EVENT_STREAM in visit.request.headers.get("accept", ""):
        return _stream_response(visit)
    entries = await Tail(visit).poll()
    return View("apps/tail.html", {"entries": entries[::-1], "stores": await _readable_stores(visit)})


async def _readable_stores(visit: Visit) -> list[InstalledStore]:
    return [each for each in await installed_stores(visit) if READ in effective_scopes(visit, each)]


def _stream_response(visit: Visit) -> Response:
    account_id = visit.me.account_id
    if _streams.total() >= _MAX_STREAMS or _streams[account_id] >= _MAX_STREAMS_PER_ACCOUNT:
        return Response(status_code=429, headers={"Retry-After": "30"})
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(visit, Tail(visit)), media_type=EVENT_STREAM, headers=headers)


async def _stream(visit: Visit, tail: Tail) -> AsyncGenerator[bytes]:
    """Stream events for a limited time while the account has access; the browser then reconnects by itself."""
    account_id, deadline = visit.me.account_id, time.monotonic() + _MAX_STREAM_S
    watch = watch_of(visit.db)
    _streams[account_id] += 1
    try:
        yield b"retry: 1000\n\n"
        while await _has_access(visit):
            entries = await tail.poll()
            # The comment keeps proxies from closing the stream, and detects closed clients.
            yield b"".join(_event(each) for each in entries) or b":\n\n"
            if time.monotonic() >= deadline or not await watch.rest(_POLL_INTERVAL_S):
                return
        yield b"event: over\ndata: {}\n\n"
    except (PostgresError, Unavailable):
        return  # the browser reconnects
    finally:
        _streams[account_id] -= 1
        if _streams[account_id] <= 0:
            del _streams[account_id]


async def _has_access(visit: Visit) -> bool:
    """Whether the session is alive and the account still has a role on the app; checked on every poll."""
    account = await find_session(visit.db, secret_key(visit.settings), visit.session, touch=False)
    if account is None or account.stage != "signed in":
        return False
    app = await owned_app(visit.db, account.account_id, visit.app.id)
    if app is not None:
        visit.app = app
    return app is not None


def _event(entry: TailEntry) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(entry)
