"""Example responses and events about products: the shirt of the example requests, created, changed and sold out."""

from collections.abc import Iterator
from typing import Any

from stoa.openapi_examples.fixtures import (
    STORE,
    EventExample,
    Events,
    Resource,
    Responses,
    batch,
    one,
    timestamps,
    tombstone,
)
from stoa.products import examples
from stoa.products.bodies import NewProduct, NewVariant, ProductChanges, VariantChanges
from stoa.products.documents import members_of
from stoa.products.events import (
    ProductBackInStock,
    ProductCreated,
    ProductDeleted,
    ProductInventoryChanged,
    ProductLowStock,
    ProductOutOfStock,
    events_of,
)
from stoa.products.rows import product_from_row
from stoa.products.rules import add_variant, change_product, change_variant, new_product, remove_variant, set_stock
from stoa.products.working_copy import ProductCopy, VariantCopy
from stoa.rest.body import convert

PRODUCT_ID, VARIANT_ID = 812, 2041
PATH_PARAMETERS = {"product_id": PRODUCT_ID, "variant_id": VARIANT_ID + 1}


def resources() -> dict[str, Resource]:
    product = shirt()
    return {"Product": _product(product), "Variant": variant_resource(product, product.variants[1])}


def responses() -> Responses:
    created = shirt()
    return {
        "create_product": one(_with_variants(created)),
        "get_product": one(_with_variants(created)),
        "update_product": one(_with_variants(_changed(), version=2)),
        "batch_products": batch("created", *_batch()),
        "create_variant": one(variant_resource(*_extended())),
        "update_variant": one(variant_resource(*_changed_variant(examples.VARIANT_CHANGES), version=2)),
        "update_variants": batch(
            "updated", variant_resource(*_changed_variant(examples.VARIANT_BATCH["items"][0]["data"]), version=2)
        ),
    }


# The stored function `stock_event_types` decides which events a change of stock causes.
_STOCK_EVENTS = (
    (ProductInventoryChanged, 4, 2),
    (ProductLowStock, 4, 2),
    (ProductOutOfStock, 4, 0),
    (ProductBackInStock, 0, 4),
)


def events() -> Events:
    """The slice derives them: each change below yields the events that the same change yields in a store."""
    extended, _ = _extended()
    repriced, _ = _changed_variant(examples.VARIANT_CHANGES)
    reduced = shirt()
    remove_variant(reduced, reduced.variants[1])
    return {
        ProductCreated.name: EventExample(PRODUCT_ID, 1, _with_variants(shirt())),
        ProductDeleted.name: tombstone(PRODUCT_ID),
        # Where several changes yield the same event, the last one is shown.
        **dict(each for product in (extended, repriced, reduced, _changed()) for each in _events_of(product)),
        **{event.name: _stock_event(before, after) for event, before, after in _STOCK_EVENTS},
    }


def _stock_event(before: int, after: int) -> EventExample:
    product = _with_stock(before, after)
    variant = product.variants[1]
    changes = {"on_hand": (before, after), "available": (before, after)}
    return EventExample(variant.stored_id, 2, variant_resource(product, variant, 2), changes)


def _events_of(product: ProductCopy) -> Iterator[tuple[str, EventExample]]:
    for event, variant, changes in events_of(product):
        if variant is None:
            yield event.name, EventExample(PRODUCT_ID, 2, _with_variants(product, version=2), changes)
        else:
            version = 1 if variant.before is None else 2
            data = variant_resource(product, variant, version)
            yield event.name, EventExample(variant.id or 0, version, data, changes)


# --- the shirt in different states ---------------------------------------------------------------------------------


def shirt() -> ProductCopy:
    """The product that the example request creates, as it is stored."""
    return _stored(new_product(convert(examples.NEW_SHIRT, NewProduct, digits=STORE.digits), STORE), PRODUCT_ID)


def _stored(product: ProductCopy, product_id: int) -> ProductCopy:
    product = _with_ids(product, product_id)
    product.before = product.fields
    for variant in product.variants:
        variant.before, variant.on_hand_before = variant.fields, variant.on_hand
    return product


def _with_ids(product: ProductCopy, product_id: int) -> ProductCopy:
    product.id = product_id
    for index, variant in enumerate(product.variants):
        variant.id = VARIANT_ID + product_id - PRODUCT_ID + index
    return product


def _changed() -> ProductCopy:
    product, patch = shirt(), examples.SHIRT_CHANGES
    change_product(product, convert(patch, ProductChanges, digits=STORE.digits), patch, STORE)
    return product


def _extended() -> tuple[ProductCopy, VariantCopy]:
    product = shirt()
    added = add_variant(product, convert(examples.NEW_VARIANT, NewVariant, digits=STORE.digits), STORE)
    return _with_ids(product, PRODUCT_ID), added


def _changed_variant(patch: dict[str, Any]) -> tuple[ProductCopy, VariantCopy]:
    product = shirt()
    variant = product.variants[1]
    change_variant(product, variant, convert(patch, VariantChanges, digits=STORE.digits), patch, STORE)
    return product, variant


def _with_stock(before: int, after: int) -> ProductCopy:
    """The shirt whose second variant has a low-stock threshold, after its stock moved."""
    product, variant = _changed_variant(examples.VARIANT_CHANGES)
    variant.on_hand = before
    set_stock(_stored(product, PRODUCT_ID), variant, after)
    return product


def _batch() -> list[Resource]:
    """The two products that the example batch creates: its upsert finds no product to update."""
    created: list[Resource] = []
    for index, item in enumerate(examples.PRODUCT_BATCH["items"]):
        sku = {"sku": item["sku"]} if "sku" in item else {}
        product = product_from_row({**sku, **item["data"]}, STORE)
        created.append(_product(_with_ids(product, PRODUCT_ID + 1 + index)))
    return created


# --- as callers see it ---------------------------------------------------------------------------------------------


def _stock(*variants: VariantCopy) -> dict[str, int]:
    on_hand, reserved = sum(each.on_hand for each in variants), sum(each.reserved for each in variants)
    return {"on_hand": on_hand, "reserved": reserved, "available": on_hand - reserved}


def _product(product: ProductCopy, version: int = 1) -> Resource:
    return {
        "id": product.id,
        **members_of(product.fields),
        "stock": _stock(*product.live),
        "in_stock": any(variant.is_sellable for variant in product.live),
        **timestamps(version),
        "deleted_at": None,
    }


def _with_variants(product: ProductCopy, version: int = 1) -> Resource:
    return {**_product(product, version), "variants": [variant_resource(product, each) for each in product.live]}


def variant_resource(product: ProductCopy, variant: VariantCopy, version: int = 1) -> Resource:
    ids = {"id": variant.id, "product_id": product.id}
    return {**ids, **members_of(variant.fields), "stock": _stock(variant), **timestamps(version)}
