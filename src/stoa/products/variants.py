"""The handlers of variants, under their product or across the catalog."""

import msgspec

from stoa.db.documents import exactly
from stoa.products import queries
from stoa.products.batch import change_variants
from stoa.products.bodies import VARIANT_ELSEWHERE, NewVariant, VariantBatch, VariantChanges
from stoa.products.contract import SkuTaken, Variant
from stoa.products.examples import NEW_VARIANT, VARIANT_BATCH, VARIANT_CHANGES
from stoa.products.queries import PRODUCT_VARIANTS, VARIANTS
from stoa.products.rows import Keys
from stoa.products.rules import DuplicateVariant, LastVariant, add_variant, change_variant, remove_variant
from stoa.products.save import load, store
from stoa.products.working_copy import ProductCopy, VariantCopy
from stoa.products.workspace import ProductWorkspace
from stoa.rest.batch import Batch, BatchFailed, TooManyItems
from stoa.rest.call import Call
from stoa.rest.endpoint import Created, NoContent, One, Page, Routes
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.patch import check_echoes
from stoa.rest.problems import ExternalIdTaken, NotFound, VersionConflict

routes = Routes("Products")
_TAKEN = [SkuTaken, ExternalIdTaken, DuplicateVariant]


@routes.get("/products/variants", scope="products:read", lists=VARIANTS)
async def list_variants(call: Call, query: ListQuery) -> Page[Variant]:
    """List variants of the whole catalog.

    Filter by `sku` or `barcode` to find a scanned item.
    """
    return await list_page(call.db, call.store_id, queries.VARIANT_LISTING, query)


@routes.patch(
    "/products/variants",
    scope="products:write",
    errors=[*_TAKEN, VersionConflict, BatchFailed, TooManyItems],
    example=VARIANT_BATCH,
)
async def update_variants(call: Call, body: VariantBatch) -> Batch[Variant]:
    """Update up to 250 variants of any products.

    Each item names its variant by `id` or `sku` and contains a merge patch. With `if_version`, it applies only to that
    version.
    """
    return await change_variants(call, body)


@routes.get("/products/{product_id}/variants", scope="products:read", lists=PRODUCT_VARIANTS)
async def list_product_variants(call: Call, product_id: int, query: ListQuery) -> Page[Variant]:
    """List the variants of one product."""
    if await queries.EXISTS.maybe(call.db, call.store_id, product_id) is None:
        raise NotFound("There is no product with this id.")
    return await list_page(
        call.db, call.store_id, queries.VARIANT_LISTING, query.with_filter("product_id", [product_id])
    )


@routes.post("/products/{product_id}/variants", scope="products:write", errors=_TAKEN, example=NEW_VARIANT)
async def create_variant(call: Call, product_id: int, body: NewVariant) -> Created[Variant]:
    """Add a variant to a product.

    `option_values` must have exactly the product's options. New values are appended to the options of the product.
    """
    workspace, product = await _product(call, product_id)
    call.check_version(product.version)

    def edit(tried: ProductCopy) -> bool:
        add_variant(tried, body, call.store)
        return True

    workspace.edit(product, edit)
    await store(call, product)
    variant_id = product.variants[-1].stored_id
    document = await _document(call, product_id, variant_id)
    return Created(document.doc, document.version, f"/products/{product_id}/variants/{variant_id}")


@routes.get("/products/{product_id}/variants/{variant_id}", scope="products:read")
async def get_variant(call: Call, product_id: int, variant_id: int) -> One[Variant]:
    """Get one variant."""
    return await _document(call, product_id, variant_id)


@routes.patch(
    "/products/{product_id}/variants/{variant_id}", scope="products:write", errors=_TAKEN, example=VARIANT_CHANGES
)
async def update_variant(call: Call, product_id: int, variant_id: int, body: VariantChanges) -> One[Variant]:
    """Update a variant by merge patch.

    Stock changes only by adjustments, so that the ledger has every movement.
    """
    workspace, product = await _product(call, product_id)
    variant = _live(product, variant_id)
    call.check_version(variant.version)
    if call.echoed:
        check_echoes(call, exactly((await _document(call, product_id, variant_id)).doc), VARIANT_ELSEWHERE)

    def edit(tried: ProductCopy) -> bool:
        return change_variant(tried, _live(tried, variant_id), body, call.patch, call.store)

    if workspace.edit(product, edit):
        await store(call, product)
    return await _document(call, product_id, variant_id)


@routes.delete("/products/{product_id}/variants/{variant_id}", scope="products:write", errors=[LastVariant])
async def delete_variant(call: Call, product_id: int, variant_id: int) -> NoContent:
    """Delete a variant. The last variant of a product cannot be deleted."""
    workspace, product = await _product(call, product_id)
    call.check_version(_live(product, variant_id).version)

    def edit(tried: ProductCopy) -> bool:
        remove_variant(tried, _live(tried, variant_id))
        return True

    workspace.edit(product, edit)
    await store(call, product)
    return NoContent()


async def _product(call: Call, product_id: int) -> tuple[ProductWorkspace, ProductCopy]:
    """A locked product, in a workspace with the products that have a key of the variant in the request."""
    keys = Keys()
    keys.add({"variants": [call.patch]})
    workspace = ProductWorkspace(await load(call.db, call.store_id, ids=[product_id], **msgspec.structs.asdict(keys)))
    product = workspace.find("id", product_id)
    if product is None:
        raise NotFound("There is no product with this id.")
    return workspace, product


def _live(product: ProductCopy, variant_id: int) -> VariantCopy:
    variant = product.variant(variant_id)
    if variant is None:
        raise NotFound("There is no variant with this id.")
    return variant


async def _document(call: Call, product_id: int, variant_id: int) -> One[Variant]:
    found = await queries.GET_VARIANT.maybe(call.db, call.store_id, product_id, variant_id)
    if found is None:
        raise NotFound("There is no variant with this id.")
    return One(found.doc, found.version)
