"""The forms that change a product's prices, status and stock, through the API's own endpoints."""

import hashlib
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
from stoa.portal.stores.metadata_forms import MetadataForm, definitions_for
from stoa.portal.stores.order_forms import Line
from stoa.portal.stores.products import find_product, pages
from stoa.portal.stores.writes import REPEATED, Change, carry_out, whole
from stoa.products.bodies import ProductBatch
from stoa.products.contract import Product, Variant
from stoa.products.endpoints import batch_products
from stoa.products.save import load
from stoa.products.stock_locations import DEFAULT_LOCATION
from stoa.rest.body import convert
from stoa.rest.call import Call
from stoa.rest.problems import VersionConflict

_VARIANTS_PER_PAGE = 20
# The reasons that a person has; the others belong to orders and programs.
_REASONS = tuple(reason for reason in get_args(Reason) if reason not in ("order", "sync"))


class ProductForm(OnceForm):
    """Prices and status; a variant without a price has that of the product."""

    seen: Line = ""
    price: Line = ""
    status: Line = ""
    variants: list[str] = msgspec.field(default_factory=list[str])  # those that the form shows
    prices: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class StockForm(OnceForm):
    """New levels, or differences, of variants at one location; `on_hand` is what the page showed."""

    op: Line = "set"
    location: Line = DEFAULT_LOCATION
    quantities: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    on_hand: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    reason: Line = "correction"
    reference: Line = ""


@pages.page("/stores/{handle}/products/{product_id:int}/edit", nav="list_stores", right=Right.CHANGE)
async def edit_product(visit: Visit) -> View:
    product = await find_product(visit.db, visit)
    locations = [each for each in await inventory.LOCATIONS.all(visit.db, visit.store.id) if each.active]
    code = visit.query("location")
    location = code if code in [each.code for each in locations] else DEFAULT_LOCATION
    variants = paginate(visit, product.variants or [], "variants", _VARIANTS_PER_PAGE)
    context: dict[str, Any] = {
        "product": product,
        "definitions": (await definitions_for(visit)).of("product"),
        "seen": _digest(product),
        "variants": variants,
        "own_prices": variants.total > 1 or any(each.price is not None for each in variants.items),
        "locations": locations,
        "location": location,
        "levels": await _on_hand(visit, variants.items, location),
        "reasons": _REASONS,
        "query": visit.query_string,
    }
    return View("stores/edit_product.html", context)


@pages.form("/stores/{handle}/products/{product_id:int}/edit", on=edit_product, in_shard=True)
async def change_product(visit: Visit, form: ProductForm) -> Redirect:
    product_id = visit.path_param("product_id")
    variants = [{"id": whole(each), "price": form.prices.get(each)} for each in dict.fromkeys(form.variants)]
    data = {"price": form.price, "status": form.status, **({"variants": variants} if variants else {})}
    body = {"items": [{"op": "update", "id": product_id, "data": data}]}
    fields = {f"/items/0/data/variants/{n}": f"prices[{each['id']}]" for n, each in enumerate(variants)}
    fields |= {"/items/0/data/price": "price", "/items/0/data/status": "status"}

    async def work(call: Call) -> Any:
        await load(call.db, call.store_id, ids=[product_id])  # locks the product
        # A sale is a new version too, but does not concern this form.
        if _digest(await find_product(call.db, visit)) != form.seen:
            raise VersionConflict
        return await batch_products(call, convert(body, ProductBatch, digits=call.store.digits))

    detail = {"price": form.price, "status": form.status}
    done = await carry_out(visit, form, Change("product.changed", f"product:{product_id}", fields, detail), work)
    return Redirect(_url(visit), "Saved." if done else REPEATED, "good" if done else "warn")


@pages.form("/stores/{handle}/products/{product_id:int}/metadata", on=edit_product, in_shard=True)
async def change_product_metadata(visit: Visit, form: MetadataForm) -> Redirect:
    product_id = visit.path_param("product_id")

    async def work(call: Call) -> Any:
        data = {"metadata": call.store.definitions.read("product", form.changes)}
        body = {"items": [{"op": "update", "id": product_id, "data": data}]}
        return await batch_products(call, convert(body, ProductBatch, digits=call.store.digits))

    change = Change(
        "product.changed", f"product:{product_id}", form.fields("/items/0/data/metadata"), {"metadata": form.shown}
    )
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


def _digest(product: Product) -> str:
    """Identifies what the form of prices and status showed."""
    shown = (product.price, product.status, [(each.id, each.price) for each in product.variants or []])
    return hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:16]


async def _on_hand(visit: Visit, variants: Sequence[Variant], location: str) -> dict[int, int]:
    """The stock on hand of each variant at a location."""
    rows = await inventory.LEVELS_OF.all(visit.db, visit.store.id, [each.id for each in variants])
    levels = {row.variant_id: msgspec.json.decode(b"[%b]" % row.docs, type=list[LocationLevel]) for row in rows}
    return {id_: sum(each.on_hand for each in found if each.code == location) for id_, found in levels.items()}


def _url(visit: Visit) -> str:
    return f"{ROOT}/stores/{visit.store.handle}/products/{visit.path_param('product_id')}"
