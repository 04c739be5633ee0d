"""What was sent to a subscription: the log, one delivery with its payload and every try, and sending again."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from markupsafe import escape

from stoa.events.outbox import Event
from stoa.portal.acting import WRITE, Acting, looking, telling, writing
from stoa.portal.answering import not_found
from stoa.portal.apps import APPS
from stoa.portal.forms import Wrong, text
from stoa.portal.pages import Pages, Redirect, View
from stoa.portal.subscription import subscription
from stoa.portal.subscriptions import choices
from stoa.portal.visit import Visit
from stoa.rest.lists import Page, read_list
from stoa.rest.problems import Refusal
from stoa.webhooks.api import delivery_log
from stoa.webhooks.api.contract import Attempt, Delivery, NewRedelivery, Redelivery
from stoa.webhooks.api.delivery_ids import delivery_id
from stoa.webhooks.api.listings import DELIVERIES

pages = Pages()
ROWS = 25
_FILTERS = ("status", "event", "event_id")
STATUSES = ("succeeded", "failed", "retrying", "pending", "held", "skipped", "cancelled")
_LONGEST_CURSOR = 4_000
# Escaped characters that one page has room for.
_PAYLOAD_ROOM, _ANSWERS_ROOM = 60_000, 40_000


class Again(msgspec.Struct):
    since: Annotated[str, text("Give a day and a time.", most=40)] = ""
    until: Annotated[str, text("Give a day and a time.", most=40)] = ""
    status: Annotated[
        Literal["failed", "succeeded", "skipped", "cancelled", "any"],
        msgspec.Meta(extra={"say": "Choose one of these."}),
    ] = "failed"


class Tried(msgspec.Struct):
    """One try, with as much of the receiver's words as the page has room for."""

    attempt: Attempt
    words: str
    cut: bool


@pages.page("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/deliveries", under="list_apps")
async def webhook_deliveries(visit: Visit) -> View:
    call = await looking(visit)
    hook = await subscription(visit.db, call, visit.place("webhook_id"))
    given = {name: value for name in _FILTERS if (value := visit.query(name).strip())}
    cursor = visit.request.query_params.get("cursor", "")
    asked = {**given, **({"cursor": cursor} if 0 < len(cursor) <= _LONGEST_CURSOR else {})}
    fault = ""
    try:
        page = await _listed(call, hook.id, asked)
    except (Refusal, ValueError) as refusal:
        fault = refusal.detail if isinstance(refusal, Refusal) else "This address cannot be read."
        given = {}
        page = await _listed(call, hook.id, {})

    def address(to: str | None) -> str:
        return f"?{urlencode({**given, 'cursor': to})}" if to else ""

    context = {
        "hook": hook,
        "store": call.store,
        "deliveries": [msgspec.json.decode(doc, type=Delivery) for doc in page.docs],
        "total": page.total,
        "given": given,
        "fault": fault,
        "why_not": page.extra_meta.get("not_sent") if page.extra_meta else None,
        "next": address(page.next_cursor),
        "before": address(page.prev_cursor),
        "statuses": STATUSES,
        "events": [each.name for _, _, group in choices() for each in group],
        "may_write": call.caller.may(WRITE),
    }
    return View("apps/deliveries.html", context)


async def _listed(call: Acting, webhook_id: int, asked: dict[str, str]) -> Page[Any]:
    query = read_list(DELIVERIES, urlencode({"limit": str(ROWS), **asked}).encode(), call.store)
    return await delivery_log.list_webhook_deliveries(call, webhook_id, query)


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/redeliver", on=webhook_deliveries)
async def redeliver_range(visit: Visit, form: Again) -> Redirect:
    call = await looking(visit)
    body = NewRedelivery(since=_moment("since", form.since), until=_moment("until", form.until))
    if body.since is None:
        raise Wrong(since="Say from when on, in UTC.")
    if form.status != "any":
        body.status = form.status
    async with writing(visit, call, ("since", "until")):
        accepted = await delivery_log.redeliver_webhook(call, visit.place("webhook_id"), body)
    number = msgspec.json.decode(accepted.doc, type=Redelivery).matched
    if not number:
        return Redirect(_log(visit), "Nothing in this time was to be sent again.", "")
    words = "1 delivery is being sent again." if number == 1 else f"{number:,} deliveries are being sent again."
    return Redirect(_log(visit), words)


def _moment(field: str, said: str) -> datetime | None:
    """A time as a browser's field gives it, taken as UTC."""
    if not said:
        return None
    try:
        moment = datetime.fromisoformat(said)
    except ValueError as error:
        raise Wrong({field: "Give a day and a time, such as 2026-03-14T09:30."}) from error
    if not 2000 <= moment.year <= 9000:
        raise Wrong({field: "Give a time of this age."})
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


# --- one of them ----------------------------------------------------------------------------------------------------


@pages.page("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/deliveries/{sequence:int}", under="list_apps")
async def webhook_delivery(visit: Visit) -> View:
    call = await looking(visit)
    hook = await subscription(visit.db, call, visit.place("webhook_id"))
    delivery = await _found(call, hook.id, visit.place("sequence"))
    kind = Event.known.get(delivery.event_type)
    # What is told of a store is for those who may hear it now, and who answer for the app.
    heard = kind is not None and call.caller.may(kind.scope)
    payload, cut = fitting(_pretty(delivery.payload), _PAYLOAD_ROOM) if heard and visit.may_change() else ("", False)
    context = {
        "hook": hook,
        "store": call.store,
        "delivery": delivery,
        "heard": heard,
        "payload": payload,
        "cut": cut,
        "gone": not delivery.payload,
        "tried": _tried(delivery.attempts),
        "scope": kind.scope if kind else "",
        "may_write": call.caller.may(WRITE),
    }
    return View("apps/delivery.html", context)


async def _found(call: Acting, webhook_id: int, sequence: int) -> Delivery:
    """The delivery with this sequence: the first one of the feed after the one before."""
    asked = {"after": str(sequence - 1), "limit": "1", "include": "payload"}
    async with telling():
        page = await _listed(call, webhook_id, asked)
    found = [msgspec.json.decode(doc, type=Delivery) for doc in page.docs]
    if not found or found[0].sequence != sequence:
        raise not_found()
    return found[0]


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/deliveries/{sequence:int}/again", on=webhook_delivery)
async def redeliver_one(visit: Visit) -> Redirect:
    call = await looking(visit)
    webhook_id, sequence = visit.place("webhook_id"), visit.place("sequence")
    await _found(call, webhook_id, sequence)
    async with writing(visit, call):
        body = NewRedelivery(delivery_ids=[delivery_id(webhook_id, sequence)])
        await delivery_log.redeliver_webhook(call, webhook_id, body)
    return Redirect(_log(visit), "It is being sent again, as a delivery of its own.")


def _pretty(payload: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(payload), indent=2).decode() if payload else ""


def _tried(attempts: list[Attempt]) -> list[Tried]:
    """The tries, the latest first; what the receiver said is shown as long as there is room."""
    room = _ANSWERS_ROOM
    tried: list[Tried] = []
    for attempt in reversed(attempts):
        words, cut = fitting(attempt.response_body or "", room)
        room -= len(escape(words))
        tried.append(Tried(attempt, words, cut))
    return tried


def fitting(words: str, room: int) -> tuple[str, bool]:
    """As much of a text as takes so many characters once it is escaped, and whether that is less than all."""
    kept = words[: max(0, room)]
    while kept and len(escape(kept)) > room:
        kept = kept[: len(kept) * 3 // 4]
    return kept, len(kept) < len(words)


def _log(visit: Visit) -> str:
    return f"{APPS}/{visit.app.id}/webhooks/{visit.place('at')}/{visit.place('webhook_id')}/deliveries"
