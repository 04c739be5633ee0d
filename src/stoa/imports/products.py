"""Imports products: finds each row's product by its key, edits working copies, and saves a part of the file at a time."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Any, cast

import msgspec

from stoa.db.query import Executor, json_of
from stoa.imports.contract import Outcome
from stoa.imports.importable import Importable, Result, RowKey, Task, creation_time, failed, read_entries
from stoa.imports.queries import SAVE_ALONE, SAVE_BESIDE
from stoa.imports.reading import Row
from stoa.inventory import queries
from stoa.inventory.queries import Move
from stoa.products.bodies import NewProduct, VariantFields
from stoa.products.csv_columns import COLUMNS
from stoa.products.documents import changes_between
from stoa.products.input_rows import Booking, Prepared
from stoa.products.located_rows import (
    change_by_located_row,
    location_faults,
    names_location,
    product_from_located_row,
    stock_at_locations,
)
from stoa.products.rows import Keys, change_by_row, pointing_into, product_from_row, skus_in, variants_in
from stoa.products.rules import refuse
from stoa.products.save import load, prepare, save_prepared, settle_collections
from stoa.products.working_copy import Level, ProductCopy, VariantCopy
from stoa.products.workspace import ProductWorkspace
from stoa.rest.body import check_field_scopes
from stoa.rest.metadata import Definitions
from stoa.rest.problems import Fault, Refusal, ValidationFailed

BATCH = 100  # rows that are planned while the database saves those before them
PAUSE_EVERY = 10  # rows, so that the next statement of a save does not wait for the plan of a whole batch


class Planned(msgspec.Struct):
    """The planned effect of a row on its product. A new product gets its id when it is saved."""

    row: Row
    outcome: Outcome
    product: ProductCopy
    changes: str | None


def keys(members: dict[str, Any]) -> Iterator[RowKey]:
    """The unique keys in a row, with their pointers. Rows with stock at different locations may have the same keys."""
    located = {each.at: each.location for each in stock_at_locations(members)} if names_location(members) else {}
    variants = list(variants_in(members))
    whole = not located or any(f"/variants/{index}" not in located for index, _ in variants)
    for name in ("id", "external_id", "sku"):
        if isinstance(members.get(name), (int, str)):
            for part in [None] if whole else sorted({*located.values()}):
                yield RowKey(f"/{name}", f"{name} {members[name]}", part)
    for index, variant in variants:
        sku = variant.get("sku")
        if isinstance(sku, str) and sku != members.get("sku"):
            yield RowKey(f"/variants/{index}/sku", f"sku {sku}", located.get(f"/variants/{index}"))


def key(members: dict[str, Any], by: str) -> dict[str, Any]:
    named = next(iter(skus_in(members)), None) if by == "sku" else members.get(by)
    return {by: named} if isinstance(named, (int, str)) else {}


async def apply(db: Executor, task: Task, rows: Sequence[Row], *, write: bool) -> list[Result]:
    """Apply rows in one workspace. While the database saves the products of a batch, the rows of the next are planned."""
    in_batches = write and len(rows) > BATCH and task.options.on_error == "continue"
    alone = in_batches and await SAVE_ALONE.one(db, task.store.id)
    if write and not alone:
        await SAVE_BESIDE.one(db, task.store.id)
    ids: set[int] = set()
    sought = Keys()
    for row in rows:
        sought.add(row.members)
        if isinstance(number := row.members.get("id"), int):
            ids.add(number)
    loaded = await load(db, task.store.id, ids=ids, **msgspec.structs.asdict(sought))
    named = {each.location for row in rows if names_location(row.members) for each in stock_at_locations(row.members)}
    active = await _load_levels(db, task.store.id, loaded, named) if named else []
    workspace = ProductWorkspace(loaded)
    by_id = {product.id: product for product in loaded}

    def plan(row: Row) -> Planned | Result:
        try:
            return _plan(workspace, by_id, row, task, active, with_changes=not write)
        except Refusal as refusal:
            return failed(row, refusal, key(row.members, task.options.match_by))

    if write:
        size = BATCH if alone and not named and not _share_products(workspace, rows) else len(rows)
        batches = [rows[first : first + size] for first in range(0, len(rows), size)]
        planned = await _plan_and_save(db, task, workspace, batches, plan)
    else:
        planned = [plan(row) for row in rows]
        await settle_collections(db, task.store.id, workspace.products)
    return [each if isinstance(each, Result) else _result(each, task) for each in planned]


def _share_products(workspace: ProductWorkspace, rows: Sequence[Row]) -> bool:
    """Whether several rows have SKUs of one product, which is saved once. No two rows have the same id or external id."""
    seen: set[int] = set()
    for row in rows:
        found = {id(product) for sku in skus_in(row.members) if (product := workspace.find("sku", sku)) is not None}
        if not seen.isdisjoint(found):
            return True
        seen |= found
    return False


async def _plan_and_save(
    db: Executor,
    task: Task,
    workspace: ProductWorkspace,
    batches: Sequence[Sequence[Row]],
    plan: Callable[[Row], Planned | Result],
) -> list[Planned | Result]:
    """Plan and save batches of rows. One batch at a time is being saved."""
    planned: list[Planned | Result] = []
    saving: asyncio.Task[None] | None = None
    try:
        for batch in batches:
            start = len(planned)
            for index, row in enumerate(batch):
                if index % PAUSE_EVERY == 0:
                    await asyncio.sleep(0)
                planned.append(plan(row))
            edited = {id(each.product) for each in planned[start:] if isinstance(each, Planned)}
            products = [product for product in workspace.products if id(product) in edited]
            prepared = _prepare(task, products)
            if saving is not None:
                await saving
            saving = asyncio.create_task(_save(db, task, products, prepared))
        if saving is not None:
            await saving
    finally:
        if saving is not None and not saving.done():
            saving.cancel()
            await asyncio.wait([saving])
    return planned


async def _load_levels(db: Executor, store_id: int, products: Sequence[ProductCopy], named: set[str]) -> list[str]:
    """Load the levels of locked products at the named locations, and return those of the locations that are active."""
    codes = sorted(named)
    active = await queries.ACTIVE_LOCATIONS.all(db, store_id, codes)
    variants = {variant.stored_id: variant for product in products for variant in product.variants}
    for row in await queries.LEVELS_AT.all(db, store_id, list(variants), codes):
        variant = variants[row.variant_id]
        variant.levels = {**variant.levels, row.location: Level(row.on_hand, row.reserved, row.on_hand)}
    return active


def _result(planned: Planned, task: Task) -> Result:
    named = key(planned.row.members, task.options.match_by)
    return Result(planned.row.number, planned.outcome, planned.product.id, named, changes=planned.changes)


def _plan(
    workspace: ProductWorkspace,
    by_id: dict[int | None, ProductCopy],
    row: Row,
    task: Task,
    active: Collection[str],
    *,
    with_changes: bool,
) -> Planned:
    by, mode = task.options.match_by, task.options.mode
    check_field_scopes(row.members, NewProduct, task.may)
    located = names_location(row.members)
    if located:
        refuse(location_faults(row.members, active))
    product = _find(workspace, by_id, row.members, by) if mode != "create" else None
    if product is None and mode == "update":
        raise _unknown(by)
    if product is None:
        create = product_from_located_row if located else product_from_row
        new = create({**row.creating, **row.members}, task.store)
        new.created_at = creation_time(row)
        created = workspace.put(new, pointing_into(row.members))
        return Planned(row, "created", created, None)
    at, change = pointing_into(row.members), change_by_located_row if located else change_by_row
    before = product.copy() if with_changes else None
    changed = workspace.edit(product, lambda tried: change(tried, row.members, task.store), at)
    changes = _changes(before, product) if before and changed else None
    return Planned(row, "updated" if changed else "unchanged", product, changes)


def _find(
    workspace: ProductWorkspace, by_id: dict[int | None, ProductCopy], members: dict[str, Any], by: str
) -> ProductCopy | None:
    """The product that a row identifies; None if it does not exist yet."""
    named = members.get(by)
    if by == "id":
        if named is None:
            return None
        if type(named) is not int:
            raise ValidationFailed(
                "The key of the row has the wrong type.", faults=[Fault("/id", "invalid_type", "must be an integer")]
            )
        product = by_id.get(named)
        if product is None or product.deleted:
            raise _unknown(by)
        return product
    if named is not None and not isinstance(named, str):
        raise ValidationFailed(
            "The key of the row has the wrong type.", faults=[Fault(f"/{by}", "invalid_type", "must be a string")]
        )
    wanted = skus_in(members) if by == "sku" else [named] if named else []
    if not wanted:
        raise ValidationFailed(
            "The row does not identify a product.",
            faults=[Fault(f"/{by}", "required", f"is required with match_by={by}")],
        )
    found = {id(each): each for value in wanted if (each := workspace.find(cast("Any", by), value)) is not None}
    if len(found) > 1:
        fault = Fault("/variants", "sku_taken", "must have SKUs of one product only")
        raise ValidationFailed("The row identifies several products.", faults=[fault])
    return next(iter(found.values()), None)


def _unknown(by: str) -> Refusal:
    fault = Fault(f"/{by}", "unknown_sku" if by == "sku" else "not_found", "no product of this store has this value")
    return ValidationFailed("The product does not exist.", faults=[fault])


def _changes(before: ProductCopy, product: ProductCopy) -> str:
    """The values of a product and its variants before and after a row, as JSON."""
    of_product: dict[str, Any] = {
        name: list(pair) for name, pair in changes_between(before.fields, product.fields).items()
    }
    variants: list[dict[str, Any]] = []
    for old, variant in zip_longest(before.variants, product.variants):
        changes: dict[str, Any] = {}
        if old is not None:
            changes = {name: list(pair) for name, pair in changes_between(old.fields, variant.fields).items()}
        was = old or VariantCopy(None, VariantFields())
        if variant.total != was.total:
            changes["stock"] = [{"on_hand": was.total}, {"on_hand": variant.total}]
        moved = [code for code in variant.levels if variant.level(code) != was.level(code)]
        if moved:
            changes["locations"] = [{code: each.level(code) for code in sorted(moved)} for each in (was, variant)]
        if changes or old is None:
            variants.append({"id": variant.id, "sku": variant.fields.sku, "changes": changes})
    return json_of({**of_product, "variants": variants} if variants else of_product)


def read_metadata(members: dict[str, Any], definitions: Definitions) -> None:
    read_entries(members, "product", definitions)
    for _, variant in variants_in(members):
        read_entries(variant, "variant", definitions)


async def retire(db: Executor, task: Task, ids: Sequence[int]) -> int:
    """Archive products that are not in the file, and return how many were not archived before."""
    products = await load(db, task.store.id, ids=ids)
    count = sum([change_by_row(product, {"status": "archived"}, task.store) for product in products])
    await _save(db, task, products, _prepare(task, products))
    return count


def _prepare(task: Task, products: Sequence[ProductCopy]) -> Prepared:
    booking = Booking(kind="import", reason="sync", reference=task.import_id)
    return prepare(task.store.id, products, booking, events=task.options.send_events)


async def _save(db: Executor, task: Task, products: Sequence[ProductCopy], prepared: Prepared) -> None:
    await save_prepared(db, task.store.id, prepared, task.cause)
    moves = [
        Move(
            variant_id=variant.stored_id,
            kind="import",
            location=location,
            absolute=True,
            on_hand=level.on_hand,
            reason="sync",
            reference=task.import_id,
            silent=not task.options.send_events,
        )
        for product in products
        for variant in product.live
        for location, level in variant.changed_levels.items()
    ]
    if not moves:
        return
    moved = await queries.move_stock(
        db, task.store.id, moves, atomic=True, actor=task.cause.actor, request_id=task.request_id
    )
    if any(each.outcome != "updated" for each in moved):
        raise RuntimeError("the levels of locked products changed")


PRODUCTS = Importable(
    resource="products",
    scope="products:write",
    match_by=("sku", "external_id", "id"),
    columns=COLUMNS,
    tables=("products", "variants"),
    keys=keys,
    key=key,
    apply=apply,
    read_metadata=read_metadata,
    retire=retire,
)
