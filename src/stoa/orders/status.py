"""The endpoint that moves an order: its status, payment, fulfillments and refunds."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

import msgspec

from stoa import money
from stoa.db.query import Executor
from stoa.inventory.contract import InsufficientStock
from stoa.orders import queries
from stoa.orders.allocation import unknown_location
from stoa.orders.bodies import NewRefundLine, Portion, StatusChange
from stoa.orders.contract import (
    IllegalTransition,
    Order,
    OrderNotPaid,
    PaymentAlreadyRecorded,
    RefundExceedsPayment,
)
from stoa.orders.contradictions import check_body
from stoa.orders.documents import actor_of, time_text
from stoa.orders.endpoints import get_order
from stoa.orders.events import Changes, differences, events_of
from stoa.orders.examples import PAYMENT, REFUND, SHIPMENT, STATUS_CHANGE
from stoa.orders.fulfillments import deliver, track, untrack, void
from stoa.orders.line_items import Allocation
from stoa.orders.payments import Occasion, change_payment, pay
from stoa.orders.placement import locations_of
from stoa.orders.refunds import add_refund, refund
from stoa.orders.rules import change_status
from stoa.orders.state import OrderState
from stoa.orders.update import Change, Consequences, Entry, loaded, lock_all, update_all
from stoa.rest.call import Call
from stoa.rest.endpoint import One, Routes, Task
from stoa.rest.group_commit import only_outcome
from stoa.rest.problems import Fault, Refusal, ValidationFailed, counted

routes = Routes("Orders")
TASKS = (
    Task(
        "take_payment",
        "Take a payment",
        "Record money that the customer paid: all that is due, a deposit, or a part. Stoa charges nobody: send what your payment "
        "provider captured. `payment_status`, `amount_due` and `balance` follow. With an `external_id` or an `Idempotency-Key`, a "
        "repeated request is not a second payment.",
        PAYMENT,
    ),
    Task(
        "ship_order",
        "Ship an order",
        "Move an order to `shipped` and record the tracking of the shipment. Without `line_items`, all units that are left are "
        "shipped; with `line_items`, a part, and the status changes when the rest follows. Reserved stock leaves `on_hand`, and "
        "`fulfillments` gets one entry.",
        SHIPMENT,
    ),
    Task(
        "refund_order",
        "Refund an order",
        "Record money that goes back to the customer: for units (`line_items`), for shipping (`shipping_amount`), or any `amount`, "
        "at most what was paid. `refunds` and `payments` get one entry each. A refund returns no stock: send `status: returned` "
        "with the units that come back.",
        {"refund": REFUND},
    ),
)
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK_SKEW = timedelta(minutes=5)


Request = tuple[Call, int, StatusChange]


async def change_all(db: Executor, requests: Sequence[Request]) -> list[One[Order] | Refusal | None]:
    """Change orders of one store, each as if it came after those before it in the list.

    None is a change that runs again after the commit: of an order that an earlier one changes, or of one that needs further
    locks, together with all after it.
    """
    outcomes: dict[int, One[Order] | Refusal] = {}
    valid: dict[int, Request] = {}
    for number, request in enumerate(requests):
        try:
            check_body(request[2])
            valid[number] = request
        except Refusal as refusal:
            outcomes[number] = refusal
    if not valid:
        return list(outcomes.values())
    together, suspects = await _choose(db, valid)
    rows = await lock_all(db, requests[0][0].store_id, [order_id for _, order_id, _ in together.values()])
    changes: dict[int, Change] = {}
    for number, (call, order_id, body) in together.items():
        try:
            change = await _change(call, body, *loaded(call, rows.get(order_id)))
        except Refusal as refusal:
            outcomes[number] = refusal
            continue
        if change.order == change.before:
            outcomes[number] = await get_order(call, order_id)
            continue
        suspected = change.cancels and change.before.suspected_duplicates > 0
        locks_more = suspected or bool(change.growing)
        if changes and locks_more:
            break
        if suspected and not suspects:  # the suspect was placed after `_choose`
            suspects = await lock_suspects(call, order_id)
        change.consequences.no_longer_suspected = suspects if change.cancels else ()
        changes[number] = change
        if locks_more:
            break
    if changes:
        outcomes.update(zip(changes, await update_all(db, list(changes.values())), strict=True))
    return [outcomes.get(number) for number in range(len(requests))]


async def _choose(db: Executor, requests: Mapping[int, Request]) -> tuple[dict[int, Request], list[int]]:
    """The first requests about different orders. One that cancels an order with suspected duplicates, which it locks and
    returns, is by itself, because several orders are locked in the order of ids."""
    number, (call, order_id, body) = next(iter(requests.items()))
    if body.status == "cancelled" and await queries.SUSPECTED.all(db, call.store_id, order_id):
        return {number: requests[number]}, await lock_suspects(call, order_id)
    ids: set[int] = set()
    distinct = takewhile(lambda each: each[1][1] not in ids and not ids.add(each[1][1]), requests.items())
    return dict(distinct), []


async def _change(call: Call, body: StatusChange, before: OrderState, moment: datetime) -> Change:
    """What a request changes; the two orders are equal if it changes nothing."""
    shipped_at = _shipped_at(body, moment)
    await _check_locations(call, body)
    order = before.copy()
    _apply(call, order, body, time_text(moment), shipped_at)
    if body.void:
        await _void(call, order, body.fulfillment_id or 0, time_text(moment))
    changes = status_changes(call, before, order) if order != before else {}
    consequences = Consequences(
        events=events_of(changes),
        entries=[Entry("status_change", _entry_text(body), entry_changes(changes))],
        restock=body.restock or body.status != "returned",
        restock_at=_restock_at(body),
    )
    return Change(call, before, order, consequences)


@routes.put(
    "/orders/{order_id}/status",
    scope="orders:write",
    errors=[IllegalTransition, OrderNotPaid, PaymentAlreadyRecorded, RefundExceedsPayment, InsufficientStock],
    example=STATUS_CHANGE,
    tasks=TASKS,
    repeats=True,  # a payment, a refund, or a part that is shipped or returned
    grouped=change_all,
)
async def update_order_status(call: Call, order_id: int, body: StatusChange) -> One[Order]:
    """Change the status of an order.

    One request can change the status, take a payment, ship, return and refund. If the order already has the status,
    nothing changes: 200, no new version, no event.

    - **Stock** follows the status: it is reserved from `pending` on, leaves `on_hand` when shipped or completed, is
      released when cancelled, and returns to `on_hand` when returned unless `restock` is false.
    - **Parts.** With `line_items`, only a part is shipped or returned, and the status changes when the rest follows. A
      portion names the `location` that ships it or takes it back. Shipped units can be returned with `line_items` in
      any status; an order that is processing or cancelled keeps its status.
    - **Shipments.** Each request that ships units adds one entry to `fulfillments`. With `fulfillment_id`, `tracking`
      replaces the tracking of that fulfillment (null removes it), `delivered` marks only that one, and `void` undoes
      the shipment: its units are reserved again. The order is delivered when all are.
    - **Payments.** `payment` adds an entry to `payments`: a deposit, a part, or what is due after an edit or a refund.
      `payment_status: paid` records a payment of `amount_due`. `payment_status`, `amount_due` and `balance` follow
      from the records.
    - **Refunds.** `refund` adds an entry to `refunds` and to `payments`. So does the older form: `refunded`, or
      `partially_refunded` with `amount_refunded`.
    - **Retries.** Send an `Idempotency-Key` or an `external_id` with a payment or refund, and an `Idempotency-Key`
      with a partial shipment: without one, a repeated request is a second payment, refund or shipment.
    """
    return await only_outcome(call, change_all(call.db, [(call, order_id, body)]))


def status_changes(call: Call, before: OrderState, order: OrderState) -> Changes:
    """The changes of an order; a cancelled one has no suspected duplicates any more."""
    changes = differences(before, order, call.store.digits)
    if before.status != "cancelled" and order.status == "cancelled":
        order.suspected_duplicates = 0
        if before.suspected_duplicates:
            changes["suspected_duplicates_count"] = (before.suspected_duplicates, 0)
    return changes


def _shipped_at(body: StatusChange, moment: datetime) -> str | None:
    """The time of the shipment. A clock that is a little fast is forgiven: it counts as now."""
    if body.shipped_at is None:
        return None
    if not _EARLIEST <= body.shipped_at <= moment + _CLOCK_SKEW:
        fault = Fault("/shipped_at", "out_of_range", "must be between 1970 and now")
        raise ValidationFailed("The time of the shipment is invalid.", faults=[fault])
    return time_text(min(body.shipped_at, moment))


async def _check_locations(call: Call, body: StatusChange) -> None:
    """Refuse locations that do not exist or are inactive."""
    portions: list[tuple[str, Portion | NewRefundLine]] = [
        (f"/line_items/{n}/location", each) for n, each in enumerate(body.line_items or [])
    ]
    if body.refund is not None:
        portions += [(f"/refund/line_items/{n}/location", each) for n, each in enumerate(body.refund.line_items)]
    active = await locations_of(call.db, call.store, [each for _, each in portions])
    faults = [
        unknown_location(at) for at, each in portions if each.location is not None and each.location not in active
    ]
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults)


def _restock_at(body: StatusChange) -> dict[int, list[Allocation]]:
    """Where a request returns units of each line, if it names a location."""
    found: defaultdict[int, list[Allocation]] = defaultdict(list)
    for portion in (body.line_items or []) if body.status == "returned" else []:
        if portion.location is not None:
            found[portion.id].append(Allocation(portion.location, portion.quantity))
    for line in body.refund.line_items if body.refund is not None else []:
        if line.location is not None:
            found[line.line_item_id].append(Allocation(line.location, line.quantity))
    return found


async def _void(call: Call, order: OrderState, fulfillment_id: int, now: str) -> None:
    active = await queries.ACTIVE_LOCATIONS.all(call.db, call.store_id)
    variants = [line.variant_id for line in order.lines if line.variant_id is not None]
    untracked = await queries.UNTRACKED.all(call.db, call.store_id, variants)
    void(order, fulfillment_id, now, active, untracked)


def _apply(call: Call, order: OrderState, body: StatusChange, now: str, shipped_at: str | None) -> None:
    """Apply a change to an order: payment, status, tracking, then refund."""
    digits, shipments, actor = call.store.digits, len(order.fulfillments), actor_of(call)
    if body.payment is not None:
        given = body.payment
        pay(order, given, Occasion(now, actor, None, given.note, given.method, given.external_id), digits)
    if body.payment_status is not None:
        refunded = money.to_minor(body.amount_refunded, digits) if body.amount_refunded is not None else None
        occasion = Occasion(now, actor, body.reason)
        further = change_payment(order, body.payment_status, refunded, occasion)
        if further:
            add_refund(order, further, occasion, pointer="/amount_refunded")
    if body.fulfillment_id is not None and body.status == "delivered":
        deliver(order, now, body.fulfillment_id)
    elif body.status is not None:
        change_status(order, body.status, body.line_items or [], now, body.reason, shipped_at)
    if body.tracking is None and body.fulfillment_id is not None and body.status is None:
        untrack(order, body.fulfillment_id)
    elif body.tracking:
        tracking = msgspec.structs.asdict(body.tracking)
        shipped_now = len(order.fulfillments) > shipments
        track(order, tracking, now, fulfillment_id=body.fulfillment_id, shipped_now=shipped_now)
    if body.refund is not None:
        made = body.refund
        refund(order, made, Occasion(now, actor, made.reason, made.note, made.method, made.external_id), digits)


def _entry_text(body: StatusChange) -> str | None:
    """The text of the timeline entry: reason and comment, the note of the payment, then those of the refund."""
    texts = [body.reason, body.comment]
    if body.payment is not None:
        texts.append(body.payment.note)
    if body.refund is not None:
        texts += [body.refund.reason, body.refund.note]
    return "\n".join(text for text in texts if text) or None


# The entry's text already contains the words; without personal data, its changes survive an erasure.
_NOT_IN_ENTRIES = {"fulfillments": ("tracking",), "refunds": ("reason", "note"), "payments": ("note",)}


def entry_changes(changes: Changes) -> Changes:
    """The changes that the timeline entry shows."""
    shown = {name: pair for name, pair in changes.items() if name not in ("allowed_transitions", "cancelled_at")}
    for name, hidden in _NOT_IN_ENTRIES.items():
        if name in shown:
            old, new = shown[name]
            shown[name] = _without(old, hidden), _without(new, hidden)
    return shown


def _without(records: list[dict[str, Any]], hidden: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{name: value for name, value in each.items() if name not in hidden} for each in records]


async def lock_suspects(call: Call, order_id: int) -> list[int]:
    """Lock an order that is to be cancelled and its suspected duplicates, in the order of ids; returns the duplicates."""
    suspects = await queries.SUSPECTED.all(call.db, call.store_id, order_id)
    live = await queries.LOCK_LIVE.all(call.db, call.store_id, [*suspects, order_id])
    # No further suspect can be added now: that requires a lock on this order.
    added = set(await queries.SUSPECTED.all(call.db, call.store_id, order_id)) - set(suspects)
    if added:
        live += await queries.LOCK_LIVE.all(call.db, call.store_id, list(added))
    return [each for each in live if each != order_id]
