"""What happens when products are asked for."""

from collections.abc import Sequence

from stoa.products import queries
from stoa.products.contract import PRODUCTS, Product
from stoa.rest.endpoint import Call, One, Page, Routes
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.problems import NotFound

routes = Routes("Products")


@routes.get("/products", scope="products:read", lists=PRODUCTS)
async def list_products(call: Call, query: ListQuery) -> Page[Product]:
    """List products.

    The catalogue of the store, by id unless sorted otherwise. Filters combine with *and*. Follow `next_cursor` to
    walk through everything: each product that exists throughout is seen exactly once, whatever others write meanwhile.
    To keep a copy in step, ask for `updated_since` with `include_deleted=true`.
    """
    page = await list_page(call.db, call.store_id, queries.LISTING, query)
    if call.include and page.docs:
        page.docs = await _with_members(call, page.docs, page.ids)
    return page


@routes.get("/products/{product_id}", scope="products:read", includes=("inventory",))
async def get_product(call: Call, product_id: int) -> One[Product]:
    """Get one product with its variants."""
    found = await queries.GET.maybe(call.db, call.store_id, product_id)
    if found is None:
        raise NotFound("There is no product with this id.")
    if "inventory" in call.include:
        found.doc = (await _with_members(call, [found.doc], [product_id]))[0]
    return One(found.doc, found.version)


async def _with_members(call: Call, docs: list[str], ids: Sequence[int]) -> list[str]:
    """Put variants or stock levels into their products' documents, one statement for the whole page."""
    kinds = {"variants": queries.VARIANTS_OF, "inventory": queries.LEVELS_OF}
    for name in sorted(call.include & kinds.keys()):
        members = {row.product_id: row.docs for row in await kinds[name].all(call.db, call.store_id, ids)}
        # A live product has at least one variant: what has none here is a tombstone and stays as it is.
        docs = [
            f'{doc[:-1]},"{name}":[{members[product_id]}]}}' if product_id in members else doc
            for doc, product_id in zip(docs, ids, strict=True)
        ]
    return docs
