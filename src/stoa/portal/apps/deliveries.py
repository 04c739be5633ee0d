"""Deliveries of a subscription: the log, one delivery with its payload and attempts, and redelivery."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from markupsafe import escape

from stoa.events.outbox import Event
from stoa.portal.apps.apps import APPS
from stoa.portal.apps.impersonation import WRITE, ImpersonatedCall, webhook_call, write_transaction
from stoa.portal.apps.queries import ORDER_BY_NUMBER, ORDER_NUMBERS
from stoa.portal.apps.subscription_detail import found_row, subscription
from stoa.portal.apps.subscriptions import event_groups
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import FormError, text
from stoa.portal.kit.list_view import PAGE_SIZE, moment
from stoa.portal.kit.pages import Pages, Redirect, View
from stoa.portal.kit.refusals import refusals_as_faults
from stoa.portal.kit.visit import Visit
from stoa.rest.lists import Page, read_list
from stoa.rest.problems import Refusal
from stoa.webhooks.api import delivery_log
from stoa.webhooks.api.delivery_contract import Attempt, Delivery, NewRedelivery, Redelivery
from stoa.webhooks.api.delivery_ids import delivery_id
from stoa.webhooks.api.listings import DELIVERIES

pages = Pages()
_FILTERS = ("status", "event_type", "event_id", "resource_type", "resource", "since", "until")
_RESOURCES = ("order", "product", "variant", "customer", "import")
_NO_RESOURCE = 0  # the id of no resource
_MAX_DIGITS = 16
_MAX_SELECTED = 100
_STATUSES = ("succeeded", "failed", "retrying", "pending", "held", "skipped", "cancelled")
# Limits in escaped characters, so that a page stays small.
_MAX_PAYLOAD_LENGTH, _MAX_RESPONSES_LENGTH = 60_000, 40_000
_TIME_MESSAGE = "Enter a date and a time, such as 2026-03-14T09:30."


class RedeliveryForm(msgspec.Struct):
    since: Annotated[str, text(_TIME_MESSAGE, max_length=40)] = ""
    until: Annotated[str, text(_TIME_MESSAGE, max_length=40)] = ""
    status: Annotated[
        Literal["failed", "succeeded", "skipped", "cancelled", "any"],
        msgspec.Meta(extra={"message": "Select one of the options."}),
    ] = "failed"


class SelectionForm(msgspec.Struct):
    deliveries: Annotated[
        list[Annotated[int, msgspec.Meta(ge=1, le=2**62)]],
        msgspec.Meta(min_length=1, max_length=_MAX_SELECTED, extra={"message": "Select at least one delivery."}),
    ] = []

    @classmethod
    def faults(cls, values: Mapping[str, Any]) -> dict[str, str]:
        return {} if values.get("deliveries") else {"deliveries": "Select at least one delivery."}


class AttemptView(msgspec.Struct):
    """An attempt with the response body, truncated to fit on the page."""

    attempt: Attempt
    response_body: str
    truncated: bool


@pages.page("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/deliveries", nav="list_apps")
async def webhook_deliveries(visit: Visit) -> View:
    call = await webhook_call(visit)
    hook = await subscription(visit.db, call, visit.path_param("webhook_id"))
    filters = {name: value for name in _FILTERS if (value := visit.query(name).strip())}
    cursor = visit.request.query_params.get("cursor", "")
    fault = ""
    try:
        parameters = {**await _parameters(call, filters), **({"cursor": cursor} if cursor else {})}
        page = await _list_deliveries(call, hook.id, parameters)
    except (Refusal, ValueError) as refusal:
        fault = refusal.detail if isinstance(refusal, Refusal) else "The link is invalid. Showing the first page."
        filters = {}
        page = await _list_deliveries(call, hook.id, {})

    found = [msgspec.json.decode(doc, type=Delivery) for doc in page.docs]

    def url(cursor: str | None) -> str:
        return f"?{urlencode({**filters, 'cursor': cursor})}" if cursor else ""

    context = {
        "hook": hook,
        "store": call.store,
        "deliveries": found,
        "numbers": await order_numbers(call, _resources(found)),
        "total": page.total,
        "filters": filters,
        "fault": fault,
        "not_sent": page.extra_meta.get("not_sent") if page.extra_meta else None,
        "next": url(page.next_cursor),
        "previous": url(page.prev_cursor),
        "query": urlencode(filters),
        "statuses": _STATUSES,
        "resources": _RESOURCES,
        "events": [
            pattern for wildcard, _, group in event_groups() for pattern in (wildcard, *(each.name for each in group))
        ],
        "may_write": call.may(WRITE),
    }
    return View("apps/deliveries.html", context)


async def _parameters(call: ImpersonatedCall, filters: dict[str, str]) -> dict[str, str]:
    """Return the filters as parameters of the API. People know an order by its number; other resources have ids."""
    parameters = dict(filters)
    resource, number = parameters.pop("resource", ""), filters.get("resource", "").removeprefix("#").strip()
    if resource and (resource.startswith("#") or filters.get("resource_type") == "order"):
        known = call.may("orders:read") and number.isascii() and number.isdigit() and len(number) < _MAX_DIGITS
        found = await ORDER_BY_NUMBER.maybe(call.db, call.store_id, int(number)) if known else None
        parameters |= {"resource_type": "order", "resource_id": str(found or _NO_RESOURCE)}
    elif resource:
        parameters["resource_id"] = resource
    for name in ("since", "until"):
        if name in parameters:
            time = moment(parameters[name])
            parameters[name] = time.isoformat() if time else parameters[name]
    return parameters


def _resources(deliveries: Iterable[Delivery]) -> list[tuple[str, int]]:
    return [(each.resource.type, each.resource.id) for each in deliveries]


async def order_numbers(call: ImpersonatedCall, resources: Iterable[tuple[str, int]]) -> dict[int, int]:
    """The numbers of the orders among the types and ids of resources, if the app may read orders."""
    ids = [str(resource_id) for kind, resource_id in resources if kind == "order"]
    rows = await ORDER_NUMBERS.all(call.db, call.store_id, ids) if ids and call.may("orders:read") else []
    return {row.id: row.number for row in rows}


async def _list_deliveries(call: ImpersonatedCall, webhook_id: int, parameters: dict[str, str]) -> Page[Any]:
    sent = urlencode({"limit": str(PAGE_SIZE), **parameters}).encode()
    query = read_list(DELIVERIES, sent, call.store, f"/webhooks/{webhook_id}/deliveries")
    return await delivery_log.deliveries_of(call, await found_row(call.db, call, webhook_id), query)


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/redeliver", on=webhook_deliveries)
async def redeliver_range(visit: Visit, form: RedeliveryForm) -> Redirect:
    call = await webhook_call(visit)
    body = NewRedelivery(since=_parse_time("since", form.since), until=_parse_time("until", form.until))
    if body.since is None:
        raise FormError(since="Enter the start of the period, in UTC.")
    if form.status != "any":
        body.status = form.status
    async with write_transaction(visit, call, ("since", "until")):
        row = await found_row(call.db, call, visit.path_param("webhook_id"))
        accepted = await delivery_log.redelivered(call, row, body)
    matched = msgspec.json.decode(accepted.doc, type=Redelivery).matched
    if not matched:
        return Redirect(_log_url(visit), "No deliveries match this period and status.", "")
    return Redirect(_log_url(visit), _redelivering(matched))


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/redeliver-selected", on=webhook_deliveries)
async def redeliver_selected(visit: Visit, form: SelectionForm) -> Redirect:
    call = await webhook_call(visit)
    webhook_id = visit.path_param("webhook_id")
    async with write_transaction(visit, call):
        row = await found_row(call.db, call, webhook_id)
        body = NewRedelivery(delivery_ids=[delivery_id(webhook_id, sequence) for sequence in set(form.deliveries)])
        accepted = await delivery_log.redelivered(call, row, body)
    matched = msgspec.json.decode(accepted.doc, type=Redelivery).matched
    filters = urlencode({name: value for name in _FILTERS if (value := visit.query(name).strip())})
    url = f"{_log_url(visit)}?{filters}" if filters else _log_url(visit)
    return Redirect(url, _redelivering(matched))


def _redelivering(count: int) -> str:
    return "Redelivering 1 delivery." if count == 1 else f"Redelivering {count:,} deliveries."


def _parse_time(field: str, value: str) -> datetime | None:
    """Parse the value of a datetime-local field as UTC."""
    if not value:
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError as error:
        raise FormError({field: _TIME_MESSAGE}) from error
    if not 2000 <= time.year <= 9000:
        raise FormError({field: "Enter a year from 2000 to 9000."})
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


# --- one delivery ---------------------------------------------------------------------------------------------------


@pages.page("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/deliveries/{sequence:int}", nav="list_apps")
async def webhook_delivery(visit: Visit) -> View:
    call = await webhook_call(visit)
    hook = await subscription(visit.db, call, visit.path_param("webhook_id"))
    delivery = await _find(call, hook.id, visit.path_param("sequence"))
    event = Event.known.get(delivery.event_type)
    # A payload contains the store's data, and a receiver may echo it: both need a scope that is granted now, and are not for
    # viewers.
    granted = event is not None and call.may(event.scope)
    shown = granted and visit.may_change()
    payload, truncated, headers = "", False, ""
    if shown:
        payload, truncated = truncate_escaped(_pretty(delivery.payload), _MAX_PAYLOAD_LENGTH)
        signed = {} if delivery.headers is msgspec.UNSET else delivery.headers
        # The values of custom headers are secrets: the subscription shows only their names.
        headers = "\n".join(f"{name}: {value}" for name, value in {**hook.headers, **signed}.items() if signed)
    context = {
        "hook": hook,
        "store": call.store,
        "delivery": delivery,
        "numbers": await order_numbers(call, _resources([delivery])),
        "granted": granted,
        "payload": payload,
        "headers": headers,
        "truncated": truncated,
        "expired": not delivery.payload,
        "attempts": _attempt_views(delivery.attempts, responses=shown),
        "scope": event.scope if event else "",
        "may_write": call.may(WRITE),
    }
    return View("apps/delivery.html", context)


async def _find(call: ImpersonatedCall, webhook_id: int, sequence: int) -> Delivery:
    """Return the delivery with this sequence: the first one in the feed after the previous sequence."""
    parameters = {"after": str(sequence - 1), "limit": "1", "include": "payload"}
    async with refusals_as_faults():
        page = await _list_deliveries(call, webhook_id, parameters)
    found = [msgspec.json.decode(doc, type=Delivery) for doc in page.docs]
    if not found or found[0].sequence != sequence:
        raise not_found()
    return found[0]


@pages.form("/apps/{app_id:int}/webhooks/{at}/{webhook_id:int}/deliveries/{sequence:int}/again", on=webhook_delivery)
async def redeliver_one(visit: Visit) -> Redirect:
    call = await webhook_call(visit)
    webhook_id, sequence = visit.path_param("webhook_id"), visit.path_param("sequence")
    await _find(call, webhook_id, sequence)
    async with write_transaction(visit, call):
        body = NewRedelivery(delivery_ids=[delivery_id(webhook_id, sequence)])
        await delivery_log.redelivered(call, await found_row(call.db, call, webhook_id), body)
    return Redirect(_log_url(visit), "Redelivering the event as a new delivery.")


def _pretty(payload: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(payload), indent=2).decode() if payload else ""


def _attempt_views(attempts: list[Attempt], *, responses: bool) -> list[AttemptView]:
    """Return the attempts, latest first; together, their response bodies have a limited length."""
    remaining = _MAX_RESPONSES_LENGTH
    views: list[AttemptView] = []
    for attempt in reversed(attempts):
        body, truncated = truncate_escaped((responses and attempt.response_body) or "", remaining)
        remaining -= len(escape(body))
        views.append(AttemptView(attempt, body, truncated))
    return views


def truncate_escaped(value: str, limit: int) -> tuple[str, bool]:
    """Truncate a text so that it has at most `limit` characters once escaped; return whether it was truncated."""
    kept = value[: max(0, limit)]
    while kept and len(escape(kept)) > limit:
        kept = kept[: len(kept) * 3 // 4]
    return kept, len(kept) < len(value)


def _log_url(visit: Visit) -> str:
    return f"{APPS}/{visit.app.id}/webhooks/{visit.path_param('at')}/{visit.path_param('webhook_id')}/deliveries"
