"""Answers about the catalogue and its stock: the shirt of the examples, created, changed and counted."""

from typing import Any

from stoa.answers.parts import APP_ID, CHANGED, CREATED, REQUEST_ID, STORE, Answers, Resource, books, one, outcomes
from stoa.inventory.contract import StockLevel
from stoa.products import examples
from stoa.products.bodies import NewProduct, NewVariant, ProductChanges, VariantChanges
from stoa.products.rows import product_from_row
from stoa.products.rules import add_variant, change_product, change_variant, new_product
from stoa.products.working_copy import ProductCopy, VariantCopy
from stoa.rest.body import convert

PRODUCT_ID, VARIANT_ID = 812, 2041


def resources() -> dict[str, Resource]:
    shirt = _shirt()
    return {
        "Product": _product(shirt),
        "Variant": _variant(shirt, shirt.variants[1]),
        "StockLevel": _level(shirt, shirt.variants[1]),
        "LedgerEntry": _entry(shirt.variants[0].fields["sku"], 0, before=12, after=14),
    }


def answers() -> Answers:
    shirt = _shirt()
    return {
        "create_product": one(_with_variants(shirt)),
        "get_product": one(_with_variants(shirt)),
        "update_product": one(_with_variants(_changed(), version=2)),
        "batch_products": outcomes("created", *_batch()),
        "create_variant": one(_variant(*_added())),
        "update_variant": one(_variant(*_repriced(examples.VARIANT_CHANGES), version=2)),
        "update_variants": outcomes(
            "updated", _variant(*_repriced(examples.VARIANT_BATCH["items"][0]["data"]), version=2)
        ),
        "adjust_inventory": outcomes(
            "updated", _entry("LS-S", 0, before=38, after=40), _entry("LS-M", 1, before=6, after=4)
        ),
    }


# --- the shirt -----------------------------------------------------------------------------------------------------


def _shirt() -> ProductCopy:
    return _numbered(new_product(convert(examples.NEW_SHIRT, NewProduct, digits=STORE.digits), STORE), PRODUCT_ID)


def _numbered(product: ProductCopy, product_id: int) -> ProductCopy:
    product.id = product_id
    for place, variant in enumerate(product.variants):
        variant.id = VARIANT_ID + product_id - PRODUCT_ID + place
    return product


def _changed() -> ProductCopy:
    shirt, patch = _shirt(), examples.SHIRT_CHANGES
    change_product(shirt, convert(patch, ProductChanges, digits=STORE.digits), patch, STORE)
    return shirt


def _added() -> tuple[ProductCopy, VariantCopy]:
    shirt = _shirt()
    added = add_variant(shirt, convert(examples.NEW_VARIANT, NewVariant, digits=STORE.digits), STORE)
    return _numbered(shirt, PRODUCT_ID), added


def _repriced(patch: dict[str, Any]) -> tuple[ProductCopy, VariantCopy]:
    shirt = _shirt()
    variant = shirt.variants[1]
    change_variant(shirt, variant, convert(patch, VariantChanges, digits=STORE.digits), patch, STORE)
    return shirt, variant


def _batch() -> list[Resource]:
    """What the batch of the examples makes: a mug that is new, and a bowl that was not there to be updated."""
    made: list[Resource] = []
    for place, item in enumerate(examples.PRODUCT_BATCH["items"]):
        named = {"sku": item["sku"]} if "sku" in item else {}
        product = product_from_row({**named, **item["data"]}, STORE)
        made.append(_product(_numbered(product, PRODUCT_ID + 1 + place)))
    return made


# --- as callers see it ---------------------------------------------------------------------------------------------


def _stock(*variants: VariantCopy) -> dict[str, int]:
    on_hand, reserved = sum(each.on_hand for each in variants), sum(each.reserved for each in variants)
    return {"on_hand": on_hand, "reserved": reserved, "available": on_hand - reserved}


def _product(product: ProductCopy, version: int = 1) -> Resource:
    return {
        "id": product.id,
        **product.fields,
        "stock": _stock(*product.live),
        "in_stock": any(variant.sellable for variant in product.live),
        **books(version),
        "deleted_at": None,
    }


def _with_variants(product: ProductCopy, version: int = 1) -> Resource:
    return {**_product(product, version), "variants": [_variant(product, each) for each in product.live]}


def _variant(product: ProductCopy, variant: VariantCopy, version: int = 1) -> Resource:
    named = {"id": variant.id, "product_id": product.id}
    return {**named, **variant.fields, "stock": _stock(variant), **books(version)}


def _level(product: ProductCopy, variant: VariantCopy) -> Resource:
    known = {**_variant(product, variant), "variant_id": variant.id}
    return {name: known[name] for name in StockLevel.__struct_fields__}


def _entry(sku: str, place: int, *, before: int, after: int) -> Resource:
    """A line of the ledger: counted, and found to be another number than the books had."""
    return {
        "id": 48_210 + place,
        "variant_id": VARIANT_ID + place,
        "sku": sku,
        "kind": "adjust" if after < before else "set",
        "delta_on_hand": after - before,
        "delta_reserved": 0,
        "on_hand_after": after,
        "reserved_after": 0,
        "reason": "stocktake",
        "reference": "COUNT-9",
        "order_id": None,
        "actor": {"type": "app", "app_id": APP_ID},
        "request_id": REQUEST_ID,
        "created_at": CHANGED if place else CREATED,
    }
