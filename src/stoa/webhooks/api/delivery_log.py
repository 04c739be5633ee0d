"""The endpoints of the delivery log and the event feed, and redelivery."""

import time
from collections.abc import Collection, Sequence
from typing import Any, cast

import msgspec

from stoa.events.outbox import Event
from stoa.rest.batch import TooManyItems
from stoa.rest.call import Call
from stoa.rest.endpoint import Accepted, One, Page, Routes
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.problems import Fault, InvalidParameter, RateLimited, ValidationFailed, counted
from stoa.webhooks.api import queries, rules
from stoa.webhooks.api.delivery_contract import MAX_REDELIVERED, Delivery, NewRedelivery, Redelivery
from stoa.webhooks.api.delivery_ids import parse_delivery_id
from stoa.webhooks.api.documents import Secrets
from stoa.webhooks.api.examples import NEW_REDELIVERY
from stoa.webhooks.api.feed import watch_of
from stoa.webhooks.api.listings import DELIVERIES, NOT_SENT
from stoa.webhooks.api.queries import Row
from stoa.webhooks.api.subscriptions import event_store, found, locked, record
from stoa.webhooks.delivery import matching
from stoa.webhooks.delivery.queries import SELECTIONS_OF_STORE
from stoa.webhooks.http import message

routes = Routes("Webhooks")
MAX_UNFINISHED = 20
_PENDING = ("pending", "retrying")


@routes.get("/webhooks/{webhook_id}/deliveries", scope="webhooks:read", lists=DELIVERIES, primary=True)
async def list_webhook_deliveries(call: Call, webhook_id: int, query: ListQuery) -> Page[Delivery]:
    """List deliveries, or read them as a feed.

    The log covers 30 days, newest first, with every attempt and the response of the receiver. A delivery whose event
    the token may not read shows neither payload nor responses.

    - **Payloads.** `include=payload` adds the request body.
    - **Missing events.** If you filter by `event_id` and there is no delivery, `meta.not_sent` explains why.
    - **Feed.** With `after` the list has all deliveries after that sequence, oldest first, without gaps, and whatever
      their status. `wait` keeps the request open until a new event arrives. Send the last `sequence`, or `meta.after`,
      as the next `after`. With `include=payload` each event also has the headers of a delivery, with a fresh
      signature.
    """
    return await deliveries_of(call, await found(call, webhook_id), query)


async def deliveries_of(call: Call, row: Row, query: ListQuery) -> Page[Delivery]:
    """The deliveries of a subscription, or of the app's own endpoint."""
    if "after" in query.options:
        return await _feed(call, row, query)
    if "wait" in query.options:
        raise InvalidParameter("wait requires after.")
    page = await list_page(
        call.db,
        call.store_id,
        queries.DELIVERIES,
        _narrowed(query, row).with_filter("webhook_id", row.id),
        separate=True,
    )
    page.docs = _shown(call, row, page.docs)
    if query.include:
        page.docs = await _with_payload(call, row, page.docs, page.ids)
    if "event_id" in query.given and not page.total:
        page.extra_meta = {"not_sent": await _why_not(call, row, query.given["event_id"])}
    return page


def _narrowed(query: ListQuery, row: Row) -> ListQuery:
    """Translate `held`: deliveries of a subscription that does not send are stored as pending or retrying."""
    if "status" not in query.shape.filters:
        return query
    asked: list[str] = query.values[query.shape.filters.index("status")]
    pending = (
        [*_PENDING] if "held" in asked and row.held else [each for each in _PENDING if each in asked and not row.held]
    )
    return query.with_filter("status", [each for each in asked if each not in (*_PENDING, "held")] + pending)


def _shown(call: Call, row: Row, docs: Sequence[bytes]) -> list[bytes]:
    scopes = [*rules.usable(call.caller, row.readable)]
    unreadable = {name for name in Event.known if not matching.may_receive(name, scopes, of_app=row.of_app)}
    shown: list[bytes] = []
    for each in docs:
        doc = each
        # Quotation marks inside strings are escaped, so the first match is the member and not text of a receiver.
        for status in _PENDING if row.held else ():
            doc = doc.replace(b'"status":"%b"' % status.encode(), b'"status":"held"', 1)
        shown.append(_without_responses(doc, unreadable) if unreadable else doc)
    return shown


def _without_responses(doc: bytes, unreadable: Collection[str]) -> bytes:
    """A delivery of one of these types without what its receiver responded, because a response may repeat the event."""
    members = msgspec.json.decode(doc, type=dict[str, msgspec.Raw])
    if msgspec.json.decode(members["event_type"]) not in unreadable:
        return doc
    attempts = msgspec.json.decode(members["attempts"], type=list[dict[str, Any]])
    hidden = msgspec.json.encode([{**attempt, "response_body": None} for attempt in attempts])
    return msgspec.json.encode({**members, "attempts": msgspec.Raw(hidden)})


async def _feed(call: Call, row: Row, query: ListQuery) -> Page[Delivery]:
    if query.shape.filters or query.shape.resumed or query.page or "sort" in query.given:
        raise InvalidParameter(
            "A feed accepts only after, wait, limit, include and fields. The subscription selects its events."
        )
    if query.streamed:
        fault = Fault("after", "invalid_parameter", "must not be sent: the feed is read in pages")
        raise InvalidParameter("The feed of events is not a stream. Send Accept: application/json.", faults=[fault])
    after, wait = query.options["after"], query.options.get("wait", 0)
    given = (call.store_id, row.id, after, query.limit + 1)
    fed = await queries.FEED.all(call.db, *given)
    if not fed and wait:
        with call.waiting():
            await watch_of(call.db).until_after(call.store_id, call.caller.app_id, row.id, after, wait)
        fed = await queries.FEED.all(call.db, *given)
        row = await found(call, row.id)
    # Sequences have no gaps, so the total follows from the first and the last.
    total = row.last_sequence - fed[0].sequence + 1 if len(fed) > query.limit else len(fed)
    fed = fed[: query.limit]
    docs, sequences = _shown(call, row, [each.doc for each in fed]), [each.sequence for each in fed]
    if query.include:
        docs = await _with_payload(call, row, docs, sequences, signed=True)
    extra_meta = {"after": sequences[-1] if sequences else after}
    return Page(docs, sequences, max(total, len(fed)), query.limit, None, None, None, extra_meta)


async def _with_payload(
    call: Call, row: Row, docs: list[bytes], sequences: Sequence[int], *, signed: bool = False
) -> list[bytes]:
    """Add the payload to each document, built from the stored event; null if the event has expired."""
    stored_at = await queries.EVENT_KEYS.all(call.db, call.store_id, row.id, list(sequences))
    stored = await queries.EVENTS.all(
        call.db, call.store_id, [each.event_id for each in stored_at], sorted({each.event_day for each in stored_at})
    )
    events = {event.id: event for event in stored}
    secrets, store = Secrets(call).of(row) if signed else [], event_store(call, row)
    named = call.store_id if row.shared_secret else None
    scopes = [*rules.usable(call.caller, row.readable)]
    extended: dict[int, bytes] = {}
    for each in stored_at:
        event = events.get(each.event_id)
        if event and not matching.may_receive(event.type, scopes, of_app=row.of_app):
            event = None  # past events also need the scope
        event = matching.seen_by(row.app_id, scopes, event) if event else None
        body = message.body(event, each.sequence, store, payload=row.payload, fields=row.fields) if event else b"null"
        extended[each.sequence] = b',"payload":%b' % body
        if signed and event:
            headers = {
                "content-type": "application/json",
                **message.sign(secrets, event.id, int(time.time()), body, named),
            }
            extended[each.sequence] += b',"headers":%b' % msgspec.json.encode(headers)
    return [
        b"%b%b}" % (doc[:-1], extended.get(sequence, b',"payload":null'))
        for doc, sequence in zip(docs, sequences, strict=True)
    ]


async def _why_not(call: Call, row: Row, event_id: str) -> dict[str, Any]:
    """Why an event was not sent to a subscription, by the current state of both."""
    event = await queries.EVENT_ANY_DAY.maybe(call.db, call.store_id, event_id)
    reason = "unknown_event"
    if event is not None:
        selections = await SELECTIONS_OF_STORE.all(call.db, call.store_id)
        owners = {each.id: each.app_id for each in selections}
        selection = next((each for each in selections if each.id == row.id), None)
        if selection is not None and call.caller.narrowed:
            # A reason such as `filtered` tells something about the resource.
            selection.granted_scopes = [*rules.usable(call.caller, row.readable)]
        reason = (matching.why_not(selection, event, owners, matching.Views()) if selection else None) or (
            "before_subscription" if event.created_at < row.created_at else "not_routed"
        )
    return {"event_id": event_id, "reason": reason, "detail": NOT_SENT[reason]}


@routes.post(
    "/webhooks/{webhook_id}/redeliver",
    scope="webhooks:write",
    errors=[TooManyItems],
    example=NEW_REDELIVERY,
)
async def redeliver_webhook(call: Call, webhook_id: int, body: NewRedelivery) -> Accepted[Redelivery]:
    """Send deliveries again, by id or by time range.

    After an outage, `{"since":"..."}` sends everything again in one call, in the original order and at most `rate_per_s`
    per second. The events keep their ids, so your receiver can ignore repeats; each gets a new delivery and sequence.
    `dry_run` only counts the deliveries. The token needs the scopes of the events that are sent.
    """
    return await redelivered(call, await locked(call, webhook_id), body)


async def redelivered(call: Call, row: Row, body: NewRedelivery) -> Accepted[Redelivery]:
    """Queue deliveries of a subscription, or of the app's own endpoint, again."""
    sequences = await _sequences(call, row, body)
    if sequences is None:
        _check_range(body)
        sent = await queries.IN_RANGE.all(call.db, call.store_id, row.id, body.since, body.until, body.status)
    else:
        sent = await queries.CHOSEN.all(call.db, call.store_id, row.id, sequences)
    matched = sum(each.deliveries for each in sent)
    if not row.of_app:
        granted = await queries.GRANTED.one(call.db, call.store_id, row.id)
        rules.check_sent([each.event_type for each in sent], call.caller, granted)
    if body.dry_run:
        counted_only = Redelivery(None, row.id, matched, body.dry_run, body.rate_per_s, await queries.NOW.one(call.db))
        # A dry run starts no work, so it answers 200 instead of 202.
        return cast("Accepted[Redelivery]", One(msgspec.json.encode(counted_only), row.version))
    if await queries.UNFINISHED.one(call.db, call.store_id, row.id) >= MAX_UNFINISHED:
        raise RateLimited(
            f"This subscription already has {MAX_UNFINISHED} unfinished redeliveries. Retry later.",
            headers=[(b"retry-after", b"10")],
        )
    given = (sequences, body.since, body.until, body.status, body.rate_per_s)
    queued = await queries.INSERT_REDELIVERY.one(call.db, call.store_id, row.id, *given)
    await record(call, "webhook.redelivered", row.id, matched=matched)
    redelivery = Redelivery(queued.id, row.id, matched, body.dry_run, body.rate_per_s, queued.created_at)
    return Accepted(msgspec.json.encode(redelivery), row.version, f"/webhooks/{row.id}/deliveries")


async def _sequences(call: Call, row: Row, body: NewRedelivery) -> list[int] | None:
    """The sequences of the given delivery ids, all checked to exist; None if a range is given."""
    if body.delivery_ids is None:
        return None
    if body.since is not None or body.until is not None or body.status is not None:
        fault = Fault("/delivery_ids", "invalid_format", "cannot be combined with since, until or status")
        raise ValidationFailed("Specify delivery ids or a range, not both.", faults=[fault])
    if len(body.delivery_ids) > MAX_REDELIVERED:
        raise TooManyItems(
            f"At most {MAX_REDELIVERED} delivery ids are allowed; a range has no limit.", max_items=MAX_REDELIVERED
        )
    parsed = [parse_delivery_id(each) for each in body.delivery_ids]
    wanted = [pair[1] if pair and pair[0] == row.id else 0 for pair in parsed]
    known = set(await queries.EXISTING.all(call.db, call.store_id, row.id, wanted))
    faults = [
        Fault(f"/delivery_ids/{index}", "not_found", "is not a delivery of this subscription")
        for index, sequence in enumerate(wanted)
        if sequence not in known
    ]
    if faults or not wanted:
        faults = faults[:100] or [Fault("/delivery_ids", "out_of_range", "must have at least 1 item")]
        raise ValidationFailed(f"{counted(len(faults), 'delivery id')} cannot be used.", faults=faults)
    return sorted(known)


def _check_range(body: NewRedelivery) -> None:
    faults: list[Fault] = []
    if body.since is None and body.status is None:
        faults.append(Fault("/since", "required", "is required, unless status or delivery_ids is given"))
    if body.since is not None and body.until is not None and body.since >= body.until:
        faults.append(Fault("/until", "out_of_range", "must be later than since"))
    if faults:
        raise ValidationFailed(
            "Specify `delivery_ids`, `since` or `status`; `until` must be later than `since`.", faults=faults
        )
