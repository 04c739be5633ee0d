"""Many products or variants in one request: each planned on the shelf, all stored together."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar, cast

import msgspec

from stoa.products import queries
from stoa.products.contract import BatchItem, Product, ProductBatch, Variant, VariantBatch, VariantChanges, VariantItem
from stoa.products.copies import ProductCopy, VariantCopy
from stoa.products.rows import change_by_row, product_from_row
from stoa.products.rules import change_variant, delete_product
from stoa.products.saving import Cause, load, save
from stoa.products.shelf import MatchBy, Shelf
from stoa.rest.batch import Batch, ItemResult, Mode, Outcome, check_size, done, failed, refuse_all
from stoa.rest.body import convert
from stoa.rest.endpoint import Call, Store
from stoa.rest.problems import Fault, Refusal, ValidationFailed, VersionConflict

MOST_PRODUCTS, MOST_VARIANTS = 100, 250
Item = TypeVar("Item")


class Planned(msgspec.Struct):
    """What will become of an item once the shelf is stored; the copy learns its id only then."""

    outcome: Outcome
    copy: ProductCopy | VariantCopy


class Plan(msgspec.Struct, Generic[Item]):
    """How a kind of item is carried out: what to load for it, how to apply it, and how to show what came of it."""

    load: Callable[[Call, Sequence[Item]], Awaitable[Shelf]]
    apply: Callable[[Shelf, Item, Store], Planned]
    show: Callable[[Call, list[int]], Awaitable[dict[int, str]]]


async def run(call: Call, plan: Plan[Item], items: Sequence[Item], mode: Mode) -> Batch[Any]:
    """Carry out a batch. A race lost at the last moment fails the whole, or when independent, only its own item."""
    if mode == "atomic":
        return Batch(await _together(call, plan, list(enumerate(items)), mode))
    await call.db.execute("SAVEPOINT batch")
    try:
        return Batch(await _together(call, plan, list(enumerate(items)), mode))
    except Refusal:
        await call.db.execute("ROLLBACK TO SAVEPOINT batch")
    results: list[ItemResult[msgspec.Raw]] = []
    for numbered in enumerate(items):
        await call.db.execute("SAVEPOINT item")
        try:
            results += await _together(call, plan, [numbered], mode)
        except Refusal as refusal:
            await call.db.execute("ROLLBACK TO SAVEPOINT item")
            results.append(failed(numbered[0], refusal))
    return Batch(results)


async def _together(
    call: Call, plan: Plan[Item], items: Sequence[tuple[int, Item]], mode: Mode
) -> list[ItemResult[msgspec.Raw]]:
    shelf = await plan.load(call, [item for _, item in items])
    planned: list[tuple[int, Planned | Refusal]] = []
    for index, item in items:
        try:
            planned.append((index, plan.apply(shelf, item, call.store)))
        except Refusal as refusal:
            planned.append((index, refusal))
    refusals = [(index, each) for index, each in planned if isinstance(each, Refusal)]
    if refusals and mode == "atomic":
        raise refuse_all(refusals)
    await save(call.db, call.store_id, shelf.products, Cause(call.caller.app_id, call.request_id))
    kept = [each.copy.id or 0 for _, each in planned if isinstance(each, Planned) and each.outcome != "deleted"]
    documents = await plan.show(call, kept) if kept else {}
    return [
        failed(index, each)
        if isinstance(each, Refusal)
        else done(index, each.outcome, each.copy.id, documents.get(each.copy.id or 0))
        for index, each in planned
    ]


# --- products ------------------------------------------------------------------------------------------------------


async def change_products(call: Call, body: ProductBatch) -> Batch[Product]:
    check_size(body.items, MOST_PRODUCTS)
    return await run(call, PRODUCTS, body.items, body.mode)


def keys_in(row: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The SKUs and external ids that a row mentions, its variants' among them."""
    skus: list[str] = []
    nested = cast("list[Any]", row["variants"]) if isinstance(row.get("variants"), list) else []
    for each in [row, *nested]:
        if isinstance(each, dict) and isinstance(sku := cast("dict[str, Any]", each).get("sku"), str):
            skus.append(sku)
    return skus, [row["external_id"]] if isinstance(row.get("external_id"), str) else []


async def _load_products(call: Call, items: Sequence[BatchItem]) -> Shelf:
    ids = {item.id for item in items if item.id is not None}
    skus = {item.sku for item in items if item.sku is not None}
    external_ids = {item.external_id for item in items if item.external_id is not None}
    for item in items:
        found = keys_in(item.data)
        skus.update(found[0])
        external_ids.update(found[1])
    return Shelf(await load(call.db, call.store_id, ids=ids, skus=skus, external_ids=external_ids))


def _apply_to_product(shelf: Shelf, item: BatchItem, store: Store) -> Planned:
    if item.op == "create":
        return Planned("created", shelf.put(product_from_row(item.data, store)))
    by, value = _key_of(item)
    product = shelf.find(by, value)
    if product is None and item.op == "upsert" and by != "id":
        return Planned("created", shelf.put(product_from_row({by: value, **item.data}, store)))
    if product is None:
        fault = Fault(f"/{by}", "unknown_sku" if by == "sku" else "not_found", "names no product of this store")
        raise ValidationFailed("There is no such product.", faults=[fault])
    if item.if_version is not None and item.if_version != product.version:
        raise VersionConflict(f"The current version is {product.version}.", current_version=product.version)
    if item.op == "delete":
        shelf.edit(product, _delete)
        return Planned("deleted", product)
    changed = shelf.edit(product, lambda tried: change_by_row(tried, item.data, store))
    return Planned("updated" if changed else "unchanged", product)


def _delete(product: ProductCopy) -> bool:
    delete_product(product)
    return True


def _key_of(item: BatchItem) -> tuple[MatchBy, int | str]:
    """What an item names its product by: as it says, else by the first key that it has."""
    wanted: list[MatchBy] = [item.match_by] if item.match_by else ["id", "sku", "external_id"]
    for by in wanted:
        value = getattr(item, by)
        if value is None and item.op == "upsert":
            value = item.data.get(by)
        if isinstance(value, (int, str)):
            return by, value
    raise ValidationFailed("The item names no product.", faults=[Fault(f"/{wanted[0]}", "required", "is required")])


async def _show_products(call: Call, ids: list[int]) -> dict[int, str]:
    return {row.id: row.doc for row in await queries.DOCUMENTS.all(call.db, call.store_id, ids)}


PRODUCTS: Plan[BatchItem] = Plan(_load_products, _apply_to_product, _show_products)


# --- variants ------------------------------------------------------------------------------------------------------


async def change_variants(call: Call, body: VariantBatch) -> Batch[Variant]:
    check_size(body.items, MOST_VARIANTS)
    return await run(call, VARIANTS, body.items, body.mode)


async def _load_variants(call: Call, items: Sequence[VariantItem]) -> Shelf:
    ids = [item.id for item in items if item.id is not None]
    skus = {item.sku for item in items if item.sku is not None}
    for item in items:
        skus.update(keys_in(item.data)[0])
    products = await queries.PRODUCT_OF_VARIANTS.all(call.db, call.store_id, ids) if ids else []
    return Shelf(await load(call.db, call.store_id, ids=products, skus=skus))


def _apply_to_variant(shelf: Shelf, item: VariantItem, store: Store) -> Planned:
    if (item.id is None) == (item.sku is None):
        fault = Fault("/id", "required", "or sku is required, and only one of them")
        raise ValidationFailed("The item must name one variant.", faults=[fault])
    found = shelf.find_variant(variant_id=item.id, sku=item.sku)
    if found is None:
        named = Fault("/id", "unknown_variant", "names no variant of this store")
        if item.sku is not None:
            named = Fault("/sku", "unknown_sku", "names no variant of this store")
        raise ValidationFailed("There is no such variant.", faults=[named])
    product, variant = found
    if item.if_version is not None and item.if_version != variant.version:
        raise VersionConflict(f"The current version is {variant.version}.", current_version=variant.version)
    body = convert(item.data, VariantChanges, digits=store.digits)
    place = product.variants.index(variant)
    changed = shelf.edit(product, lambda tried: change_variant(tried, tried.variants[place], body, item.data, store))
    return Planned("updated" if changed else "unchanged", variant)


async def _show_variants(call: Call, ids: list[int]) -> dict[int, str]:
    return {row.id: row.doc for row in await queries.VARIANT_DOCUMENTS.all(call.db, call.store_id, ids)}


VARIANTS: Plan[VariantItem] = Plan(_load_variants, _apply_to_variant, _show_variants)
