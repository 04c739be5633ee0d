"""Products as rows of a file: found by their key, made or changed on the workspace, stored a part at a time."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from stoa.db.documents import json_of
from stoa.db.query import Executor
from stoa.events.outbox import Cause
from stoa.imports import csv_rows
from stoa.imports.contract import Outcome, ProductImportFinished
from stoa.imports.importable import Importable, Result, Task, failed
from stoa.imports.reading import Row
from stoa.products.rows import Keys, change_by_row, pointing_into, product_from_row, skus_in, variants_in
from stoa.products.save import Booking, load, save
from stoa.products.working_copy import ProductCopy
from stoa.products.workspace import ProductWorkspace
from stoa.rest.patch import changes_between
from stoa.rest.problems import Fault, Refusal, ValidationFailed

COLUMNS = csv_rows.Columns(
    own={
        **dict.fromkeys(
            "name price external_id slug description status compare_at_price cost_price brand category "
            "weight_unit seo.title seo.description metadata. currency".split(),
            csv_rows.text,
        ),
        **dict.fromkeys("requires_shipping taxable track_inventory".split(), csv_rows.flag),
        "id": csv_rows.integer,
        "weight": csv_rows.number,
        "tags": csv_rows.words,
        "images": csv_rows.images,
    },
    member={
        **dict.fromkeys(
            "sku barcode variant.price variant.compare_at_price variant.cost_price variant.external_id "
            "variant.metadata.".split(),
            csv_rows.text,
        ),
        **dict.fromkeys("variant.track_inventory variant.allow_backorder".split(), csv_rows.flag),
        **dict.fromkeys("stock.on_hand variant.low_stock_threshold variant.id".split(), csv_rows.integer),
        "variant.weight": csv_rows.number,
    },
    members="variants",
    flat=frozenset({"sku", "barcode", "stock"}),
    grouped_by=("id", "external_id", "slug"),
    grouped_with_options="name",
)


class Planned(msgspec.Struct):
    """What a row does to its product; one that is new learns its id when it is stored."""

    row: Row
    outcome: Outcome
    product: ProductCopy
    changes: str | None


def keys(members: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What belongs to one product alone, with its place in the row."""
    for name in ("id", "external_id", "sku"):
        if isinstance(members.get(name), (int, str)):
            yield f"/{name}", f"{name} {members[name]}"
    for place, variant in variants_in(members):
        sku = variant.get("sku")
        if isinstance(sku, str) and sku != members.get("sku"):
            yield f"/variants/{place}/sku", f"sku {sku}"


def key(members: dict[str, Any], by: str) -> dict[str, Any]:
    named = next(iter(skus_in(members)), None) if by == "sku" else members.get(by)
    return {by: named} if isinstance(named, (int, str)) else {}


async def apply(db: Executor, task: Task, rows: Sequence[Row], *, write: bool) -> list[Result]:
    """Carry out rows on one workspace, and store what they changed in one call."""
    ids: set[int] = set()
    named = Keys()
    for row in rows:
        named.add(row.members)
        if isinstance(number := row.members.get("id"), int):
            ids.add(number)
    loaded = await load(db, task.store.id, ids=ids, **msgspec.structs.asdict(named))
    workspace = ProductWorkspace(loaded)
    by_id = {product.id: product for product in loaded}
    planned: list[Planned | Result] = []
    for row in rows:
        try:
            planned.append(_plan(workspace, by_id, row, task, tell=not write))
        except Refusal as refusal:
            planned.append(failed(row, refusal, key(row.members, task.options.match_by)))
    if write:
        await _save(db, task, workspace.products)
    return [each if isinstance(each, Result) else _result(each, task) for each in planned]


def _result(planned: Planned, task: Task) -> Result:
    named = key(planned.row.members, task.options.match_by)
    return Result(planned.row.number, planned.outcome, planned.product.id, named, changes=planned.changes)


def _plan(
    workspace: ProductWorkspace, by_id: dict[int | None, ProductCopy], row: Row, task: Task, *, tell: bool
) -> Planned:
    by, mode = task.options.match_by, task.options.mode
    product = _find(workspace, by_id, row.members, by) if mode != "create" else None
    if product is None and mode == "update":
        raise _unknown(by)
    if product is None:
        made = workspace.put(product_from_row({**row.creating, **row.members}, task.store), pointing_into(row.members))
        return Planned(row, "created", made, None)
    at = pointing_into(row.members)
    changed = workspace.edit(product, lambda tried: change_by_row(tried, row.members, task.store), at)
    return Planned(row, "updated" if changed else "unchanged", product, _told(product) if tell and changed else None)


def _find(
    workspace: ProductWorkspace, by_id: dict[int | None, ProductCopy], members: dict[str, Any], by: str
) -> ProductCopy | None:
    """The product that a row names; None when it is to be made."""
    named = members.get(by)
    if by == "id":
        if named is None:
            return None
        if type(named) is not int:
            raise ValidationFailed(
                "The row's key cannot be read.", faults=[Fault("/id", "invalid_type", "must be an integer")]
            )
        product = by_id.get(named)
        if product is None or product.deleted:
            raise _unknown(by)
        return product
    if named is not None and not isinstance(named, str):
        raise ValidationFailed(
            "The row's key cannot be read.", faults=[Fault(f"/{by}", "invalid_type", "must be a string")]
        )
    wanted = skus_in(members) if by == "sku" else [named] if named else []
    if not wanted:
        raise ValidationFailed(
            "The row names no product.", faults=[Fault(f"/{by}", "required", "is required to match by")]
        )
    found = {id(each): each for value in wanted if (each := workspace.find(cast("Any", by), value)) is not None}
    if len(found) > 1:
        fault = Fault("/variants", "sku_taken", "have SKUs of several products")
        raise ValidationFailed("The row names several products.", faults=[fault])
    return next(iter(found.values()), None)


def _unknown(by: str) -> Refusal:
    fault = Fault(f"/{by}", "unknown_sku" if by == "sku" else "not_found", "names no product of this store")
    return ValidationFailed("There is no such product.", faults=[fault])


def _told(product: ProductCopy) -> str:
    """Old and new values of a product that exists, and of its variants."""
    told: dict[str, Any] = {
        name: list(pair) for name, pair in changes_between(product.before or {}, product.fields).items()
    }
    variants: list[dict[str, Any]] = []
    for variant in product.variants:
        changes: dict[str, Any] = {}
        if variant.before is not None:
            changes = {name: list(pair) for name, pair in changes_between(variant.before, variant.fields).items()}
        if variant.on_hand != variant.on_hand_before:
            changes["stock"] = [{"on_hand": variant.on_hand_before}, {"on_hand": variant.on_hand}]
        if changes or variant.before is None:
            variants.append({"id": variant.id, "sku": variant.fields["sku"], "changes": changes})
    return json_of({**told, "variants": variants} if variants else told)


async def retire(db: Executor, task: Task, ids: Sequence[int]) -> int:
    """Archive products that the file left out; says how many were not archived yet."""
    products = await load(db, task.store.id, ids=ids)
    count = sum([change_by_row(product, {"status": "archived"}, task.store) for product in products])
    await _save(db, task, products)
    return count


async def _save(db: Executor, task: Task, products: Sequence[ProductCopy]) -> None:
    booking = Booking(kind="import", reason="sync", reference=task.import_id)
    await save(db, task.store.id, products, Cause(task.app_id, task.request_id), booking)


PRODUCTS = Importable(
    resource="products",
    scope="products:write",
    match_by=("sku", "external_id", "id"),
    columns=COLUMNS,
    tables=("products", "variants"),
    finished=ProductImportFinished,
    keys=keys,
    key=key,
    apply=apply,
    retire=retire,
)
