"""Stock adjustments in the baseline."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Depends, HTTPException
from sqlalchemy import select
from sqlalchemy.orm import contains_eager

from benchmarks.baseline import answers
from benchmarks.baseline.access import Caller, Db, admitted
from benchmarks.baseline.bodies import Adjustment, Adjustments
from benchmarks.baseline.keys import Once
from benchmarks.baseline.models import Event, Product, StockMovement, Variant

router = APIRouter(prefix="/stores/{handle}/api/v3/app/products/inventory")
Writer = Annotated[Caller, Depends(admitted("inventory:write"))]


@router.post("/adjustments")
async def adjust(db: Db, caller: Writer, once: Once, body: Adjustments) -> answers.LedgerOutcomes:
    before = await once.claim(db, caller)
    if before is not None:
        return answers.LedgerOutcomes.model_validate(before)
    variants = await _locked_variants(db, caller.store_id, {item.sku for item in body.items})
    entries = [_apply(db, caller, body, item, variants[item.sku]) for item in body.items]
    await db.flush()
    request_id = f"req_{uuid4().hex}"
    outcomes = [
        answers.LedgerOutcome(
            index=index,
            status="updated",
            id=entry.id,
            resource=answers.LedgerEntry(
                id=entry.id,
                variant_id=entry.variant_id,
                sku=item.sku,
                kind=entry.kind,
                location="default",
                delta_on_hand=entry.delta_on_hand,
                delta_reserved=entry.delta_reserved,
                on_hand_after=entry.on_hand_after,
                reserved_after=entry.reserved_after,
                reason=entry.reason,
                reference=body.reference,
                order_id=entry.order_id,
                actor={"type": "app", "app_id": entry.app_id},
                request_id=request_id,
                created_at=entry.created_at,
            ),
            error=None,
        )
        for index, (item, entry) in enumerate(zip(body.items, entries, strict=True))
    ]
    answer = answers.LedgerOutcomes(
        data=outcomes, meta={"total": len(outcomes), "succeeded": len(outcomes), "failed": 0}
    )
    once.remember(answer.model_dump(mode="json"))
    await db.commit()
    return answer


async def _locked_variants(db: Db, store_id: int, skus: set[str]) -> dict[str, Variant]:
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
    return found


def _apply(db: Db, caller: Caller, body: Adjustments, item: Adjustment, variant: Variant) -> StockMovement:
    now = datetime.now(UTC)
    delta = item.quantity if item.op == "adjust" else item.quantity - variant.on_hand
    for row in (variant, variant.product):
        row.on_hand += delta
        row.version += 1
        row.updated_at = now
    variant.product.in_stock = variant.product.on_hand > variant.product.reserved
    entry = StockMovement(
        variant_id=variant.id,
        kind=item.op,
        delta_on_hand=delta,
        on_hand_after=variant.on_hand,
        delta_reserved=0,
        reserved_after=variant.reserved,
        order_id=None,
        reason=body.reason,
        app_id=caller.app_id,
        created_at=now,
    )
    db.add(entry)
    document = answers.Variant.model_validate(variant).model_dump(mode="json")
    kind = "product.inventory_changed"
    db.add(Event(id=uuid4(), store_id=caller.store_id, type=kind, data=document, created_at=now))
    return entry
