"""Products in the baseline, with routes and queries as in the documentation of the libraries."""

import re
from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Depends, HTTPException, Query
from sqlalchemy import select
from sqlalchemy.orm import selectinload

from benchmarks.baseline import answers
from benchmarks.baseline.access import Caller, Db, admitted
from benchmarks.baseline.bodies import NewProduct
from benchmarks.baseline.keys import Once
from benchmarks.baseline.models import Event, Image, Product, StockMovement, Store, Variant
from benchmarks.baseline.paging import page_of

router = APIRouter(prefix="/stores/{handle}/api/v3/app/products")
Reader = Annotated[Caller, Depends(admitted("products:read"))]
Writer = Annotated[Caller, Depends(admitted("products:write"))]


@router.get("")
async def list_products(
    db: Db,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=250)] = 50,
    cursor: str | None = None,
) -> answers.ProductPage:
    living = (Product.store_id == caller.store_id, Product.deleted_at.is_(None))
    rows = select(Product).options(selectinload(Product.images))
    return answers.ProductPage.model_validate(await page_of(db, rows, Product.id, living, limit, cursor))


@router.get("/{product_id}")
async def get_product(db: Db, caller: Reader, product_id: int) -> answers.OneProduct:
    found = await db.scalar(
        select(Product)
        .options(selectinload(Product.images), selectinload(Product.variants))
        .where(Product.store_id == caller.store_id, Product.id == product_id, Product.deleted_at.is_(None))
    )
    if found is None:
        raise HTTPException(404)
    return answers.OneProduct.model_validate({"data": found, "meta": {}})


@router.post("", status_code=201)
async def create_product(db: Db, caller: Writer, once: Once, body: NewProduct) -> answers.OneProduct:
    before = await once.claim(db, caller)
    if before is not None:
        return answers.OneProduct.model_validate(before)
    store = await db.get_one(Store, caller.store_id)
    await _refuse_taken(db, caller.store_id, body)
    product = _product(body, store)
    db.add(product)
    await db.flush()
    now = product.created_at
    db.add_all(
        StockMovement(
            variant_id=variant.id,
            kind="set",
            delta_on_hand=variant.on_hand,
            on_hand_after=variant.on_hand,
            delta_reserved=0,
            reserved_after=0,
            reason="other",
            app_id=caller.app_id,
            created_at=now,
        )
        for variant in product.variants
        if variant.on_hand
    )
    data = answers.ProductWithVariants.model_validate(product)
    document = data.model_dump(mode="json")
    db.add(Event(id=uuid4(), store_id=store.id, type="product.created", data=document, created_at=now))
    once.remember({"data": document, "meta": {}})
    await db.commit()
    return answers.OneProduct(data=data, meta={})


async def _refuse_taken(db: Db, store_id: int, body: NewProduct) -> None:
    skus = [variant.sku for variant in body.variants if variant.sku]
    taken = await db.scalar(
        select(Variant.id)
        .join(Product, Product.id == Variant.product_id)
        .where(Product.store_id == store_id, Product.deleted_at.is_(None), Variant.sku.in_(skus))
        .limit(1)
    )
    if taken is None and body.external_id:
        taken = await db.scalar(
            select(Product.id).where(
                Product.store_id == store_id, Product.external_id == body.external_id, Product.deleted_at.is_(None)
            )
        )
    if taken is not None:
        raise HTTPException(409)


def _product(body: NewProduct, store: Store) -> Product:
    now = datetime.now(UTC)
    own = body.model_dump(exclude={"images", "options", "variants", "seo", "metadata"})
    on_hand = sum(variant.stock.on_hand for variant in body.variants)
    only = body.variants[0] if len(body.variants) == 1 else None
    return Product(
        **own,
        store_id=store.id,
        slug=re.sub(r"[^a-z0-9]+", "-", body.name.lower()).strip("-"),
        currency=store.currency,
        sku=only.sku if only else None,
        barcode=only.barcode if only else None,
        options=[option.model_dump() for option in body.options],
        variants_count=len(body.variants),
        seo_title=body.seo.title,
        seo_description=body.seo.description,
        attributes=body.metadata,
        on_hand=on_hand,
        reserved=0,
        in_stock=on_hand > 0,
        created_at=now,
        updated_at=now,
        version=1,
        deleted_at=None,
        images=[Image(id=n, url=i.url, alt=i.alt, position=n) for n, i in enumerate(body.images, 1)],
        variants=_variants(body, now),
    )


def _variants(body: NewProduct, now: datetime) -> list[Variant]:
    return [
        Variant(
            **new.model_dump(exclude={"stock", "metadata", "track_inventory"}),
            title=" / ".join(new.option_values.values()) or "Default",
            effective_price=body.price if new.price is None else new.price,
            image_id=None,
            position=position,
            is_default=position == 1,
            track_inventory=body.track_inventory if new.track_inventory is None else new.track_inventory,
            attributes=new.metadata,
            on_hand=new.stock.on_hand,
            reserved=0,
            created_at=now,
            updated_at=now,
            version=1,
        )
        for position, new in enumerate(body.variants, 1)
    ]
