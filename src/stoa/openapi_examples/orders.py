"""Example responses and events about orders: the order of the example requests, placed, changed, extended and copied."""

from decimal import Decimal
from typing import Any

import msgspec

from stoa import money
from stoa.db.documents import head_of
from stoa.events.outbox import Actor, Event
from stoa.openapi_examples.customers import CUSTOMER_ID
from stoa.openapi_examples.fixtures import (
    APP_ID,
    APP_NAME,
    CREATED_AT,
    STORE,
    UPDATED_AT,
    EventExample,
    Events,
    Resource,
    Responses,
    one,
    timestamps,
)
from stoa.openapi_examples.products import shirt
from stoa.orders import examples
from stoa.orders.allocation import settle
from stoa.orders.amounts import change_amounts, new_amounts
from stoa.orders.bodies import NewCopy, NewOrder, NewPayment, NewRefund, OrderChanges, Portion
from stoa.orders.documents import document_of, likeness, traits_of
from stoa.orders.draft import Offers, price, snapshot
from stoa.orders.duplicates import copy_of
from stoa.orders.events import (
    Changes,
    OrderCommentCreated,
    OrderCreated,
    OrderDuplicated,
    OrderDuplicateSuspected,
    OrderExpired,
    differences,
    events_of,
)
from stoa.orders.expiry import REASON
from stoa.orders.fulfillments import deliver, track
from stoa.orders.line_items import LineChanges
from stoa.orders.payments import Occasion, change_payment, pay
from stoa.orders.queries import Offer
from stoa.orders.refunds import refund
from stoa.orders.rules import change_status
from stoa.orders.state import NO_CONTACT, OrderState
from stoa.products.documents import minor
from stoa.rest.body import convert
from stoa.rest.patch import merge

ORDER_ID, NUMBER, LINE_ID, COMMENT_ID = 512, 1042, 1801, 9120
PATH_PARAMETERS = {"order_id": ORDER_ID, "line_item_id": LINE_ID}
_SOURCE = {"app_id": APP_ID, "name": APP_NAME}
_REFUND_OF_A_UNIT = {**examples.REFUND, "line_items": [{"line_item_id": LINE_ID, "quantity": 1}]}
_OCCASION = Occasion(UPDATED_AT, Actor("app", APP_ID))


def resources() -> dict[str, Resource]:
    placed = _placed()
    score, reasons = likeness(traits_of(placed), traits_of(placed)) or (0, [])
    return {
        "Order": _order(placed),
        "Comment": _comment(COMMENT_ID - 1, "status_change", None, {"status": ["pending", "processing"]}),
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


def responses() -> Responses:
    return {
        "update_order": one(_order(_changed(), version=2)),
        "update_order_status": one(_order(_paid(), version=2)),
        "take_payment": one(_order(_partly_paid(), version=2)),
        "ship_order": one(_order(_all_shipped(), version=3)),
        "refund_order": one(_order(_refunded_shipping(), version=3)),
        "add_order_products": one(_order(_extended(), version=2)),
        "update_order_product": one(_order(_with_changed_line(), version=2)),
        "duplicate_order": one(_order(_copied()), skipped_line_items=[]),
        "create_order_comment": one(_new_comment()),
    }


def events() -> Events:
    """The slice derives them: each change below yields the events that the same change yields in a store."""
    placed, copied = _order(_placed()), _order(_copied())
    changes = {"suspected_duplicates_count": [0, 1]}
    suspected = {**placed, "suspected_duplicates_count": 1}
    return {
        OrderCreated.name: EventExample(ORDER_ID, 1, placed),
        OrderCommentCreated.name: EventExample(COMMENT_ID, 1, _new_comment()),
        OrderDuplicated.name: EventExample(copied["id"], 1, copied, {"duplicate_of": [None, ORDER_ID]}),
        OrderDuplicateSuspected.name: EventExample(ORDER_ID, 1, suspected, changes),
        OrderExpired.name: EventExample(ORDER_ID, 2, _order(_expired(), 2), _events_between(_held(), _expired())[0][1]),
        # An event of several changes is shown with the last of them.
        **{
            event.name: EventExample(ORDER_ID, version, _order(order, version), changes)
            for version, before, order in (
                (4, _shipped(), _delivered()),
                (3, _paid(), _shipped()),
                (3, _paid(), _refunded()),
                *((2, _placed(), order) for order in (_changed(), _paid(), _extended())),
            )
            for event, changes in _events_between(before, order)
        },
    }


def _events_between(before: OrderState, order: OrderState) -> list[tuple[type[Event], Changes]]:
    return events_of(differences(before, order, STORE.digits))


# --- the order in different states ---------------------------------------------------------------------------------


def _offers() -> Offers:
    product = shirt()
    return Offers(
        [
            Offer(
                id=variant.id or 0,
                product_id=product.id or 0,
                sku=variant.fields.sku,
                name=product.fields.name,
                price=minor(variant.fields.effective_price) or 0,
                available=variant.on_hand,
                unlimited=False,
                elsewhere=False,
                head=head_of(variant.fields),
                product_head=head_of(product.fields).encode(),
            )
            for variant in product.variants
        ]
    )


def _minor(amount: str) -> int:
    return money.to_minor(Decimal(amount), STORE.digits)


def _placed() -> OrderState:
    sent = examples.NEW_ORDER
    body = convert(sent, NewOrder, digits=STORE.digits)
    lines = price(STORE, body.line_items, _offers(), prices_include_tax=STORE.prices_include_tax).lines
    for index, line in enumerate(lines):
        line.id = LINE_ID + index
    order = OrderState(
        id=ORDER_ID,
        number=NUMBER,
        source=_SOURCE,
        status=body.status,
        currency=STORE.currency,
        customer_id=CUSTOMER_ID,
        lines=lines,
        shipping_total=_minor(sent["shipping_total"]),
        shipping_method=body.shipping_method,
        tags=body.tags,
        placed_at=CREATED_AT,
        contact={**NO_CONTACT, **sent["customer"]},
        shipping_address=snapshot(body.shipping_address),
        note=body.note,
        metadata=body.metadata,
    )
    new_amounts(body, order.discounted_cost, STORE.digits, "", []).apply(order)
    return order


def _changed() -> OrderState:
    order, patch = _placed(), examples.ORDER_CHANGES
    order.shipping_address = merge(order.shipping_address, patch["shipping_address"])
    order.shipping_total = _minor(patch["shipping_total"])
    change_amounts(order, convert(patch, OrderChanges, digits=STORE.digits), order.discounted_cost, STORE.digits)
    order.note, order.tags = patch["note"], patch["tags"]
    order.metadata = merge(order.metadata, patch["metadata"])
    return order


def _paid() -> OrderState:
    order, patch = _placed(), examples.STATUS_CHANGE
    change_payment(order, patch["payment_status"], None, _OCCASION)
    change_status(order, patch["status"], [], UPDATED_AT, None)
    return order


def _partly_paid() -> OrderState:
    order, sent = _placed(), examples.PAYMENT["payment"]
    body = convert(sent, NewPayment, digits=STORE.digits)
    occasion = msgspec.structs.replace(_OCCASION, method=body.method, external_id=body.external_id)
    pay(order, body, occasion, STORE.digits)
    return order


def _all_shipped() -> OrderState:
    order, sent = _paid(), examples.SHIPMENT
    settle(order)
    change_status(order, sent["status"], [], UPDATED_AT, None)
    track(order, sent["tracking"], UPDATED_AT, fulfillment_id=1, shipped_now=True)
    return order


def _held() -> OrderState:
    order = _placed()
    order.expires_at = UPDATED_AT
    return order


def _expired() -> OrderState:
    order = _held()
    change_status(order, "cancelled", [], UPDATED_AT, REASON)
    return order


def _shipped() -> OrderState:
    """The first line item is shipped."""
    order = _paid()
    settle(order)
    change_status(order, "shipped", [Portion(LINE_ID, order.lines[0].quantity)], UPDATED_AT, None)
    track(order, examples.TRACKING, UPDATED_AT, fulfillment_id=1, shipped_now=True)
    return order


def _delivered() -> OrderState:
    order = _shipped()
    deliver(order, UPDATED_AT, 1)
    return order


def _refunded_shipping() -> OrderState:
    return _refunded(examples.REFUND)


def _refunded(sent: dict[str, Any] = _REFUND_OF_A_UNIT) -> OrderState:
    order = _paid()
    body = convert(sent, NewRefund, digits=STORE.digits)
    refund(order, body, msgspec.structs.replace(_OCCASION, reason=body.reason, note=body.note), STORE.digits)
    return order


def _extended() -> OrderState:
    """The added unit has the variant of the first line and is merged into it."""
    order = _placed()
    order.lines[0].quantity += examples.ADDED_LINES["line_items"][0]["quantity"]
    return order


def _with_changed_line() -> OrderState:
    order, patch = _placed(), examples.LINE_CHANGES
    line = order.lines[0]
    line.quantity, line.unit_price = patch["quantity"], _minor(patch["unit_price"])
    change_amounts(line, convert(patch, LineChanges, digits=STORE.digits), line.cost, STORE.digits)
    line.metadata = merge(line.metadata, patch["metadata"])
    return order


def _copied() -> OrderState:
    order, _ = copy_of(_placed(), convert(examples.NEW_COPY, NewCopy, digits=STORE.digits), _offers())
    order.id, order.number, order.source, order.placed_at = ORDER_ID + 1, NUMBER + 1, _SOURCE, UPDATED_AT
    for line in order.lines:
        line.id += len(order.lines)
    return order


# --- as callers see it ---------------------------------------------------------------------------------------------


def _order(order: OrderState, version: int = 1) -> Resource:
    settle(order)
    document = {"id": order.id, **document_of(order, STORE.digits), "suspected_duplicates_count": 0}
    created = {"created_at": order.placed_at, "updated_at": order.placed_at} if version == 1 else {}
    return {**document, **timestamps(version), **created}


def _new_comment() -> Resource:
    sent = examples.NEW_COMMENT
    return _comment(COMMENT_ID, "comment", sent["body"], {}, sent["visibility"])


def _comment(
    comment_id: int, kind: str, body: str | None, changes: dict[str, Any], visibility: str = "internal"
) -> Resource:
    return {
        "id": comment_id,
        "order_id": ORDER_ID,
        "type": kind,
        "visibility": visibility,
        "body": body,
        "author": {"type": "app", "id": APP_ID, "name": APP_NAME},
        "changes": changes,
        "created_at": UPDATED_AT,
    }
