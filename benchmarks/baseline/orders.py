"""Orders in the baseline: listed with their line items, and placed with their stock in one transaction."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Depends, HTTPException, Query
from sqlalchemy import select, update
from sqlalchemy.orm import contains_eager, selectinload

from benchmarks.baseline import answers
from benchmarks.baseline.access import Caller, Db, admitted
from benchmarks.baseline.bodies import NewOrder
from benchmarks.baseline.keys import Once
from benchmarks.baseline.models import App, Event, Product, StockMovement, Store, Variant
from benchmarks.baseline.paging import page_of
from benchmarks.baseline.trade_models import Order, OrderComment, OrderLine, OrderNumber

router = APIRouter(prefix="/stores/{handle}/api/v3/app/orders")
Reader = Annotated[Caller, Depends(admitted("orders:read"))]
Writer = Annotated[Caller, Depends(admitted("orders:write"))]
_WINDOW = timedelta(hours=24)


@router.get("")
async def list_orders(
    db: Db,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=250)] = 50,
    cursor: str | None = None,
) -> answers.OrderPage:
    rows = select(Order).options(selectinload(Order.line_items))
    return answers.OrderPage.model_validate(
        await page_of(db, rows, Order.id, (Order.store_id == caller.store_id,), limit, cursor)
    )


@router.post("", status_code=201)
async def create_order(db: Db, caller: Writer, once: Once, body: NewOrder) -> answers.OneOrder:
    before = await once.claim(db, caller)
    if before is not None:
        return answers.OneOrder.model_validate(before)
    store = await db.get_one(Store, caller.store_id)
    app = await db.get_one(App, caller.app_id)
    variants = await _locked_variants(db, caller.store_id, body)
    order = _order(body, store, app, variants)
    order.suspected_duplicates_count = await _count_duplicates(db, order)
    order.number = await _take_number(db, caller.store_id)
    db.add(order)
    await db.flush()
    _reserve(db, caller, order, variants)
    now = order.created_at
    db.add(OrderComment(order_id=order.id, type="system", body=f"Placed by {app.name}.", created_at=now))
    data = answers.Order.model_validate(order)
    document = data.model_dump(mode="json")
    db.add(Event(id=uuid4(), store_id=store.id, type="order.created", data=document, created_at=now))
    once.remember({"data": document, "meta": {}})
    await db.commit()
    return answers.OneOrder(data=data, meta={})


async def _locked_variants(db: Db, store_id: int, body: NewOrder) -> dict[str, Variant]:
    """The requested variants, locked in the order of their ids, so that orders do not deadlock."""
    skus = {line.sku for line in body.line_items}
    rows = await db.scalars(
        select(Variant)
        .join(Variant.product)
        .options(contains_eager(Variant.product))
        .where(Product.store_id == store_id, Product.deleted_at.is_(None), Variant.sku.in_(skus))
        .order_by(Product.id, Variant.id)
        .with_for_update()
    )
    found = {variant.sku or "": variant for variant in rows}
    if skus - found.keys():
        raise HTTPException(422)
    wanted = Counter[str]()
    for line in body.line_items:
        wanted[line.sku] += line.quantity
    for sku, quantity in wanted.items():
        variant = found[sku]
        if variant.track_inventory and not variant.allow_backorder and variant.on_hand - variant.reserved < quantity:
            raise HTTPException(409)
    return found


def _order(body: NewOrder, store: Store, app: App, variants: dict[str, Variant]) -> Order:
    now = datetime.now(UTC)
    lines = [
        OrderLine(
            product_id=variant.product_id,
            variant_id=variant.id,
            sku=variant.sku,
            name=variant.product.name,
            variant_title=variant.title,
            option_values=variant.option_values,
            quantity=line.quantity,
            fulfilled_quantity=0,
            returned_quantity=0,
            unit_price=variant.effective_price,
            discount_total=Decimal("0.00"),
            tax_total=Decimal("0.00"),
            total=variant.effective_price * line.quantity,
            attributes=line.metadata,
            discounts=[],
            tax_lines=[],
            requires_shipping=variant.product.requires_shipping
            if variant.requires_shipping is None
            else variant.requires_shipping,
            taxable=variant.product.taxable if variant.taxable is None else variant.taxable,
            location=None,
            allocations=[{"location": "default", "quantity": line.quantity}],
            weight=weight,
            weight_unit=None if weight is None else variant.product.weight_unit,
        )
        for line in body.line_items
        for variant in (variants[line.sku],)
        for weight in (variant.product.weight if variant.weight is None else variant.weight,)
    ]
    subtotal = sum((line.total for line in lines), Decimal(0))
    return Order(
        **body.model_dump(exclude={"line_items", "contact", "metadata"}),
        store_id=store.id,
        source={"app_id": app.id, "name": app.name},
        status="pending",
        payment_status="unpaid",
        fulfillment_status="unfulfilled",
        currency=store.currency,
        customer_id=None,
        email=body.contact.email.lower() if body.contact.email else None,
        subtotal=subtotal,
        discount_total=Decimal("0.00"),
        tax_total=Decimal("0.00"),
        total=subtotal + body.shipping_total,
        amount_paid=Decimal("0.00"),
        amount_refunded=Decimal("0.00"),
        duplicate_of=None,
        cancel_reason=None,
        placed_at=now,
        cancelled_at=None,
        completed_at=None,
        contact=body.contact.model_dump(),
        tracking=[],
        prices_include_tax=False,
        discounts=[],
        tax_lines=[],
        fulfillments=[],
        refunds=[],
        payments=[],
        removed_line_items=[],
        expires_at=None,
        attributes=body.metadata,
        created_at=now,
        updated_at=now,
        version=1,
        line_items=lines,
    )


async def _count_duplicates(db: Db, order: Order) -> int:
    """Suspected duplicates: orders with the same address and line items within a day."""
    if order.email is None:
        return 0
    others = await db.scalars(
        select(Order)
        .options(selectinload(Order.line_items))
        .where(
            Order.store_id == order.store_id,
            Order.email == order.email,
            Order.placed_at > order.placed_at - _WINDOW,
            Order.status != "cancelled",
        )
    )
    mine = _basket(order)
    return sum(_basket(other) == mine for other in others)


def _basket(order: Order) -> dict[int, int]:
    return {line.variant_id: line.quantity for line in order.line_items}


async def _take_number(db: Db, store_id: int) -> int:
    taken: int | None = await db.scalar(
        update(OrderNumber)
        .where(OrderNumber.store_id == store_id)
        .values(last=OrderNumber.last + 1)
        .returning(OrderNumber.last)
    )
    if taken is None:
        raise HTTPException(500)
    return taken


def _reserve(db: Db, caller: Caller, order: Order, variants: dict[str, Variant]) -> None:
    for line in order.line_items:
        variant = variants[line.sku or ""]
        for row in (variant, variant.product):
            row.reserved += line.quantity
            row.version += 1
            row.updated_at = order.created_at
        db.add(
            StockMovement(
                variant_id=variant.id,
                kind="reserve",
                delta_on_hand=0,
                on_hand_after=variant.on_hand,
                delta_reserved=line.quantity,
                reserved_after=variant.reserved,
                order_id=order.id,
                reason="order",
                app_id=caller.app_id,
                created_at=order.created_at,
            )
        )
        document: dict[str, Any] = answers.Variant.model_validate(variant).model_dump(mode="json")
        kind, now = "product.inventory_changed", order.created_at
        db.add(Event(id=uuid4(), store_id=caller.store_id, type=kind, data=document, created_at=now))
