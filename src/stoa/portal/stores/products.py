"""Product pages: the list, one product with its variants, and its stock ledger."""

from collections.abc import Iterable

import msgspec
from starlette.responses import StreamingResponse

from stoa.db.query import Executor
from stoa.inventory import queries as inventory
from stoa.inventory.contract import LEDGER, LedgerEntry, LocationLevel
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.list_view import NEWEST, ListSource, list_view, paginate
from stoa.portal.kit.pages import Pages, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.exports import PRODUCT_COLUMNS, Export, export_list
from stoa.portal.stores.metadata_forms import definitions_for
from stoa.portal.stores.queries import PICTURES
from stoa.products import queries
from stoa.products.contract import Product
from stoa.products.queries import GET, PRODUCTS

pages = Pages()
_SORTS = (("-id", "Newest first"), ("name", "Name"), ("price", "Price"), ("-updated_at", "Last updated"))
PRODUCT_LIST = ListSource(PRODUCTS, queries.LISTING, Product)
_LEDGER = ListSource(LEDGER, inventory.LEDGER, LedgerEntry)
_FILTERS = ("status", "in_stock", "category", "tag", "collection", "ids")
_LONGEST_SKU = 100
_VARIANTS_PER_PAGE, _RECENT_MOVEMENTS = 50, 8


@pages.page("/stores/{handle}/products", nav="list_stores")
async def store_products(visit: Visit) -> View:
    products = await list_view(visit, PRODUCT_LIST, sorts=_SORTS, offered=("q", *_FILTERS))
    if not visit.query("cursor") and products.sort == _SORTS[0][0]:
        exact = await _with_sku(visit, products.filters.get("q", ""))
        ids = {each.id for each in exact}
        products.rows = [*exact, *(each for each in products.rows if each.id not in ids)]
    return View("stores/products.html", {"products": products, "sorts": _SORTS, "query": visit.query_string})


@pages.form("/stores/{handle}/products/export", on=store_products, in_shard=True, while_closed=True)
async def export_products(visit: Visit) -> StreamingResponse:
    return await export_list(visit, Export("products", PRODUCT_LIST, _SORTS, ("q", *_FILTERS), PRODUCT_COLUMNS))


async def _with_sku(visit: Visit, sku: str) -> list[Product]:
    """The products with exactly this SKU, as typed or in capitals; a search shows them first, however old they are."""
    if not sku or len(sku) > _LONGEST_SKU or "," in sku:
        return []
    either = ",".join(dict.fromkeys((sku, sku.upper())))
    return (await list_view(visit, PRODUCT_LIST, sorts=_SORTS, offered=_FILTERS, fixed={"sku": either})).rows


@pages.page("/stores/{handle}/products/{product_id:int}", nav="list_stores")
async def store_product(visit: Visit) -> View:
    product = await find_product(visit.db, visit)
    of_product = {"product_id": str(product.id)}
    variants = paginate(visit, product.variants or [], "variants", _VARIANTS_PER_PAGE)
    levels = await levels_of(visit, [variant.id for variant in variants.items])
    context = {
        "product": product,
        "definitions": (await definitions_for(visit)).of("product"),
        "levels": {variant: found for variant, found in levels.items() if len(found) > 1},
        "variants": variants,
        "ledger": await list_view(visit, _LEDGER, sorts=NEWEST, fixed=of_product, rows=_RECENT_MOVEMENTS),
    }
    return View("stores/product.html", context)


@pages.page("/stores/{handle}/products/{product_id:int}/ledger", nav="list_stores")
async def store_ledger(visit: Visit) -> View:
    product = await find_product(visit.db, visit)
    of_product = {"product_id": str(product.id)}
    ledger = await list_view(visit, _LEDGER, sorts=NEWEST, fixed=of_product, offered=("kind",))
    return View("stores/ledger.html", {"product": product, "ledger": ledger})


async def levels_of(visit: Visit, variant_ids: list[int]) -> dict[int, list[LocationLevel]]:
    """The levels of each variant at the locations that hold units of it, and at the default one."""
    rows = await inventory.LEVELS_OF.all(visit.db, visit.store.id, variant_ids)
    return {row.variant_id: msgspec.json.decode(b"[%b]" % row.docs, type=list[LocationLevel]) for row in rows}


async def pictures_of(visit: Visit, variant_ids: Iterable[int | None]) -> dict[int, str | None]:
    """The addresses of the pictures of variants, by their ids."""
    wanted = {each for each in variant_ids if each is not None}
    found = await PICTURES.all(visit.db, visit.store.id, list(wanted)) if wanted else []
    return {each.variant_id: each.url for each in found}


async def find_product(db: Executor, visit: Visit) -> Product:
    """The product in the path."""
    found = await GET.maybe(db, visit.store.id, visit.path_param("product_id"))
    if found is None:
        raise not_found()
    return msgspec.json.decode(found.doc, type=Product)
