"""The handlers of products."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from stoa.media.contract import MOST_BODY_BYTES
from stoa.products import queries, rules
from stoa.products.batch import change_products
from stoa.products.bodies import NewProduct, ProductBatch, ProductChanges
from stoa.products.contract import Product, SkuTaken
from stoa.products.examples import NEW_SHIRT, PRODUCT_BATCH, SHIRT_CHANGES
from stoa.products.pictures import take_pictures, take_pictures_of_batch
from stoa.products.queries import PRODUCTS
from stoa.products.save import load, store
from stoa.products.together import create_all, update_all
from stoa.products.workspace import ProductWorkspace
from stoa.rest.batch import Batch, BatchFailed, TooManyItems
from stoa.rest.call import Call
from stoa.rest.endpoint import Created, NoContent, One, Page, Routes
from stoa.rest.group_commit import only_outcome
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.problems import ExternalIdTaken, NotFound, VersionConflict

routes = Routes("Products")


@routes.get("/products", scope="products:read", lists=PRODUCTS)
async def list_products(call: Call, query: ListQuery) -> Page[Product]:
    """List products.

    Returns the products of the store, sorted by id by default. Filters combine with *and*. Follow `next_cursor` to read
    the whole catalog: each product that exists throughout appears exactly once, even while others write. To keep a copy
    in sync, poll with `updated_since` and `include_deleted=true`.
    """
    page = await list_page(call.db, call.store_id, queries.LISTING, query)
    if call.include and page.docs:
        page.docs = await _with_members(call, page.docs, page.ids, call.include)
    return page


@routes.post(
    "/products",
    scope="products:write",
    errors=[SkuTaken, ExternalIdTaken],
    example=NEW_SHIRT,
    grouped=create_all,
    before=take_pictures,
    body_bytes=MOST_BODY_BYTES,
)
async def create_product(call: Call, body: NewProduct) -> Created[Product]:
    """Create a product.

    Options and variants can be sent inline. Without variants, the product gets a default variant with the first value of
    each option, and `sku`, `barcode` and `stock` can be set on the product itself. Sending `stock` also requires
    `inventory:write`. Images are numbered from 1 in the order sent; `image_id` of a variant refers to these numbers.
    """
    return await only_outcome(call, create_all(call.db, [(call, body)]))


@routes.get("/products/{product_id}", scope="products:read", includes=PRODUCTS.includes)
async def get_product(call: Call, product_id: int) -> One[Product]:
    """Get one product with its variants."""
    document = await _document(call, product_id)
    if "inventory" in call.include:
        document.doc = (await _with_members(call, [document.doc], [product_id], {"inventory"}))[0]
    return document


@routes.patch(
    "/products/{product_id}",
    scope="products:write",
    errors=[SkuTaken, ExternalIdTaken],
    example=SHIRT_CHANGES,
    grouped=update_all,
    before=take_pictures,
    body_bytes=MOST_BODY_BYTES,
)
async def update_product(call: Call, product_id: int, body: ProductChanges) -> One[Product]:
    """Update a product by merge patch.

    Variants have their own endpoints, so that omitting them never deletes them.

    - When `options` change, the variants follow: a value stays with its option, even if the option at the same
      position is renamed, and a new option starts with its first value.
    - An option can be removed only if the variants still differ, and a value only if no variant uses it.
    """
    return await only_outcome(call, update_all(call.db, [(call, product_id, body)]))


@routes.delete("/products/{product_id}", scope="products:write")
async def delete_product(call: Call, product_id: int) -> NoContent:
    """Delete a product.

    Deletes the product with its variants and frees their SKUs. Orders keep their line items. Lists show a tombstone for
    90 days.
    """
    workspace = ProductWorkspace(await load(call.db, call.store_id, ids=[product_id]))
    product = workspace.find("id", product_id)
    if product is None:
        raise NotFound("There is no product with this id.")
    call.check_version(product.version)
    workspace.edit(product, rules.delete_product)
    await store(call, product)
    return NoContent()


@routes.post(
    "/products/batch",
    scope="products:write",
    errors=[SkuTaken, ExternalIdTaken, rules.DuplicateVariant, VersionConflict, BatchFailed, TooManyItems],
    example=PRODUCT_BATCH,
    before=take_pictures_of_batch,
    body_bytes=MOST_BODY_BYTES,
)
async def batch_products(call: Call, body: ProductBatch) -> Batch[Product]:
    """Create, update, upsert and delete up to 100 products.

    An item names its product by `id`, `sku` or `external_id`; several of them must belong to the same product.

    - `data` is a new product, or a merge patch that can include `variants`; sending `stock` also requires
      `inventory:write`. A SKU changes only in `variants`.
    - With `mode: independent` each item is applied by itself, and the status is 207 if any item failed.
    """
    return await change_products(call, body)


async def _document(call: Call, product_id: int) -> One[Product]:
    found = await queries.GET.maybe(call.db, call.store_id, product_id)
    if found is None:
        raise NotFound("There is no product with this id.")
    return One(found.doc, found.version)


async def _with_members(call: Call, docs: list[bytes], ids: Sequence[int], wanted: AbstractSet[str]) -> list[bytes]:
    """Add variants or stock levels to the documents of their products, with one statement for the whole page."""
    kinds = {"variants": queries.VARIANTS_OF, "inventory": queries.LEVELS_OF}
    for name in sorted(wanted):
        members = {row.product_id: row.docs for row in await kinds[name].all(call.db, call.store_id, ids)}
        # Every product has at least one variant; a document without any is a tombstone.
        docs = [
            b'%b,"%b":[%b]}' % (doc[:-1], name.encode(), members[product_id]) if product_id in members else doc
            for doc, product_id in zip(docs, ids, strict=True)
        ]
    return docs
