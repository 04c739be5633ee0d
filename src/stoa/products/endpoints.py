"""What happens when products are asked for and changed."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from stoa.products import queries, rules
from stoa.products.batch import change_products
from stoa.products.contract import (
    PRODUCTS,
    ExternalIdTaken,
    NewProduct,
    Product,
    ProductBatch,
    ProductChanges,
    SkuTaken,
)
from stoa.products.copies import ProductCopy
from stoa.products.examples import NEW_SHIRT, PRODUCT_BATCH, SHIRT_CHANGES
from stoa.products.rules import change_product, new_product
from stoa.products.saving import Cause, load, save
from stoa.products.shelf import Shelf
from stoa.rest.batch import Batch, BatchFailed, TooManyItems
from stoa.rest.endpoint import Call, Created, NoContent, One, Page, Routes
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.patch import check_echoes
from stoa.rest.problems import NotFound, VersionConflict

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


@routes.post("/products", scope="products:write", errors=[SkuTaken, ExternalIdTaken], example=NEW_SHIRT)
async def create_product(call: Call, body: NewProduct) -> Created[Product]:
    """Create a product.

    Options and variants may stand inline; without variants the product gets one, and `sku`, `barcode` and `stock` may
    stand on the product itself.
    """
    product = new_product(body, call.store)
    shelf = await shelf_with(call, [product])
    shelf.put(product)
    await save(call.db, call.store_id, [product], cause_of(call))
    document = await queries.GET.one(call.db, call.store_id, product.id)
    return Created(document.doc, document.version, f"/products/{product.id}")


@routes.get("/products/{product_id}", scope="products:read", includes=("inventory",))
async def get_product(call: Call, product_id: int) -> One[Product]:
    """Get one product with its variants."""
    document = await _document(call, product_id)
    if "inventory" in call.include:
        document.doc = (await _with_members(call, [document.doc], [product_id]))[0]
    return document


@routes.patch(
    "/products/{product_id}", scope="products:write", errors=[SkuTaken, ExternalIdTaken], example=SHIRT_CHANGES
)
async def update_product(call: Call, product_id: int, body: ProductChanges) -> One[Product]:
    """Change a product's own fields by merge patch.

    Variants are changed at their own addresses, so that nothing is wiped by leaving it out.
    """
    wanted = [body.external_id] if isinstance(body.external_id, str) else []
    await change(
        call,
        product_id,
        lambda product: change_product(product, body, call.patch, call.store),
        external_ids=wanted,
    )
    return await _document(call, product_id)


@routes.delete("/products/{product_id}", scope="products:write")
async def delete_product(call: Call, product_id: int) -> NoContent:
    """Delete a product.

    Its variants go with it and their SKUs are free again; orders keep what they recorded. A tombstone stays for 90 days.
    """

    def gone(product: ProductCopy) -> bool:
        rules.delete_product(product)
        return True

    await change(call, product_id, gone)
    return NoContent()


@routes.post(
    "/products/batch",
    scope="products:write",
    errors=[SkuTaken, ExternalIdTaken, rules.DuplicateVariant, VersionConflict, BatchFailed, TooManyItems],
    example=PRODUCT_BATCH,
)
async def batch_products(call: Call, body: ProductBatch) -> Batch[Product]:
    """Create, update, upsert and delete up to 100 products.

    An item names its product by `id`, `sku` or `external_id`; `data` is a product as it is created, or a merge patch
    that may also carry `variants`. With `mode: independent` each item stands for itself and 207 tells that some failed.
    """
    return await change_products(call, body)


async def change(
    call: Call,
    product_id: int,
    edit: Callable[[ProductCopy], bool],
    *,
    skus: Iterable[str] = (),
    external_ids: Iterable[str] = (),
) -> ProductCopy:
    """Lock a product, check the version that the caller knows, edit it, and store it if anything changed."""
    shelf = Shelf(await load(call.db, call.store_id, ids=[product_id], skus=skus, external_ids=external_ids))
    product = shelf.find("id", product_id)
    if product is None:
        raise NotFound("There is no product with this id.")
    call.check_version(product.version)
    if call.echoed:
        check_echoes(call, msgspec.json.decode((await _document(call, product_id)).doc))
    if shelf.edit(product, edit):
        await save(call.db, call.store_id, [product], cause_of(call))
    return product


async def shelf_with(call: Call, products: Sequence[ProductCopy]) -> Shelf:
    """A shelf that holds whatever stands in the way of these new products' SKUs and external ids."""
    skus = [v.fields["sku"] for p in products for v in p.live if v.fields["sku"]]
    external_ids = [p.fields["external_id"] for p in products if p.fields["external_id"]]
    return Shelf(
        await load(call.db, call.store_id, skus=skus, external_ids=external_ids) if skus or external_ids else []
    )


def cause_of(call: Call) -> Cause:
    return Cause(call.caller.app_id, call.request_id)


async def _document(call: Call, product_id: int) -> One[Product]:
    found = await queries.GET.maybe(call.db, call.store_id, product_id)
    if found is None:
        raise NotFound("There is no product with this id.")
    return One(found.doc, found.version)


async def _with_members(call: Call, docs: list[bytes], ids: Sequence[int]) -> list[bytes]:
    """Put variants or stock levels into their products' documents, one statement for the whole page."""
    kinds = {"variants": queries.VARIANTS_OF, "inventory": queries.LEVELS_OF}
    for name in sorted(call.include & kinds.keys()):
        members = {row.product_id: row.docs for row in await kinds[name].all(call.db, call.store_id, ids)}
        # A live product has at least one variant: what has none here is a tombstone and stays as it is.
        docs = [
            b'%b,"%b":[%b]}' % (doc[:-1], name.encode(), members[product_id]) if product_id in members else doc
            for doc, product_id in zip(docs, ids, strict=True)
        ]
    return docs
