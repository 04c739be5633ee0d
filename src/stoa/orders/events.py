"""The events of orders: one for each kind of change, none if nothing changed."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from stoa.events.outbox import Event
from stoa.orders.contract import Order
from stoa.orders.documents import document_of, line_document
from stoa.orders.lists import Comment
from stoa.orders.state import LineState, OrderState
from stoa.rest.patch import changes_between, is_same

Changes = dict[str, tuple[Any, Any]]


_STATUS_FIELDS = frozenset(
    {"status", "fulfillment_status", "fulfilled_quantity", "returned_quantity", "cancel_reason", "cancelled_at"}
    | {"completed_at"}
)
_PAYMENT_FIELDS = frozenset({"payment_status", "amount_paid", "amount_refunded"})
_LINE_FIELDS = frozenset({"line_items", "subtotal", "removed_line_items"})
_QUANTITIES = ("fulfilled_quantity", "returned_quantity")
_BY_STATUS = (*_QUANTITIES, "allocations")
# Derived fields alone cause no event; they are included in the event of the change that causes them.
_DERIVED = frozenset({"allowed_transitions", "suspected_duplicates_count"})
_SUMS = frozenset({"total", "totals", "amount_due", "balance"})
# Lists of which a change shows only the entries that differ.
_RECORDS = ("fulfillments", "refunds", "payments")
# An order never changes these.
_FIXED = frozenset({"id", "number", "currency", "source", "duplicate_of", "created_at", "updated_at", "version"})


class OrderCreated(Event):
    """An order was created; it may be a draft."""

    name, scope, resource_type = "order.created", "orders:read", "order"
    resource = Order


class OrderUpdated(Event):
    """Fields of an order changed: contact, addresses, amounts, note, tags or metadata."""

    name, scope, resource_type = "order.updated", "orders:read", "order"
    resource = Order
    recorded = frozenset(Order.__struct_fields__).difference(
        _FIXED, _STATUS_FIELDS, _PAYMENT_FIELDS, _LINE_FIELDS, {"allowed_transitions"}, _RECORDS
    )


class OrderStatusChanged(Event):
    """The status of an order changed, or some of its items were shipped or returned."""

    name, scope, resource_type = "order.status_changed", "orders:read", "order"
    resource = Order
    changed_paths: ClassVar[Mapping[str, str]] = {name: f"line_items.{name}" for name in _QUANTITIES}
    recorded = _STATUS_FIELDS.difference(_QUANTITIES) | _SUMS | {"allowed_transitions", "tracking"}


class OrderFulfilled(Event):
    """Items of an order were shipped, or handed over when it was completed; `changes.fulfillments` has the new fulfillment."""

    name, scope, resource_type = "order.fulfilled", "orders:read", "order"
    resource = Order
    recorded = frozenset({"fulfillments", "fulfillment_status", "tracking"})


class OrderFulfillmentUpdated(Event):
    """The tracking of a fulfillment changed, or it was delivered or voided; `changes.fulfillments` has the fulfillments before and after."""

    name, scope, resource_type = "order.fulfillment_updated", "orders:read", "order"
    resource = Order
    recorded = OrderFulfilled.recorded


class OrderPaymentRecorded(Event):
    """Money was paid; `changes.payments` has the new payment."""

    name, scope, resource_type = "order.payment_recorded", "orders:read", "order"
    resource = Order
    recorded = _PAYMENT_FIELDS | _SUMS | {"payments"}


class OrderRefunded(Event):
    """Money was refunded; `changes.refunds` has the new refund."""

    name, scope, resource_type = "order.refunded", "orders:read", "order"
    resource = Order
    recorded = _PAYMENT_FIELDS | _SUMS | {"refunds"}


class OrderPaymentStatusChanged(Event):
    """The payment status of an order changed, or a further amount was paid or refunded."""

    name, scope, resource_type = "order.payment_status_changed", "orders:read", "order"
    resource = Order
    recorded = _PAYMENT_FIELDS | _SUMS


class OrderExpired(Event):
    """The hold of an order ended before it was paid: Stoa has cancelled it and released its stock."""

    name, scope, resource_type = "order.expired", "orders:read", "order"
    resource = Order
    recorded = OrderStatusChanged.recorded | {"expires_at"}


class OrderProductsChanged(Event):
    """Line items of an order were added, changed or removed."""

    name, scope, resource_type = "order.products_changed", "orders:read", "order"
    resource = Order
    # Status changes have the sums of the quantities of all line items.
    recorded = _SUMS | _LINE_FIELDS
    unrecorded = frozenset(f"line_items.{name}" for name in _BY_STATUS)


class OrderCommentCreated(Event):
    """A comment was added to an order; `data` is the comment."""

    name, scope, resource_type = "order.comment_created", "orders:read", "comment"
    resource = Comment


class OrderDuplicated(Event):
    """An order was copied; `data` is the copy, and its `duplicate_of` is the id of the original."""

    name, scope, resource_type = "order.duplicated", "orders:read", "order"
    resource = Order


class OrderDuplicateSuspected(Event):
    """An order is a suspected duplicate of another; both orders get the event, with their new counts."""

    name, scope, resource_type = "order.duplicate_suspected", "orders:read", "order"
    resource = Order
    recorded = frozenset({"suspected_duplicates_count"})


def differences(before: OrderState, after: OrderState, digits: int) -> Changes:
    """The old and new values of the fields that differ; of lists of objects, only those that differ.

    Only line items that differ are rendered: an order can have 500.
    """
    old, new = (document_of(each, digits, lines=()) for each in (before, after))
    for document, order in ((old, before), (new, after)):
        del document["line_items"]
        for name in _QUANTITIES:
            document[name] = sum(getattr(line, name) for line in order.lines)
    kept, found = ({line.id: line for line in each.lines} for each in (before, after))
    before_lines = _documents((line for line in before.lines if not line.is_same(found.get(line.id))), digits)
    after_lines = _documents((line for line in after.lines if not line.is_same(kept.get(line.id))), digits)
    old["line_items"] = [line for line_id, line in before_lines.items() if not is_same(line, after_lines.get(line_id))]
    new["line_items"] = [line for line_id, line in after_lines.items() if not is_same(line, before_lines.get(line_id))]
    for name in _RECORDS:
        before_records, after_records = old[name], new[name]
        old[name] = [each for each in before_records if each not in after_records]
        new[name] = [each for each in after_records if each not in before_records]
    return changes_between(old, new)


def _documents(lines: Iterable[LineState], digits: int) -> dict[int, dict[str, Any]]:
    """Line items by id as callers see them, without the quantities and allocations that follow from status changes."""
    return {
        line.id: {name: value for name, value in line_document(line, digits).items() if name not in _BY_STATUS}
        for line in lines
    }


def events_of(changes: Changes) -> list[tuple[type[Event], Changes]]:
    """The events of a change, each with its part of the changed fields."""
    rest = changes.keys() - _STATUS_FIELDS - _PAYMENT_FIELDS - _LINE_FIELDS - _DERIVED - _SUMS - set(_RECORDS)
    if "tracking" in rest and changes.keys() & _STATUS_FIELDS:
        rest.remove("tracking")  # tracking that is sent with a shipment belongs to the status change
    if changes.keys() & (_STATUS_FIELDS | _PAYMENT_FIELDS):
        rest.discard("expires_at")  # a hold ends with the status change or payment
    events: list[tuple[type[Event], Changes]] = []
    for kind, names, along in (
        (OrderStatusChanged, _STATUS_FIELDS, _DERIVED | _SUMS | {"tracking", "expires_at"}),
        (OrderPaymentStatusChanged, _PAYMENT_FIELDS, _SUMS | {"expires_at"}),
        (OrderProductsChanged, _LINE_FIELDS, _SUMS),
        (OrderUpdated, rest, _SUMS),
    ):
        if changes.keys() & names:
            events.append((kind, {name: pair for name, pair in changes.items() if name in names | along}))
    return [*events, *_record_events(changes)]


def _record_events(changes: Changes) -> list[tuple[type[Event], Changes]]:
    """The events of new and changed fulfillments, of a new payment and of a new refund."""
    events: list[tuple[type[Event], Changes]] = []
    if "fulfillments" in changes:
        old, new = changes["fulfillments"]
        known = {each["id"] for each in old}
        along = {name: changes[name] for name in ("fulfillment_status", "tracking") if name in changes}
        events += [(OrderFulfilled, {"fulfillments": ([], [each]), **along}) for each in new if each["id"] not in known]
        if old:
            changed = [each for each in new if each["id"] in known]
            events.append((OrderFulfillmentUpdated, {"fulfillments": (old, changed), **along}))
    if "payments" in changes:
        paid = [each for each in changes["payments"][1] if each["kind"] == "payment"]
        along = {name: pair for name, pair in changes.items() if name in _PAYMENT_FIELDS | _SUMS}
        events += [(OrderPaymentRecorded, {"payments": ([], [each]), **along}) for each in paid]
    if "refunds" in changes:
        names = {"refunds", *_PAYMENT_FIELDS, *_SUMS}
        events.append((OrderRefunded, {name: pair for name, pair in changes.items() if name in names}))
    return events
