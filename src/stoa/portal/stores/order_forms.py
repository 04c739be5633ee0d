"""The forms of an order: what each action asks, when an order's state allows it, and the API body that it becomes.

They decide nothing: the endpoint's handler accepts or refuses the body, and its pointers lead back to the fields.
"""

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Annotated, Any

import msgspec

from stoa.inventory.contract import Location
from stoa.orders.bodies import LONGEST_HOLD_S
from stoa.orders.contract import HOLDING, UNPAID, Order
from stoa.orders.payments import PAYMENTS
from stoa.orders.records import Fulfillment
from stoa.portal.kit.forms import FormError, text
from stoa.portal.stores.order_units import (
    UnitRow,
    all_rows,
    rows_to_move,
    rows_to_refund,
    rows_to_ship,
    rows_to_take_back,
    unshipped,
)
from stoa.portal.stores.writes import VersionedForm, ids_in, whole

Line = Annotated[str, text("Enter at most 5,000 printable characters.", max_length=5_000)]
Text = Annotated[str, text("Enter at most 5,000 printable characters.", max_length=5_000, multiline=True)]
Tags = Annotated[str, text("Enter one tag per line.", max_length=20_000, multiline=True)]
# These statuses have a form of their own.
_OWN_FORM = frozenset({"shipped", "returned", "cancelled"})
_REFUNDS = frozenset({"partially_refunded", "refunded"})


def tags_in(lines: str) -> list[str]:
    """The tags, one per line, because a tag may contain a comma."""
    return [tag for line in lines.split("\n") if (tag := line.strip())]


class OrderForm(VersionedForm):
    """The fields of all actions; each action reads its own."""

    quantities: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # by the key of the row
    carrier: Line = ""
    tracking_number: Line = ""
    tracking_url: Line = ""
    fulfillment_id: Line = ""
    delivered: bool = False
    remove_tracking: bool = False
    location: Line = ""  # that ships units, takes them back, or reserves them
    line_item_id: Line = ""
    amount: Line = ""
    shipping_amount: Line = ""
    method: Line = ""
    external_id: Line = ""
    shown_amount: Line = ""  # the amount in all that the page showed
    restock: bool = False
    status: Line = ""
    payment_status: Line = ""
    hold_hours: Line = ""
    end_hold: bool = False
    reason: Line = ""
    note: Text = ""
    comment: Text = ""
    confirmed: bool = False


class Body(msgspec.Struct):
    """The body of a status change, of a change of one line item, or of the order's fields, or the bodies of several line
    items, and the field of the form for each pointer into it.
    """

    members: dict[str, Any]
    fields: dict[str, str]
    line_item_id: int | None = None
    lines: Mapping[int, dict[str, Any]] = {}  # the pointers into these begin with the id
    of_order: bool = False


class Action(msgspec.Struct, frozen=True):
    """Something that can be done with an order: its name in the audit log, its result, and the body that it sends."""

    title: str
    audited: str
    done: str
    body: Callable[[OrderForm], Body]
    rows: Callable[[Order, bool], list[UnitRow]] | None  # the units that it can take, by location if there are several
    possible: Callable[[Order], bool]
    refunds: bool = False  # whether it is carried out only if the page showed the amount
    needs_locations: bool = False  # whether it is offered only if the store has several locations
    replaces: bool = False  # whether its fields begin with stored values, which it replaces


_TRACKING = {"/tracking/carrier": "carrier", "/tracking": "tracking_number", "/tracking/url": "tracking_url"}


def _tracking(form: OrderForm) -> dict[str, Any]:
    sent = _words(carrier=form.carrier, number=form.tracking_number, url=form.tracking_url)
    return {"tracking": sent} if sent else {}


def _ship(form: OrderForm) -> Body:
    portions, fields = _portions(form, "id", "/line_items", "Enter the units to ship.")
    body = {"status": "shipped", "line_items": portions, **_tracking(form), **_words(comment=form.comment)}
    return Body(body, {**fields, **_TRACKING, "/comment": "comment"})


def _track(form: OrderForm) -> Body:
    """The tracking of one fulfillment, its delivery, or both."""
    changes: dict[str, Any] = {**_tracking(form), **({"status": "delivered"} if form.delivered else {})}
    if form.remove_tracking:
        if changes.get("status"):
            raise FormError(
                remove_tracking="Remove the tracking, or mark the parcel as delivered, one after the other."
            )
        changes = {"tracking": None}
    if not changes:
        raise FormError(tracking_number="Enter the tracking, or mark the parcel as delivered.")
    return Body(
        {"fulfillment_id": whole(form.fulfillment_id), **changes}, {**_TRACKING, "/fulfillment_id": "fulfillment_id"}
    )


def _relocate(form: OrderForm) -> Body:
    line = whole(form.line_item_id)
    if not isinstance(line, int):
        raise FormError(line_item_id="Select a line item.")
    if not form.location:
        raise FormError(location="Select a location.")
    return Body({"location": form.location}, {"/location": "location"}, line)


def _edit(form: OrderForm) -> Body:
    """The units of each line item; 0 removes it."""
    names = {line: name for name in form.quantities for line in ids_in([name])}
    if not names:
        raise FormError(quantities="Enter the units of a line item.")
    lines = {line: {"quantity": whole(form.quantities[name])} for line, name in names.items()}
    return Body({}, {f"/{line}": f"quantities[{name}]" for line, name in names.items()}, lines=lines)


def _void(form: OrderForm) -> Body:
    if not form.confirmed:
        raise FormError(confirmed="Select this box to confirm.")
    body = {"fulfillment_id": whole(form.fulfillment_id), "void": True, **_words(reason=form.reason)}
    return Body(body, {"/fulfillment_id": "fulfillment_id", "/void": "fulfillment_id", "/reason": "reason"})


def _take_back(form: OrderForm) -> Body:
    portions, fields = _portions(form, "id", "/line_items", "Enter the units that came back.")
    body = {"status": "returned", "line_items": portions, "restock": form.restock}
    return Body(body | _words(reason=form.reason), fields | {"/reason": "reason"})


def _refund(form: OrderForm) -> Body:
    amounts = _words(amount=form.amount, shipping_amount=form.shipping_amount)
    lines, fields = _portions(
        form, "line_item_id", "/refund/line_items", "" if amounts else "Enter units or an amount."
    )
    for index, line in enumerate(lines):
        line["restock"] = form.restock
        if not form.restock:
            line.pop("location", None)
        fields[f"/refund/line_items/{index}/restock"] = "restock"
    for name in ("amount", "shipping_amount", "reason", "note", "method", "external_id"):
        fields[f"/refund/{name}"] = name
    words = _words(reason=form.reason, note=form.note, method=form.method, external_id=form.external_id)
    return Body({"refund": {"line_items": lines, **amounts, **words}}, fields)


def _pay(form: OrderForm) -> Body:
    names = ("amount", "method", "external_id", "note")
    if not form.amount:
        raise FormError(amount="Enter the amount that was paid.")
    paid = _words(amount=form.amount, method=form.method, external_id=form.external_id, note=form.note)
    return Body({"payment": paid}, {f"/payment/{name}": name for name in names})


def _hold(form: OrderForm) -> Body:
    """A hold from now on, which replaces an earlier one, or its end."""
    fields = {"/hold_for": "hold_hours", "/expires_at": "hold_hours"}
    if form.end_hold:
        return Body({"expires_at": None}, fields, of_order=True)
    hours = whole(form.hold_hours)
    if not isinstance(hours, int) or not 1 <= hours <= LONGEST_HOLD_S // 3600:
        raise FormError(hold_hours=f"Enter a number of hours from 1 to {LONGEST_HOLD_S // 3600}.")
    return Body({"hold_for": hours * 3600}, fields, of_order=True)


def _cancel(form: OrderForm) -> Body:
    if not form.confirmed:
        raise FormError(confirmed="Select this box to confirm.")
    return Body({"status": "cancelled", **_words(reason=form.reason)}, {"/reason": "reason"})


def _move(form: OrderForm) -> Body:
    moved = _words(status=form.status, payment_status=form.payment_status)
    if not moved:
        raise FormError({"status": "Select a new status or payment."})
    if form.status in _OWN_FORM:
        raise FormError({"status": "This status has a page of its own."})
    if form.payment_status in _REFUNDS:
        raise FormError(payment_status="A refund has a page of its own, which shows its amount.")
    fields = {f"/{name}": name for name in ("status", "payment_status", "comment")}
    return Body({**moved, **_words(comment=form.comment)}, fields)


def _words(**values: str) -> dict[str, Any]:
    """The fields that are not empty."""
    return {name: value for name, value in values.items() if value}


def _portions(form: OrderForm, key: str, at: str, missing: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The units of line items as the API names them; a quantity of 0 counts as empty, and `missing` is the fault if all are."""
    sent = {line: units for line, units in form.quantities.items() if units.strip("0")}
    if not sent and missing:
        raise FormError(quantities=missing)
    portions: list[dict[str, Any]] = []
    fields = {at: "quantities"}
    for n, (row, units) in enumerate(sent.items()):
        line, _, location = row.partition("@")
        portions.append({key: whole(line), "quantity": whole(units), **_words(location=location or form.location)})
        fields[f"{at}/{n}"] = f"quantities[{row}]"
        fields[f"{at}/{n}/location"] = f"quantities[{row}]" if location else "location"
    return portions, fields


def voidable(order: Order) -> list[Fulfillment]:
    return [each for each in order.fulfillments if each.status == "shipped" and each.voided_at is None]


def refundable(order: Order) -> Decimal:
    return order.amount_paid - order.amount_refunded


def statuses_to(order: Order) -> list[str]:
    return [status for status in order.allowed_transitions if status not in _OWN_FORM]


def payments_to(order: Order) -> list[str]:
    return [status for status in PAYMENTS[order.payment_status] if status not in _REFUNDS]


ACTIONS: Mapping[str, Action] = {
    "ship": Action(
        "Ship",
        "order.shipped",
        "Shipped.",
        _ship,
        lambda order, several: rows_to_ship(order, by_location=several),
        # A pending order is processed first.
        lambda order: order.status in ("pending", "processing") and any(map(unshipped, order.line_items)),
    ),
    "status": Action(
        "Change status",
        "order.status_changed",
        "The status was changed.",
        _move,
        None,
        lambda order: bool(statuses_to(order) or payments_to(order)),
    ),
    "pay": Action(
        "Record payment",
        "order.payment_recorded",
        "The payment was recorded.",
        _pay,
        None,
        lambda order: order.amount_due > 0,
    ),
    "hold": Action(
        "Hold",
        "order.hold_changed",
        "The hold was changed.",
        _hold,
        None,
        lambda order: order.status == "pending" and order.payment_status in UNPAID,
    ),
    "edit": Action(
        "Edit units",
        "order.lines_changed",
        "The line items were changed.",
        _edit,
        lambda order, _: all_rows(order),
        lambda order: order.status == "draft" or order.status in HOLDING,
        replaces=True,
    ),
    "track": Action(
        "Tracking",
        "order.tracking_changed",
        "The tracking was changed.",
        _track,
        None,
        lambda order: any(each.voided_at is None for each in order.fulfillments),
        replaces=True,
    ),
    "move": Action(
        "Move reservation",
        "order.reservation_moved",
        "The reservation was moved.",
        _relocate,
        lambda order, _: rows_to_move(order),
        lambda order: order.status in HOLDING and bool(rows_to_move(order)),
        needs_locations=True,
    ),
    "void": Action(
        "Void shipment",
        "order.shipment_voided",
        "The shipment is voided.",
        _void,
        None,
        lambda order: bool(voidable(order)),
    ),
    "refund": Action(
        "Refund",
        "order.refunded",
        "Refunded.",
        _refund,
        lambda order, _: rows_to_refund(order),
        lambda order: refundable(order) > 0,
        refunds=True,
    ),
    "return": Action(
        "Return",
        "order.returned",
        "The return was recorded.",
        _take_back,
        lambda order, _: rows_to_take_back(order),
        lambda order: bool(rows_to_take_back(order)),
    ),
    "cancel": Action(
        "Cancel",
        "order.cancelled",
        "The order is cancelled.",
        _cancel,
        None,
        lambda order: "cancelled" in order.allowed_transitions,
    ),
}


def possible_actions(order: Order, locations: Collection[Location]) -> dict[str, str]:
    """The titles of the actions that the order's state and the locations of the store allow, by name."""
    return {
        name: action.title
        for name, action in ACTIONS.items()
        if action.possible(order) and (locations or not action.needs_locations)
    }
