"""What a store sells, to look at: products with their variants, and the ledger of their stock."""

import msgspec

from stoa.inventory import queries as inventory
from stoa.inventory.contract import LEDGER, LedgerEntry
from stoa.portal.answering import not_found
from stoa.portal.listed import NEWEST, Kind, part, shown
from stoa.portal.pages import Pages, View
from stoa.portal.visit import Visit
from stoa.products import queries
from stoa.products.contract import PRODUCTS, Product
from stoa.products.queries import GET

pages = Pages()
_SORTS = (("-id", "Newest first"), ("name", "By name"), ("price", "By price"), ("-updated_at", "Changed last"))
_PRODUCTS = Kind(PRODUCTS, queries.LISTING, Product)
_LEDGER = Kind(LEDGER, inventory.LEDGER, LedgerEntry)
_MOST_VARIANTS, _LATEST = 50, 8


@pages.page("/stores/{handle}/products", under="list_stores")
async def store_products(visit: Visit) -> View:
    listed = await shown(visit, _PRODUCTS, sorts=_SORTS, offered=("q", "status", "in_stock", "category", "tag"))
    return View("stores/products.html", {"listed": listed, "sorts": _SORTS})


@pages.page("/stores/{handle}/products/{product_id:int}", under="list_stores")
async def store_product(visit: Visit) -> View:
    product = await _product(visit)
    variants = product.variants or []
    ledger = await shown(visit, _LEDGER, sorts=NEWEST, always={"product_id": str(product.id)}, rows=_LATEST)
    context = {
        "product": product,
        "variants": part(visit, variants, "variants", _MOST_VARIANTS),
        "tracked": any(variant.track_inventory for variant in variants),
        "ledger": ledger,
    }
    return View("stores/product.html", context)


@pages.page("/stores/{handle}/products/{product_id:int}/ledger", under="list_stores")
async def store_ledger(visit: Visit) -> View:
    product = await _product(visit)
    ledger = await shown(visit, _LEDGER, sorts=NEWEST, always={"product_id": str(product.id)}, offered=("kind",))
    return View("stores/ledger.html", {"product": product, "ledger": ledger})


async def _product(visit: Visit) -> Product:
    found = await GET.maybe(visit.db, visit.store.id, visit.place("product_id"))
    if found is None:
        raise not_found()
    return msgspec.json.decode(found.doc, type=Product)
