"""Loads working copies of products under lock, and saves them with ledger entries and events in one call."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from stoa.db.errors import PostgresError, violates
from stoa.db.query import Executor, InputRow, json_rows
from stoa.events.outbox import Cause
from stoa.media.queries import QUEUE_FETCHES
from stoa.products import queries
from stoa.products.bodies import ProductFields, VariantFields
from stoa.products.collections import have_rules, memberships
from stoa.products.contract import SkuTaken
from stoa.products.documents import members_of, split
from stoa.products.images import pending_images
from stoa.products.input_rows import Booking, Prepared, Rows, rows_of
from stoa.products.rows import Keys
from stoa.products.working_copy import ProductCopy, VariantCopy
from stoa.products.workspace import Pointing, ProductWorkspace, on_itself
from stoa.rest.call import Call
from stoa.rest.problems import ExternalIdTaken


class SlugRow(InputRow):
    """A slug that a name suggests, and the product that may already have it."""

    arguments = ("free_slugs.in_slugs",)

    slug: str
    product_id: int | None


_BY_EDIT = Booking()
# Stores whose collections have rules, as this process saw last. A wrong guess costs a statement and nothing else.
_ruled: set[int] = set()
_MOST_RULED = 100_000


async def load(
    db: Executor,
    store_id: int,
    *,
    ids: Iterable[int] = (),
    skus: Iterable[str] = (),
    external_ids: Iterable[str] = (),
    variant_external_ids: Collection[str] = (),
    lock: bool = True,
) -> list[ProductCopy]:
    """Working copies of all products with these keys, locked in the order of their ids if `lock`."""
    wanted = [*ids]
    if variant_external_ids:
        wanted += await queries.PRODUCTS_OF_EXTERNAL_IDS.all(db, store_id, list(variant_external_ids))
    rows = await (queries.LOCK if lock else queries.READ).all(db, store_id, wanted, list(external_ids), list(skus))
    if not rows:
        return []
    products = {row.id: product_copy(row) for row in rows}
    for row in await queries.VARIANTS_TO_CHANGE.all(db, store_id, list(products)):
        products[row.product_id].variants.append(variant_copy(row))
    return list(products.values())


def product_copy(row: queries.StoredProduct) -> ProductCopy:
    fields, unknown = split(ProductFields, row.head)
    return ProductCopy(row.id, fields, [], row.version, before=fields, unknown=unknown)


def variant_copy(row: queries.StoredVariant) -> VariantCopy:
    fields, unknown = split(VariantFields, row.head)
    return VariantCopy(
        row.id,
        fields,
        row.on_hand,
        row.reserved,
        row.version,
        before=fields,
        unknown=unknown,
        on_hand_before=row.on_hand,
        other_on_hand=row.other_on_hand,
        other_reserved=row.other_reserved,
    )


def cause_of(call: Call) -> Cause:
    return Cause(call.app_id, call.request_id, call.person_id)


async def store(call: Call, product: ProductCopy, at: Pointing = on_itself) -> None:
    """Save one product. If another product took one of its keys since it was loaded, the refusal names that product."""
    try:
        await save(call.db, call.store_id, [product], cause_of(call))
    except (SkuTaken, ExternalIdTaken):
        keys = Keys()
        keys.add({**members_of(product.fields), "variants": [members_of(variant.fields) for variant in product.live]})
        # Uses another connection, because this transaction is rolled back.
        others = await load(call.autocommit, call.store_id, **msgspec.structs.asdict(keys), lock=False)
        ProductWorkspace(other for other in others if other.id != product.id).check(product, at)
        raise


async def save(
    db: Executor,
    store_id: int,
    products: Sequence[ProductCopy],
    cause: Cause,
    booking: Booking = _BY_EDIT,
    *,
    events: bool = True,
) -> None:
    """Store every touched copy with its movements, and its events unless they are not wanted; set the ids of new copies."""
    await save_prepared(db, store_id, prepare(store_id, products, booking, events=events), cause)


def prepare(store_id: int, products: Sequence[ProductCopy], booking: Booking, *, events: bool) -> Prepared:
    """What `save_prepared` saves. It needs no database, and can be built while that is busy."""
    touched = [product for product in products if product.touched]
    unruled = store_id not in _ruled and not any(product.fields.collections for product in touched)
    prepared = Prepared(touched, booking, events)
    if unruled:
        prepared.rows = rows_of(prepared, store_id, unruled=True)
    return prepared


async def save_prepared(db: Executor, store_id: int, prepared: Prepared, cause: Cause) -> None:
    """Save what `prepare` built from the copies, which have not been edited since."""
    touched = prepared.products
    if not touched:
        return
    if await _make_slugs_unique(db, store_id, touched) and prepared.rows is not None:
        prepared.rows = rows_of(prepared, store_id, unruled=True)
    if prepared.rows is None or not await _store_rows(db, store_id, touched, prepared.rows, cause):
        await settle_collections(db, store_id, touched)
        await _store_rows(db, store_id, touched, rows_of(prepared, store_id, unruled=False), cause)
    await _queue_fetches(db, store_id, touched, silent=not prepared.events)


async def _store_rows(db: Executor, store_id: int, touched: Sequence[ProductCopy], rows: Rows, cause: Cause) -> bool:
    """Store the copies; False if nothing was stored, because rules were not read and the store has some."""
    try:
        saved = await queries.SAVE.one(
            db,
            store_id,
            cause.actor_json,
            cause.request_id,
            rows.products,
            rows.variants,
            rows.movements,
            rows.events,
        )
    except PostgresError as error:
        # Another request took the key after the copies were loaded.
        if violates(error, "variants_sku_key"):
            raise SkuTaken("Another variant has one of these SKUs.") from error
        if violates(error, "products_external_id_key") or violates(error, "variants_external_id_key"):
            raise ExternalIdTaken("Another resource has one of these external ids.") from error
        raise
    if saved.product_ids is None or saved.variant_ids is None:
        return False
    for product, product_id in zip(touched, saved.product_ids, strict=True):
        product.id = product_id
    for variant, variant_id in zip(rows.changed, saved.variant_ids, strict=True):
        variant.id = variant_id
    return True


async def _queue_fetches(db: Executor, store_id: int, products: Sequence[ProductCopy], *, silent: bool) -> None:
    """Let the background worker fetch the new images that have a source URL."""
    waiting = [
        (product.stored_id, image_id, source_url)
        for product in products
        if not product.deleted
        for image_id, source_url in pending_images(
            product.before.images if product.before else (), product.fields.images
        )
    ]
    if waiting:
        await QUEUE_FETCHES.run(db, store_id, *map(list, zip(*waiting, strict=True)), silent)


async def _make_slugs_unique(db: Executor, store_id: int, products: Sequence[ProductCopy]) -> bool:
    """Give products whose slug comes from their name one that no other product of the store has; whether any changed."""
    derived = [product for product in products if product.derives_slug]
    if not derived:
        return False
    wanted = [SlugRow(product.fields.slug, product.id) for product in derived]
    free = await queries.FREE_SLUGS.one(db, store_id, json_rows(wanted))
    for product, slug in zip(derived, free, strict=True):
        product.set_fields(slug=slug)
        product.derives_slug = False
    return free != [row.slug for row in wanted]


async def settle_collections(db: Executor, store_id: int, products: Iterable[ProductCopy]) -> None:
    """Apply the rules of the store's collections to copies that changed, and refuse collections that do not exist."""
    stored = await queries.COLLECTIONS_IN_FORCE.one(db, store_id)
    _ruled.discard(store_id)
    if have_rules(stored) and len(_ruled) < _MOST_RULED:
        _ruled.add(store_id)
    for product in products:
        if product.touched and not product.deleted:
            before = [each["handle"] for each in product.before.collections] if product.before else []
            product.set_fields(collections=memberships(product.fields, stored, before))
