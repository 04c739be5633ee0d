"""The forms that create and change products, their metadata and their stock, through the API's own endpoints."""

from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from stoa.accounts.contract import Right
from stoa.inventory import queries as inventory
from stoa.inventory.contract import Adjustments, LocationLevel, Reason
from stoa.inventory.endpoints import adjust_inventory
from stoa.portal.kit.forms import FormError, OnceForm
from stoa.portal.kit.list_view import paginate
from stoa.portal.kit.pages import ROOT, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.metadata_forms import MetadataForm, definitions_for, metadata_change
from stoa.portal.stores.order_forms import Line
from stoa.portal.stores.product_forms import (
    LONGEST_DESCRIPTION,
    MOST_COLLECTIONS,
    ProductForm,
    body_of,
    digest,
    fields_of,
    stock_of,
)
from stoa.portal.stores.products import find_product, pages
from stoa.portal.stores.writes import REPEATED, Change, carry_out, whole
from stoa.products.bodies import NewProduct, ProductBatch
from stoa.products.collection_queries import TITLES
from stoa.products.contract import Product, Variant
from stoa.products.endpoints import batch_products, create_product
from stoa.products.save import load
from stoa.products.stock_locations import DEFAULT_LOCATION
from stoa.rest.body import convert
from stoa.rest.call import Call
from stoa.rest.problems import Refusal, VersionConflict

_VARIANTS_PER_PAGE, _NEW_VARIANTS = 10, 6
# The reasons that a person has; the others belong to orders and programs.
_REASONS = tuple(reason for reason in get_args(Reason) if reason not in ("order", "sync"))


class StockForm(OnceForm):
    """New levels, or differences, of variants at one location; `on_hand` is what the page showed."""

    op: Line = "set"
    location: Line = DEFAULT_LOCATION
    quantities: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    on_hand: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    reason: Line = "correction"
    reference: Line = ""


@pages.page("/stores/{handle}/products/new", nav="list_stores", right=Right.CHANGE)
async def new_product(visit: Visit) -> View:
    context = {
        **await _choices(visit),
        "product": None,
        "new_rows": [f"new{n}" for n in range(1, _NEW_VARIANTS + 1)],
    }
    return View("stores/new_product.html", context)


@pages.form("/stores/{handle}/products/new", on=new_product, in_shard=True)
async def add_product(visit: Visit, form: ProductForm) -> Redirect:
    body, created = body_of(form), 0

    async def work(call: Call) -> Any:
        nonlocal created
        _read_metadata(call, body)
        call.patch = {**body, **form.metadata_members(call.store.definitions, "product")}
        answer = await create_product(call, convert(call.patch, NewProduct, digits=call.store.digits))
        created = msgspec.json.decode(answer.doc, type=Product).id
        await visit.by.record(call.db, call.store_id, "product.created", f"product:{created}")
        return answer

    url = f"{ROOT}/stores/{visit.store.handle}/products"
    if not await carry_out(visit, form, Change("", "product", fields_of(form) | form.metadata_fields), work):
        return Redirect(url, REPEATED, "warn")
    return Redirect(f"{url}/{created}", "The product was created.")


@pages.page("/stores/{handle}/products/{product_id:int}/edit", nav="list_stores", right=Right.CHANGE)
async def edit_product(visit: Visit) -> View:
    product = await find_product(visit.db, visit)
    locations = [each for each in await inventory.LOCATIONS.all(visit.db, visit.store.id) if each.active]
    code = visit.query("location")
    location = code if code in [each.code for each in locations] else DEFAULT_LOCATION
    variants = paginate(visit, product.variants or [], "variants", _VARIANTS_PER_PAGE)
    context: dict[str, Any] = {
        **await _choices(visit),
        "product": product,
        "seen": digest(product),
        "variants": variants,
        "new_rows": ["new1", "new2"],
        "locations": locations,
        "location": location,
        "levels": await _on_hand(visit, variants.items, location),
        "default_levels": await _on_hand(visit, variants.items, DEFAULT_LOCATION),
        "reasons": _REASONS,
        "query": visit.query_string,
    }
    return View("stores/edit_product.html", context)


@pages.form("/stores/{handle}/products/{product_id:int}/edit", on=edit_product, in_shard=True)
async def change_product(visit: Visit, form: ProductForm) -> Redirect:
    product_id = visit.path_param("product_id")
    fields = fields_of(form, "/items/0/data") | {
        f"/stock/items/{n}": f"stocks[{each['variant_id']}]" for n, each in enumerate(stock_of(form, DEFAULT_LOCATION))
    }

    async def work(call: Call) -> Any:
        await load(call.db, call.store_id, ids=[product_id])  # locks the product
        before = await find_product(call.db, visit)
        # A sale is a new version too, but does not concern this form.
        if digest(before) != form.seen:
            raise VersionConflict
        data = body_of(form, before)
        _read_metadata(call, data)
        body = {"items": [{"op": "update", "id": product_id, "data": data}]}
        changed = await batch_products(call, convert(body, ProductBatch, digits=call.store.digits))
        if levels := stock_of(form, DEFAULT_LOCATION):
            await _set_stock(call, levels)
            changed.results[0].status = "updated"
        return changed

    change = Change("product.changed", f"product:{product_id}", fields, replaces=True)
    done = await carry_out(visit, form, change, work)
    return Redirect(_url(visit), "Saved." if done else REPEATED, "good" if done else "warn")


def _read_metadata(call: Call, body: dict[str, Any]) -> None:
    """Give the metadata of variants, which are texts in a form, the types of their definitions."""
    for variant in body.get("variants", ()):
        if "metadata" in variant:
            variant["metadata"] = call.store.definitions.read("variant", variant["metadata"])


async def _set_stock(call: Call, levels: list[dict[str, Any]]) -> None:
    try:
        body = {"items": levels, "reason": "correction"}
        await adjust_inventory(call, convert(body, Adjustments, digits=call.store.digits))
    except Refusal as refusal:
        for fault in refusal.faults:
            fault.pointer = f"/stock{fault.pointer}"
        raise


@pages.form("/stores/{handle}/products/{product_id:int}/metadata", on=edit_product, in_shard=True)
async def change_product_metadata(visit: Visit, form: MetadataForm) -> Redirect:
    product_id = visit.path_param("product_id")

    async def work(call: Call) -> Any:
        data = {"metadata": call.store.definitions.read("product", form.changes)}
        body = {"items": [{"op": "update", "id": product_id, "data": data}]}
        return await batch_products(call, convert(body, ProductBatch, digits=call.store.digits))

    change = await metadata_change(visit, form, "product", product_id, "/items/0/data/metadata")
    done = await carry_out(visit, form, change, work)
    return Redirect(_url(visit), "Saved." if done else REPEATED, "good" if done else "warn")


@pages.form("/stores/{handle}/products/{product_id:int}/stock", on=edit_product, in_shard=True)
async def change_stock(visit: Visit, form: StockForm) -> Redirect:
    product_id = visit.path_param("product_id")
    if not form.quantities:
        raise FormError(quantities="Enter a quantity.")
    of_product = {str(each.id) for each in (await find_product(visit.db, visit)).variants or []}
    if not form.quantities.keys() <= of_product:
        raise FormError(quantities="The variant was deleted, or belongs to another product. Reload the page.")
    items = [
        {
            "variant_id": whole(each),
            "op": form.op,
            "location": form.location,
            "quantity": whole(quantity),
            # A new level replaces the one that the page showed, not one that came in between.
            **({"compare_quantity": whole(form.on_hand.get(each, ""))} if form.op == "set" else {}),
        }
        for each, quantity in form.quantities.items()
    ]
    body = {"items": items, "reason": form.reason, **({"reference": form.reference} if form.reference else {})}
    fields = {f"/items/{n}": f"quantities[{each}]" for n, each in enumerate(form.quantities)}
    fields |= {f"/items/{n}/location": "location" for n in range(len(items))}
    fields |= {f"/items/{n}/op": "op" for n in range(len(items))}

    async def work(call: Call) -> Any:
        return await adjust_inventory(call, convert(body, Adjustments, digits=call.store.digits))

    fields |= {"/reason": "reason", "/reference": "reference"}
    detail = {"op": form.op, "location": form.location, "reason": form.reason, "variants": len(items)}
    done = await carry_out(visit, form, Change("stock.changed", f"product:{product_id}", fields, detail), work)
    return Redirect(_url(visit), "The stock was changed." if done else REPEATED, "good" if done else "warn")


async def _choices(visit: Visit) -> dict[str, Any]:
    """What the form of a product offers."""
    titles = msgspec.json.decode(await TITLES.one(visit.db, visit.store.id), type=dict[str, str])
    definitions = await definitions_for(visit)
    return {
        "definitions": definitions.of("product"),
        "required_of_variants": [each for each in definitions.of("variant") if each.requires_now()],
        "collections": titles if len(titles) <= MOST_COLLECTIONS else None,
        "longest_description": LONGEST_DESCRIPTION,
    }


async def _on_hand(visit: Visit, variants: Sequence[Variant], location: str) -> dict[int, int]:
    """The stock on hand of each variant at a location."""
    rows = await inventory.LEVELS_OF.all(visit.db, visit.store.id, [each.id for each in variants])
    levels = {row.variant_id: msgspec.json.decode(b"[%b]" % row.docs, type=list[LocationLevel]) for row in rows}
    return {id_: sum(each.on_hand for each in found if each.code == location) for id_, found in levels.items()}


def _url(visit: Visit) -> str:
    return f"{ROOT}/stores/{visit.store.handle}/products/{visit.path_param('product_id')}"
