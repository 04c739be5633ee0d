"""What is told of orders: one event for each kind of change, none when nothing changed."""

from typing import Any

from stoa.events.outbox import Event
from stoa.orders.contract import Comment, Order
from stoa.rest.patch import changes_between

Changes = dict[str, tuple[Any, Any]]


class OrderCreated(Event):
    """An order was placed, or begun as a draft."""

    name, scope, resource_type = "order.created", "orders:read", "order"
    resource = Order


class OrderUpdated(Event):
    """An order's own fields changed: contact, addresses, amounts, note, tags, metadata."""

    name, scope, resource_type = "order.updated", "orders:read", "order"
    resource = Order


class OrderStatusChanged(Event):
    """An order moved on, or a part of it was shipped or came back."""

    name, scope, resource_type = "order.status_changed", "orders:read", "order"
    resource = Order


class OrderPaymentStatusChanged(Event):
    """An order's payment moved on, or more of it was paid or given back."""

    name, scope, resource_type = "order.payment_status_changed", "orders:read", "order"
    resource = Order


class OrderProductsChanged(Event):
    """Lines were added to an order, changed or removed."""

    name, scope, resource_type = "order.products_changed", "orders:read", "order"
    resource = Order


class OrderCommentCreated(Event):
    """Somebody wrote on an order's timeline; `data` is what they wrote."""

    name, scope, resource_type = "order.comment_created", "orders:read", "comment"
    resource = Comment


class OrderDuplicated(Event):
    """An order was copied on purpose; `data` is the copy, its `duplicate_of` the one it was made from."""

    name, scope, resource_type = "order.duplicated", "orders:read", "order"
    resource = Order


class OrderDuplicateSuspected(Event):
    """An order looks like another one placed again; told of both, with their new counts."""

    name, scope, resource_type = "order.duplicate_suspected", "orders:read", "order"
    resource = Order


_OF_STATUS = frozenset(
    {"status", "fulfillment_status", "fulfilled_quantity", "returned_quantity", "cancel_reason", "cancelled_at"}
    | {"completed_at"}
)
_OF_PAYMENT = frozenset({"payment_status", "amount_paid", "amount_refunded"})
_OF_LINES = frozenset({"line_items", "subtotal"})
_MOVED = ("fulfilled_quantity", "returned_quantity")
# What follows from other fields tells nothing by itself, but comes along where it belongs.
_MOVES_ALONG = frozenset({"allowed_transitions", "suspected_duplicates_count"})
_SUMS = frozenset({"total", "amount_due"})


def differences(before: dict[str, Any], after: dict[str, Any]) -> Changes:
    """Old and new of whatever differs between two documents; of the lines, those that differ."""
    old, new = dict(before), dict(after)
    for document in (old, new):
        for name in _MOVED:
            document[name] = sum(line[name] for line in document["line_items"])
    before_lines, after_lines = _bought(old), _bought(new)
    old["line_items"] = [line for line_id, line in before_lines.items() if line != after_lines.get(line_id)]
    new["line_items"] = [line for line_id, line in after_lines.items() if line != before_lines.get(line_id)]
    return changes_between(old, new)


def _bought(document: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The lines by their ids, without what is told of as shipped and returned."""
    lines: list[dict[str, Any]] = document.pop("line_items")
    return {line["id"]: {name: value for name, value in line.items() if name not in _MOVED} for line in lines}


def events_of(changes: Changes) -> list[tuple[type[Event], Changes]]:
    """The events that a change of an order amounts to, each with its share of what changed."""
    rest = changes.keys() - _OF_STATUS - _OF_PAYMENT - _OF_LINES - _MOVES_ALONG - _SUMS
    if "tracking" in rest and changes.keys() & _OF_STATUS:
        rest.remove("tracking")  # a parcel's number that comes with the parcel is no news of its own
    told: list[tuple[type[Event], Changes]] = []
    for kind, names, along in (
        (OrderStatusChanged, _OF_STATUS, _MOVES_ALONG | _SUMS | {"tracking"}),
        (OrderPaymentStatusChanged, _OF_PAYMENT, _SUMS),
        (OrderProductsChanged, _OF_LINES, _SUMS),
        (OrderUpdated, rest, _SUMS),
    ):
        if changes.keys() & names:
            told.append((kind, {name: pair for name, pair in changes.items() if name in names | along}))
    return told
