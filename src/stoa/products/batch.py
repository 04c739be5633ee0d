"""Batches of products or variants: all items are planned in one workspace and saved in one call."""

from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import msgspec

from stoa.db.documents import exactly
from stoa.products import queries
from stoa.products.bodies import (
    VARIANT_ELSEWHERE,
    BatchItem,
    ProductBatch,
    VariantBatch,
    VariantChanges,
    VariantItem,
)
from stoa.products.contract import Product, Variant
from stoa.products.rows import Keys, change_by_row, find_variant, pointing_into, product_from_row, variants_in
from stoa.products.rules import change_variant, delete_product
from stoa.products.save import cause_of, load, save
from stoa.products.working_copy import ProductCopy, VariantCopy
from stoa.products.workspace import MatchBy, ProductWorkspace
from stoa.rest.batch import Batch, Mode, Outcome, done, failed, numbered, refuse_all
from stoa.rest.body import convert
from stoa.rest.call import Call, Store
from stoa.rest.checks import together_with
from stoa.rest.patch import echo_faults, refuse_stale
from stoa.rest.problems import Fault, Refusal, ValidationFailed

MOST_PRODUCTS, MOST_VARIANTS = 100, 250
_READ_ONLY = frozenset(Variant.__struct_fields__) - frozenset(VariantChanges.__struct_fields__)
Item = TypeVar("Item")


class Planned(msgspec.Struct):
    """The outcome of an item once the workspace is saved; a new copy gets its id only then."""

    outcome: Outcome
    copy: ProductCopy | VariantCopy


class Plan(msgspec.Struct, Generic[Item]):
    """How to process one kind of item: load what it names, apply it, and read the documents for the response."""

    load: Callable[[Call, Sequence[Item]], Awaitable[ProductWorkspace]]
    apply: Callable[[ProductWorkspace, Item, Store], Planned]
    show: Callable[[Call, list[int]], Awaitable[dict[int, str]]]


class DependsOnStored(Exception):
    """An item depends on what is stored for an earlier item of the batch: an id, a version or a derived field."""


async def run(call: Call, plan: Plan[Item], items: Sequence[tuple[int, Item | Refusal]], mode: Mode) -> Batch[Any]:
    """Process a batch as a whole; if that fails, process one item at a time, so that later items see earlier ones."""
    await call.db.execute("SAVEPOINT batch")
    try:
        results = await _run_at_once(call, plan, items, mode)
    except (Refusal, DependsOnStored):
        await call.db.execute("ROLLBACK TO SAVEPOINT batch")
        results = await _run_one_by_one(call, plan, items, mode)
    refusals = [(index, each) for index, each in results if isinstance(each, Refusal)]
    if refusals and mode == "atomic":
        raise refuse_all(refusals)
    kept = [each.copy.stored_id for _, each in results if isinstance(each, Planned) and each.outcome != "deleted"]
    documents = await plan.show(call, kept) if kept else {}
    return Batch(
        [
            failed(index, each)
            if isinstance(each, Refusal)
            else done(index, each.outcome, each.copy.id, documents.get(each.copy.stored_id))
            for index, each in results
        ]
    )


async def _run_one_by_one(
    call: Call, plan: Plan[Item], items: Sequence[tuple[int, Item | Refusal]], mode: Mode
) -> list[tuple[int, Planned | Refusal]]:
    results: list[tuple[int, Planned | Refusal]] = []
    for index, item in items:
        await call.db.execute("SAVEPOINT item")
        try:
            results += await _run_at_once(call, plan, [(index, item)], mode)
        except Refusal as refusal:
            await call.db.execute("ROLLBACK TO SAVEPOINT item")
            results.append((index, refusal))
    return results


async def _run_at_once(
    call: Call, plan: Plan[Item], items: Sequence[tuple[int, Item | Refusal]], mode: Mode
) -> list[tuple[int, Planned | Refusal]]:
    """Plan items in one workspace and save it, unless an item of an atomic batch is refused."""
    workspace = await plan.load(call, [item for _, item in items if not isinstance(item, Refusal)])
    planned: list[tuple[int, Planned | Refusal]] = []
    for index, item in items:
        try:
            planned.append((index, item if isinstance(item, Refusal) else plan.apply(workspace, item, call.store)))
        except Refusal as refusal:
            planned.append((index, refusal))
    if mode == "independent" or not any(isinstance(each, Refusal) for _, each in planned):
        with _pointing_to("/data"):
            await save(call.db, call.store_id, workspace.products, cause_of(call))
    return planned


# --- products ------------------------------------------------------------------------------------------------------


async def change_products(call: Call, body: ProductBatch) -> Batch[Product]:
    return await run(call, PRODUCTS, numbered(body.items, call.refused_items, MOST_PRODUCTS), body.mode)


async def _load_products(call: Call, items: Sequence[BatchItem]) -> ProductWorkspace:
    ids: set[int] = set()
    keys = Keys()
    for item in items:
        keys.add(item.data)
        keys.add({"sku": item.sku, "external_id": item.external_id})
        ids.update(value for value in (item.id, item.data.get("id")) if type(value) is int)
    return ProductWorkspace(await load(call.db, call.store_id, ids=ids, **msgspec.structs.asdict(keys)))


def _apply_to_product(workspace: ProductWorkspace, item: BatchItem, store: Store) -> Planned:
    if item.op == "create":
        _refuse_key_of_new(item)
        return _created(workspace, item, store)
    by, value, at = _key_of(item)
    product = workspace.find(by, value)
    if product is None and item.op == "upsert" and by != "id" and item.if_version is None:
        return _created(workspace, item, store)
    if product is None:
        code = "unknown_sku" if by == "sku" else "not_found"
        fault = Fault(at, code, "no product of this store has this value")
        raise ValidationFailed("The product does not exist.", faults=[fault])
    if (product.id is None and item.op == "delete") or (product.touched and _states_version(item)):
        raise DependsOnStored
    _refuse_other_keys(item, product)
    refuse_stale(item.if_version, product.version, "/if_version")
    if item.op == "delete":
        workspace.edit(product, delete_product)
        return Planned("deleted", product)
    with _pointing_to("/data"):
        refuse_stale(item.data.get("version"), product.version, "/version")
        for index, row in variants_in(item.data):
            with _pointing_to(f"/variants/{index}"):
                if variant := find_variant(product, row):
                    refuse_stale(row.get("version"), variant.version, "/version")
        changed = workspace.edit(
            product, lambda tried: change_by_row(tried, item.data, store), pointing_into(item.data)
        )
    return Planned("updated" if changed else "unchanged", product)


def _states_version(item: BatchItem) -> bool:
    """Whether an item applies only to a certain version of its product, or of one of its variants."""
    return item.if_version is not None or any(
        "version" in row for row in (item.data, *dict(variants_in(item.data)).values())
    )


@contextmanager
def _pointing_to(pointer: str, beside: Collection[str] = ()) -> Generator[None]:
    """Make the faults of a part of an item point into that part, except those in members that the item has `beside` it."""
    try:
        yield
    except Refusal as refusal:
        for fault in refusal.faults:
            if fault.pointer[1:] not in beside:
                fault.pointer = f"{pointer}{fault.pointer}"
        raise


def _refuse_other_keys(item: BatchItem, product: ProductCopy) -> None:
    """Refuse an item whose keys name different products: it is a mistake, and one of the keys would be ignored."""
    matches = {
        "id": item.id in (None, product.id),
        "sku": item.sku is None or any(variant.fields.sku == item.sku for variant in product.live),
        "external_id": item.external_id in (None, product.fields.external_id),
    }
    faults = [
        Fault(f"/{name}", "key_mismatch", f"is not the {name} of the product that the item names")
        for name, same in matches.items()
        if not same
    ]
    if faults:
        raise ValidationFailed("The keys of the item name different products.", faults=faults)


def _created(workspace: ProductWorkspace, item: BatchItem, store: Store) -> Planned:
    """A new product; the item's own sku and external_id become part of its data."""
    named = {name: value for name in ("sku", "external_id") if (value := getattr(item, name)) is not None}
    if not item.data:  # a pointer to a name in it would not resolve
        fault = Fault("/data", "required", "is required to create a product")
        raise ValidationFailed("The item has no data.", faults=[fault])
    with _pointing_to("/data", beside=named.keys() - item.data.keys()):
        created = workspace.put(product_from_row({**named, **item.data}, store), pointing_into(item.data))
    return Planned("created", created)


def _refuse_key_of_new(item: BatchItem) -> None:
    sent = {"id": item.id, "if_version": item.if_version, "match_by": item.match_by}
    faults = [
        Fault(f"/{name}", "invalid_format", "must be omitted when op is create")
        for name, value in sent.items()
        if value is not None
    ]
    if faults:
        raise ValidationFailed("An item that creates a product cannot refer to an existing one.", faults=faults)


def _key_of(item: BatchItem) -> tuple[MatchBy, int | str, str]:
    """The key by which an item names its product, with its pointer: `match_by`, otherwise the first key that it has."""
    wanted: list[MatchBy] = [item.match_by] if item.match_by else ["id", "sku", "external_id"]
    for by in wanted:
        value: Any = getattr(item, by)
        at = f"/{by}"
        if value is None and item.op == "upsert":
            value, at = item.data.get(by), f"/data/{by}"
        if isinstance(value, (int, str)) and value is not True and value is not False:
            return by, value, at
    words = "is required" if item.match_by else "is required unless sku or external_id is given"
    raise ValidationFailed("The item does not name a product.", faults=[Fault(f"/{wanted[0]}", "required", words)])


async def _show_products(call: Call, ids: list[int]) -> dict[int, str]:
    return {row.id: row.doc for row in await queries.DOCUMENTS.all(call.db, call.store_id, ids)}


PRODUCTS: Plan[BatchItem] = Plan(_load_products, _apply_to_product, _show_products)


# --- variants ------------------------------------------------------------------------------------------------------


async def change_variants(call: Call, body: VariantBatch) -> Batch[Variant]:
    return await run(call, VARIANTS, numbered(body.items, call.refused_items, MOST_VARIANTS), body.mode)


async def _load_variants(call: Call, items: Sequence[VariantItem]) -> ProductWorkspace:
    ids = [item.id for item in items if item.id is not None]
    keys = Keys()
    for item in items:
        keys.add({"sku": item.sku, "variants": [item.data]})
    products = await queries.PRODUCT_OF_VARIANTS.all(call.db, call.store_id, ids) if ids else []
    workspace = ProductWorkspace(await load(call.db, call.store_id, ids=products, **msgspec.structs.asdict(keys)))
    echoing = [
        found[1].stored_id for item in items if item.data.keys() & _READ_ONLY and (found := _named(workspace, item))
    ]
    if echoing:
        workspace.documents = {id_: exactly(doc) for id_, doc in (await _show_variants(call, echoing)).items()}
    return workspace


def _named(workspace: ProductWorkspace, item: VariantItem) -> tuple[ProductCopy, VariantCopy] | None:
    return workspace.find_variant(variant_id=item.id, sku=item.sku if item.id is None else None)


def _apply_to_variant(workspace: ProductWorkspace, item: VariantItem, store: Store) -> Planned:
    if item.id is None and item.sku is None:
        fault = Fault("/id", "required", "is required unless sku is given")
        raise ValidationFailed("The item must name one variant.", faults=[fault])
    found = _named(workspace, item)
    if found is None:
        fault = Fault("/id", "unknown_variant", "no variant of this store has this id")
        if item.id is None:
            fault = Fault("/sku", "unknown_sku", "no variant of this store has this SKU")
        raise ValidationFailed("The variant does not exist.", faults=[fault])
    product, variant = found
    if item.sku not in (None, variant.fields.sku):
        fault = Fault("/sku", "key_mismatch", "is not the sku of the variant that the item names")
        raise ValidationFailed("The keys of the item name different variants.", faults=[fault])
    if product.touched and (item.if_version is not None or item.data.keys() & _READ_ONLY):
        raise DependsOnStored
    refuse_stale(item.if_version, variant.version, "/if_version")
    with _pointing_to("/data"):
        changed = _change_variant(workspace, product, variant, item, store)
    return Planned("updated" if changed else "unchanged", variant)


def _change_variant(
    workspace: ProductWorkspace, product: ProductCopy, variant: VariantCopy, item: VariantItem, store: Store
) -> bool:
    patch = {name: value for name, value in item.data.items() if name not in _READ_ONLY}
    echoed = {name: value for name, value in item.data.items() if name in _READ_ONLY}
    index = product.variants.index(variant)

    def change(tried: ProductCopy) -> bool:
        with together_with(echo_faults(echoed, workspace.documents.get(variant.stored_id, {}), VARIANT_ELSEWHERE)):
            body = convert(patch, VariantChanges, digits=store.digits)
            return change_variant(tried, tried.variants[index], body, patch, store)

    return workspace.edit(product, change)


async def _show_variants(call: Call, ids: list[int]) -> dict[int, str]:
    return {row.id: row.doc for row in await queries.VARIANT_DOCUMENTS.all(call.db, call.store_id, ids)}


VARIANTS: Plan[VariantItem] = Plan(_load_variants, _apply_to_variant, _show_variants)
