"""The live tail: an app's deliveries as they happen, sent to an open page as server-sent events for a bounded time."""

import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import datetime

import msgspec
from starlette.responses import Response, StreamingResponse

from stoa.accounts.ownership import owned_app
from stoa.accounts.sessions import find_session
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.portal.acting import READ, There, in_force_there, stores_of
from stoa.portal.apps import APPS
from stoa.portal.pages import Pages, View
from stoa.portal.visit import EVENT_STREAM, Visit
from stoa.settings import secret_key
from stoa.webhooks.api.feed import watch_of

pages = Pages()
LATEST = 25
LOOK_EVERY_S, LONGEST_S = 1.0, 60.0
MOST_OPEN, MOST_OF_ONE_PERSON = 100, 4
_MOST_LANES, _MOST_UNSETTLED = 100, 100
_open: Counter[int] = Counter()  # streams of this process, by person


class Lane(msgspec.Struct):
    """A subscription and how far it has come."""

    store_id: int
    webhook_id: int
    name: str
    held: bool
    last_sequence: int


LANES_OF_APP = Query(
    Lane,
    """SELECT w.store_id, w.id AS webhook_id, coalesce(nullif(w.name, ''), w.url, '') AS name,
              w.status <> 'active' OR w.url IS NULL AS held, l.next_sequence - 1 AS last_sequence
         FROM webhooks w JOIN lanes l ON l.store_id = w.store_id AND l.webhook_id = w.id
        WHERE w.app_id = $1 AND w.store_id = ANY ($2::text[]::bigint[]) AND w.ended_at IS NULL
        ORDER BY l.last_attempt_at DESC NULLS LAST, w.id DESC LIMIT $3""",
    unbound="the developer of an app follows it in all stores",
)


class Happened(msgspec.Struct):
    """A delivery as the log has it."""

    sequence: int
    event_type: str
    resource_type: str
    resource_id: int
    status: str
    attempt_count: int
    last_attempt: str
    created_at: datetime


_HAPPENED = """SELECT sequence, event_type, resource_type, resource_id, status, attempt_count::bigint,
       coalesce((attempts::json -> -1)::text, '') AS last_attempt, created_at
  FROM delivery_log WHERE store_id = $1 AND webhook_id = $2"""
NEWEST = Query(Happened, f"{_HAPPENED} AND sequence > $3 ORDER BY sequence DESC LIMIT $4")
THESE = Query(Happened, f"{_HAPPENED} AND sequence = ANY ($3::bigint[]) ORDER BY sequence")


class Answered(msgspec.Struct):
    """What of a try the tail tells."""

    duration_ms: int = 0
    response_status: int | None = None
    error: str | None = None


class Told(msgspec.Struct):
    """A delivery as the page shows it: nothing of what it carries."""

    id: str
    address: str
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


class Tail:
    """What one page has been told so far; each look brings what is new or has moved on."""

    def __init__(self, db: Database, app_id: int, stores: Callable[[], Awaitable[Sequence[There]]]) -> None:
        self._db = db
        self._app_id = app_id
        self._stores = stores
        self._heads: dict[int, int] | None = None
        self._unsettled: dict[tuple[int, int], str] = {}

    async def look(self) -> list[Told]:
        """What happened since the last look, the oldest first; at first the latest few."""
        stores = {each.id: each for each in await self._stores()}
        lanes = await LANES_OF_APP.all(self._db, self._app_id, [str(each) for each in stores], _MOST_LANES)
        told: list[Told] = []
        for lane in lanes:
            rows = [*await self._moved(lane), *await self._new(lane)]
            told += [self._told(stores[lane.store_id], lane, row) for row in rows]
        self._heads = {lane.webhook_id: lane.last_sequence for lane in lanes}
        while len(self._unsettled) > _MOST_UNSETTLED:
            self._unsettled.pop(next(iter(self._unsettled)))
        told.sort(key=lambda each: each.at)
        return told[-LATEST:]

    async def _new(self, lane: Lane) -> list[Happened]:
        known = self._heads.get(lane.webhook_id, 0) if self._heads is not None else 0
        if lane.last_sequence <= known:
            return []
        return await NEWEST.all(self._db, lane.store_id, lane.webhook_id, known, LATEST)

    async def _moved(self, lane: Lane) -> list[Happened]:
        """Those that were under way when they were last told of, and are no longer as they were."""
        waiting = [sequence for webhook_id, sequence in self._unsettled if webhook_id == lane.webhook_id]
        if not waiting:
            return []
        rows = await THESE.all(self._db, lane.store_id, lane.webhook_id, waiting)
        return [row for row in rows if self._unsettled[lane.webhook_id, row.sequence] != _state(row)]

    def _told(self, there: There, lane: Lane, row: Happened) -> Told:
        place = (lane.webhook_id, row.sequence)
        waits = row.status in ("pending", "retrying")
        if waits:
            self._unsettled[place] = _state(row)
        else:
            self._unsettled.pop(place, None)
        last = msgspec.json.decode(row.last_attempt, type=Answered) if row.last_attempt else None
        return Told(
            id=f"{lane.webhook_id}-{row.sequence}",
            address=f"{APPS}/{self._app_id}/webhooks/{there.handle}/{lane.webhook_id}/deliveries/{row.sequence}",
            at=row.created_at,
            event=row.event_type,
            resource=f"{row.resource_type} {row.resource_id}",
            store=there.handle,
            webhook=lane.name or f"Subscription {lane.webhook_id}",
            status="held" if waits and lane.held else row.status,
            attempts=row.attempt_count,
            response_status=last.response_status if last else None,
            duration_ms=last.duration_ms if last else None,
            error=last.error if last else None,
        )


def _state(row: Happened) -> str:
    return f"{row.status} {row.attempt_count}"


@pages.page("/apps/{app_id:int}/tail", under="list_apps")
async def app_tail(visit: Visit) -> View | Response:
    if EVENT_STREAM in visit.request.headers.get("accept", ""):
        return _streamed(visit)
    told = await _tail(visit).look()
    return View("apps/tail.html", {"told": told[::-1], "stores": await _seen(visit)})


def _tail(visit: Visit) -> Tail:
    return Tail(visit.db, visit.app.id, lambda: _seen(visit))


async def _seen(visit: Visit) -> list[There]:
    return [each for each in await stores_of(visit) if READ in in_force_there(visit, each)]


def _streamed(visit: Visit) -> Response:
    person = visit.me.account_id
    if _open.total() >= MOST_OPEN or _open[person] >= MOST_OF_ONE_PERSON:
        return Response(status_code=429, headers={"Retry-After": "30"})
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(stream(visit, _tail(visit)), media_type=EVENT_STREAM, headers=headers)


async def stream(visit: Visit, tail: Tail, seconds: float = LONGEST_S) -> AsyncGenerator[bytes]:
    """Events for as long as the person may see them; the browser then comes back by itself, and is asked again."""
    person, ends = visit.me.account_id, time.monotonic() + seconds
    watch = watch_of(visit.db)
    _open[person] += 1
    try:
        yield b"retry: 1000\n\n"
        while await _still_allowed(visit):
            told = await tail.look()
            # A comment keeps proxies awake, and shows whether somebody still listens.
            yield b"".join(_event(each) for each in told) or b":\n\n"
            if time.monotonic() >= ends or not await watch.rest(LOOK_EVERY_S):
                return
        yield b"event: over\ndata: {}\n\n"
    except (PostgresError, Unavailable):
        return  # the page comes back in a moment
    finally:
        _open[person] -= 1
        if _open[person] <= 0:
            del _open[person]


async def _still_allowed(visit: Visit) -> bool:
    """Whether the session lives and the app is still this person's: what is taken away ends within a second."""
    person = await find_session(visit.db, secret_key(visit.settings), visit.session, touch=False)
    if person is None or person.stage != "signed in":
        return False
    app = await owned_app(visit.db, person.account_id, visit.app.id)
    if app is not None:
        visit.app = app
    return app is not None


def _event(told: Told) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(told)
