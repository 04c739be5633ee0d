"""What happens when deliveries are looked up, pulled as a feed, or sent again."""

import time
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from stoa.events.outbox import Event as Announced
from stoa.rest.batch import TooManyItems
from stoa.rest.endpoint import Accepted, Call, One, Page, Routes
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.problems import Fault, InvalidParameter, RateLimited, ValidationFailed, counted
from stoa.webhooks.api import queries
from stoa.webhooks.api.contract import (
    LONGEST_WAIT_S,
    MOST_REDELIVERED,
    Delivery,
    NewRedelivery,
    Redelivery,
)
from stoa.webhooks.api.delivery_ids import parse_delivery_id
from stoa.webhooks.api.documents import Secrets
from stoa.webhooks.api.feed import watch_of
from stoa.webhooks.api.listings import DELIVERIES, NOT_SENT
from stoa.webhooks.api.queries import Row
from stoa.webhooks.api.subscriptions import found, locked, record
from stoa.webhooks.delivery import envelope, matching
from stoa.webhooks.delivery.queries import SELECTIONS_OF_STORE
from stoa.webhooks.http.signing import sign

routes = Routes("Webhooks")
MOST_UNFINISHED = 20
_WAITS = ("pending", "retrying")


@routes.get("/webhooks/{webhook_id}/deliveries", scope="webhooks:read", lists=DELIVERIES)
async def list_webhook_deliveries(call: Call, webhook_id: int, query: ListQuery) -> Page[Delivery]:
    """Look up deliveries, or pull them as a feed.

    The log of 30 days, newest first, with every try and what the receiver said. `include=payload` adds what was sent. With
    `event_id` and no delivery, `meta.not_sent` says why the event was not sent.

    With `after` it is a feed: what came after that sequence, oldest first and without gaps, whatever became of its delivery.
    `wait` keeps the request open until there is something new. Send the last `sequence`, or `meta.after`, as the next
    `after`. With `include=payload` each event comes with the headers that a delivery would have, signed now.
    """
    row = await found(call, webhook_id)
    if "after" in query.options:
        return await _feed(call, row, query)
    if "wait" in query.options:
        raise InvalidParameter("wait goes with after, which makes the list a feed.")
    if "event" in query.given and query.given["event"] not in Announced.known:
        raise InvalidParameter("event must be the name of an event; GET /webhooks lists them.")
    page = await list_page(
        call.db, call.store_id, queries.DELIVERIES, _narrowed(query, row).with_filter("webhook_id", row.id), apart=True
    )
    page.docs = [_shown(row, doc) for doc in page.docs]
    if query.include:
        page.docs = await _with_payload(call, row, page.docs, page.ids)
    if "event_id" in query.given and not page.total:
        page.beside = {"not_sent": await _why_not(call, row, query.given["event_id"])}
    return page


def _narrowed(query: ListQuery, row: Row) -> ListQuery:
    """What waits is stored as pending or retrying, and called held while nothing is sent."""
    if "status" not in query.shape.filters:
        return query
    place = query.shape.filters.index("status")
    asked: list[str] = query.values[place]
    waits = [*_WAITS] if "held" in asked and row.held else [each for each in _WAITS if each in asked and not row.held]
    return query.with_filter("status", [each for each in asked if each not in (*_WAITS, "held")] + waits)


def _shown(row: Row, doc: bytes) -> bytes:
    # Inside a string a quotation mark is escaped, so this is the member and no text that a receiver sent.
    for status in _WAITS if row.held else ():
        doc = doc.replace(b'"status":"%b"' % status.encode(), b'"status":"held"', 1)
    return doc


async def _feed(call: Call, row: Row, query: ListQuery) -> Page[Delivery]:
    if query.shape.filters or query.shape.resumed or query.page or "sort" in query.given:
        raise InvalidParameter(
            "A feed takes after, wait, limit, include and fields; what it brings is the subscription's."
        )
    after, wait = query.options["after"], min(query.options.get("wait", 0), LONGEST_WAIT_S)
    given = (call.store_id, row.id, after, query.limit + 1)
    fed = await queries.FEED.all(call.db, *given)
    if not fed and wait:
        with call.waiting():
            await watch_of(call.db).until_after(call.store_id, call.caller.app_id, row.id, after, wait)
        fed = await queries.FEED.all(call.db, *given)
        row = await found(call, row.id)
    # Sequences have no gaps: how many there are follows from the first and the last, without counting.
    total = row.last_sequence - fed[0].sequence + 1 if len(fed) > query.limit else len(fed)
    fed = fed[: query.limit]
    docs, sequences = [_shown(row, each.doc) for each in fed], [each.sequence for each in fed]
    if query.include:
        docs = await _with_payload(call, row, docs, sequences, signed=True)
    beside = {"after": sequences[-1] if sequences else after}
    return Page(docs, sequences, max(total, len(fed)), query.limit, None, None, None, beside)


async def _with_payload(
    call: Call, row: Row, docs: list[bytes], sequences: Sequence[int], *, signed: bool = False
) -> list[bytes]:
    """The documents with what was sent, which is built of the same stored bytes; null where it is no longer kept."""
    places = await queries.PLACES.all(call.db, call.store_id, row.id, list(sequences))
    stored = await queries.EVENTS.all(
        call.db, call.store_id, [place.event_id for place in places], sorted({place.event_day for place in places})
    )
    events = {event.id: event for event in stored}
    secrets = Secrets(call).of(row) if signed else []
    extended: dict[int, bytes] = {}
    for place in places:
        event = events.get(place.event_id)
        kind = Announced.known.get(event.type) if event else None
        if event and not matching.may_receive(event.type, kind.scope if kind else "", [*call.caller.scopes]):
            event = None  # what the store no longer grants is not shown from the past either
        body = envelope.body(event, place.sequence, payload=row.payload, fields=row.fields) if event else b"null"
        extended[place.sequence] = b',"payload":%b' % body
        if signed and event:
            headers = {"content-type": "application/json", **sign(secrets, event.id, int(time.time()), body)}
            extended[place.sequence] += b',"headers":%b' % msgspec.json.encode(headers)
    return [
        b"%b%b}" % (doc[:-1], extended.get(sequence, b',"payload":null'))
        for doc, sequence in zip(docs, sequences, strict=True)
    ]


async def _why_not(call: Call, row: Row, event_id: str) -> dict[str, Any]:
    """Why an event was not sent to a subscription, judged by what both are now."""
    event = await envelope.EVENT_ANY_DAY.maybe(call.db, call.store_id, event_id)
    reason = "unknown_event"
    if event is not None:
        there = await SELECTIONS_OF_STORE.all(call.db, call.store_id)
        owners = {each.id: each.app_id for each in there}
        mine = next((each for each in there if each.id == row.id), None)
        reason = (matching.why_not(mine, event, owners) if mine else None) or (
            "before_subscription" if event.created_at < row.created_at else "not_routed"
        )
    return {"event_id": event_id, "reason": reason, "detail": NOT_SENT[reason]}


@routes.post(
    "/webhooks/{webhook_id}/redeliver",
    scope="webhooks:write",
    errors=[TooManyItems],
    example={"since": "2026-03-14T09:00:00Z", "until": "2026-03-14T15:00:00Z", "status": "failed", "rate_per_s": 50},
)
async def redeliver_webhook(call: Call, webhook_id: int, body: NewRedelivery) -> Accepted[Redelivery]:
    """Send deliveries again, by their ids or by time.

    After an outage, `{"since":"..."}` brings back everything in one call: however much it is, in the order in which it
    first was sent, and at most `rate_per_s`. The events keep their ids, so a receiver that remembers them drops what it had
    already; each gets a new delivery and sequence. `dry_run` only counts.
    """
    row = await locked(call, webhook_id)
    sequences = await _sequences(call, row, body)
    if sequences is None:
        _check_range(body)
        matched = await queries.IN_RANGE.one(call.db, call.store_id, row.id, body.since, body.until, body.status)
    else:
        matched = len(sequences)
    if body.dry_run:
        told = Redelivery(None, row.id, matched, body.dry_run, body.rate_per_s, await queries.NOW.one(call.db))
        # The signature names the usual form; what was only counted is no accepted work.
        return cast("Accepted[Redelivery]", One(msgspec.json.encode(told), row.version))
    if await queries.UNFINISHED.one(call.db, call.store_id, row.id) >= MOST_UNFINISHED:
        raise RateLimited(
            f"{MOST_UNFINISHED} redeliveries of this subscription are under way.", headers=[(b"retry-after", b"10")]
        )
    given = (sequences, body.since, body.until, body.status, body.rate_per_s)
    queued = await queries.SEND_AGAIN.one(call.db, call.store_id, row.id, *given)
    await record(call, "webhook.redelivered", row.id, matched=matched)
    told = Redelivery(queued.id, row.id, matched, body.dry_run, body.rate_per_s, queued.created_at)
    return Accepted(msgspec.json.encode(told), row.version, f"/webhooks/{row.id}/deliveries")


async def _sequences(call: Call, row: Row, body: NewRedelivery) -> list[int] | None:
    """The sequences that ids name, each checked to be one of this subscription; None when a range is asked for."""
    if body.delivery_ids is None:
        return None
    if body.since is not None or body.until is not None or body.status is not None:
        fault = Fault("/delivery_ids", "invalid_format", "goes alone: ids or a range, not both")
        raise ValidationFailed("Ids and a range cannot be combined.", faults=[fault])
    if len(body.delivery_ids) > MOST_REDELIVERED:
        raise TooManyItems(f"At most {MOST_REDELIVERED} ids at once; a range has no limit.", max_items=MOST_REDELIVERED)
    parsed = [parse_delivery_id(each) for each in body.delivery_ids]
    wanted = [pair[1] if pair and pair[0] == row.id else 0 for pair in parsed]
    known = set(await queries.EXISTING.all(call.db, call.store_id, row.id, wanted))
    faults = [
        Fault(f"/delivery_ids/{place}", "not_found", "is no delivery of this subscription")
        for place, sequence in enumerate(wanted)
        if sequence not in known
    ]
    if faults or not wanted:
        faults = faults[:100] or [Fault("/delivery_ids", "out_of_range", "must have at least 1 item")]
        raise ValidationFailed(f"{counted(len(faults), 'delivery id')} cannot be used.", faults=faults)
    return sorted(known)


def _check_range(body: NewRedelivery) -> None:
    faults: list[Fault] = []
    if body.since is None and body.status is None:
        faults.append(Fault("/since", "required", "give since, status or delivery_ids"))
    if body.since is not None and body.until is not None and body.since >= body.until:
        faults.append(Fault("/until", "out_of_range", "must be later than since"))
    if faults:
        raise ValidationFailed("It must be said what to send again.", faults=faults)
