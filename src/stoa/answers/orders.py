"""Answers about orders: the order of the examples, placed, changed, moved, extended and copied."""

from decimal import Decimal
from typing import Any

from stoa import money
from stoa.answers.parts import APP_ID, APP_NAME, CHANGED, CREATED, STORE, Answers, Resource, books, one
from stoa.orders import examples
from stoa.orders.bodies import NewCopy, NewOrder
from stoa.orders.documents import NO_CONTACT, document_of
from stoa.orders.draft import Offers, snapshot
from stoa.orders.duplicates import copy_of
from stoa.orders.queries import Offer
from stoa.orders.rules import change_payment, change_status, likeness, traits_of
from stoa.orders.states import LineState, OrderState
from stoa.rest.body import convert
from stoa.rest.patch import merge

ORDER_ID, NUMBER, LINE_ID, CUSTOMER_ID = 512, 1042, 1801, 76
_SHIRT = Offer(2016, 805, "LS-S", "Linen Shirt", 5900, 12, unlimited=False, head="")
_SOURCE = {"app_id": APP_ID, "name": APP_NAME}


def resources() -> dict[str, Resource]:
    placed = _placed()
    score, reasons = likeness(traits_of(placed), traits_of(placed)) or (0, [])
    return {
        "Order": _order(placed),
        "Comment": _comment(9119, "status_change", None, {"status": ["pending", "processing"]}),
        "Duplicate": {
            "order_id": ORDER_ID + 3,
            "number": NUMBER + 3,
            "kind": "suspected",
            "score": score / 100,
            "reasons": reasons,
            "seconds_apart": 94,
            "status": "pending",
            "total": money.to_text(placed.total, STORE.digits),
        },
    }


def answers() -> Answers:
    said = examples.NEW_COMMENT
    return {
        "update_order": one(_order(_changed(), version=2)),
        "update_order_status": one(_order(_moved(), version=2)),
        "add_order_products": one(_order(_extended(), version=2)),
        "update_order_product": one(_order(_line_changed(), version=2)),
        "duplicate_order": one(_order(_copied()), skipped_line_items=[]),
        "create_order_comment": one(_comment(9120, "comment", said["body"], {}, said["visibility"])),
    }


def _minor(amount: str | None) -> int:
    return money.to_minor(Decimal(amount), STORE.digits) if amount is not None else 0


def _line(number: int, sent: dict[str, Any]) -> LineState:
    return LineState(
        id=LINE_ID + number,
        product_id=_SHIRT.product_id,
        variant_id=_SHIRT.id,
        sku=sent["sku"],
        name=_SHIRT.name,
        variant_title="S",
        option_values={"Size": "S"},
        quantity=sent["quantity"],
        unit_price=_minor(sent["unit_price"]) if "unit_price" in sent else _SHIRT.price,
        tax_total=_minor(sent.get("tax_total")),
        metadata=sent.get("metadata", {}),
    )


def _placed() -> OrderState:
    sent = examples.NEW_ORDER
    body = convert(sent, NewOrder, digits=STORE.digits)
    return OrderState(
        id=ORDER_ID,
        number=NUMBER,
        source=_SOURCE,
        status=body.status,
        currency=STORE.currency,
        customer_id=CUSTOMER_ID,
        lines=[_line(number, each) for number, each in enumerate(sent["line_items"])],
        discount_total=_minor(sent["discount_total"]),
        shipping_total=_minor(sent["shipping_total"]),
        shipping_method=body.shipping_method,
        tags=body.tags,
        placed_at=CREATED,
        contact={**NO_CONTACT, **sent["customer"]},
        shipping_address=snapshot(body.shipping_address),
        note=body.note,
        metadata=body.metadata,
    )


def _changed() -> OrderState:
    order, patch = _placed(), examples.ORDER_CHANGES
    order.shipping_address = merge(order.shipping_address, patch["shipping_address"])
    order.shipping_total = _minor(patch["shipping_total"])
    order.note, order.tags = patch["note"], patch["tags"]
    order.metadata = merge(order.metadata, patch["metadata"])
    return order


def _moved() -> OrderState:
    order, wanted = _placed(), examples.STATUS_CHANGE
    change_payment(order, wanted["payment_status"], None)
    change_status(order, wanted["status"], [], CHANGED, None)
    return order


def _extended() -> OrderState:
    """One more of the same joins the line that is there."""
    order = _placed()
    order.lines[0].quantity += examples.ADDED_LINES["line_items"][0]["quantity"]
    return order


def _line_changed() -> OrderState:
    order, patch = _placed(), examples.LINE_CHANGES
    line = order.lines[0]
    line.quantity, line.unit_price = patch["quantity"], _minor(patch["unit_price"])
    line.metadata = merge(line.metadata, patch["metadata"])
    return order


def _copied() -> OrderState:
    wanted = convert(examples.NEW_COPY, NewCopy, digits=STORE.digits)
    order, _ = copy_of(_placed(), wanted, Offers([_SHIRT]))
    order.id, order.number, order.source, order.placed_at = ORDER_ID + 1, NUMBER + 1, _SOURCE, CHANGED
    for line in order.lines:
        line.id += len(order.lines)
    return order


def _order(order: OrderState, version: int = 1) -> Resource:
    told = {"id": order.id, **document_of(order, STORE.digits), "suspected_duplicates_count": 0}
    moments = {"created_at": order.placed_at, "updated_at": order.placed_at} if version == 1 else {}
    return {**told, **books(version), **moments}


def _comment(
    number: int, kind: str, body: str | None, changes: dict[str, Any], visibility: str = "internal"
) -> Resource:
    return {
        "id": number,
        "order_id": ORDER_ID,
        "type": kind,
        "visibility": visibility,
        "body": body,
        "author": {"type": "app", "id": APP_ID, "name": APP_NAME},
        "changes": changes,
        "created_at": CHANGED,
    }
