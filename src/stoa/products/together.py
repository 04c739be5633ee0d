"""Creates and changes products: those of concurrent requests in one statement."""

from collections.abc import Callable, Collection, Sequence
from itertools import takewhile

import msgspec

from stoa.db.documents import exactly
from stoa.db.query import Executor
from stoa.products import queries
from stoa.products.bodies import PRODUCT_ELSEWHERE, NewProduct, ProductChanges
from stoa.products.contract import Product
from stoa.products.queries import Found
from stoa.products.rows import Keys, pointing_into
from stoa.products.rules import change_product, new_product
from stoa.products.save import cause_of, load, save, store
from stoa.products.working_copy import ProductCopy
from stoa.products.workspace import Pointing, ProductWorkspace, on_itself
from stoa.rest.call import Call
from stoa.rest.checks import together_with
from stoa.rest.endpoint import Created, One
from stoa.rest.patch import check_echoes
from stoa.rest.problems import NotFound, Refusal


async def create_all(db: Executor, calls: Sequence[tuple[Call, NewProduct]]) -> list[Created[Product] | Refusal | None]:
    """Create the products of several calls to one store, each as if it came after those before it.

    A product with a SKU or external id of an earlier one, and those after it, are None: they run again after the commit.
    """
    store_id = calls[0][0].store_id
    sought = Keys()
    together = list(takewhile(lambda each: _claim(sought, each[0]), calls))
    workspace = ProductWorkspace(await load(db, store_id, **msgspec.structs.asdict(sought)) if sought else [])
    refused: dict[int, Refusal] = {}
    new: dict[int, ProductCopy] = {}
    for number, (call, body) in enumerate(together):
        try:
            new[number] = workspace.put(new_product(body, call.store), pointing_into(call.patch))
        except Refusal as refusal:
            refused[number] = refusal
    await _store(db, [(calls[number][0], product) for number, product in new.items()], pointing_into(calls[0][0].patch))
    saved = await _documents(db, store_id, new.values())
    created = {
        number: Created[Product](found.doc.encode(), found.version, f"/products/{found.id}")
        for number, product in new.items()
        for found in [saved[product.stored_id]]
    }
    return [created.get(number) or refused.get(number) for number in range(len(calls))]


async def update_all(
    db: Executor, calls: Sequence[tuple[Call, int, ProductChanges]]
) -> list[One[Product] | Refusal | None]:
    """Change the products of several calls to one store, each as if it came after those before it.

    A second change of a product, and those after it, are None: they run again after the commit.
    """
    store_id = calls[0][0].store_id
    ids: set[int] = set()
    together = list(takewhile(lambda each: each[1] not in ids and not ids.add(each[1]), calls))
    wanted = {body.external_id for _, _, body in together if isinstance(body.external_id, str)}
    workspace = ProductWorkspace(await load(db, store_id, ids=ids, external_ids=wanted))
    refused: dict[int, Refusal] = {}
    kept: dict[int, ProductCopy] = {}
    changed: list[tuple[Call, ProductCopy]] = []
    for number, (call, product_id, body) in enumerate(together):
        try:
            product = workspace.find("id", product_id)
            if product is None:
                raise NotFound("There is no product with this id.")
            call.check_version(product.version)
            if call.echoed:
                await _check_echoes(db, call, product, body)
            if workspace.edit(product, _change(call, body)):
                changed.append((call, product))
            kept[number] = product
        except Refusal as refusal:
            refused[number] = refusal
    await _store(db, changed)
    saved = await _documents(db, store_id, kept.values())
    updated = {
        number: One[Product](found.doc.encode(), found.version)
        for number, product in kept.items()
        for found in [saved[product.stored_id]]
    }
    return [updated.get(number) or refused.get(number) for number in range(len(calls))]


def _change(call: Call, body: ProductChanges) -> Callable[[ProductCopy], bool]:
    return lambda product: change_product(product, body, call.patch, call.store)


async def _check_echoes(db: Executor, call: Call, product: ProductCopy, body: ProductChanges) -> None:
    """Refuse other values of read-only fields, together with the faults of the change."""
    document = (await _documents(db, call.store_id, [product]))[product.stored_id].doc
    check_echoes(call, exactly(document.encode()), PRODUCT_ELSEWHERE)
    if call.faults:
        with together_with(call.faults):
            _change(call, body)(product.copy())


async def _store(db: Executor, products: Sequence[tuple[Call, ProductCopy]], at: Pointing = on_itself) -> None:
    """Save products with the request of each. The refusal of a single one names the product that took its key."""
    if len(products) == 1:
        [(call, product)] = products
        await store(call, product, at)
    elif products:
        for call, product in products:
            product.cause = cause_of(call)
        first = products[0][0]
        await save(db, first.store_id, [product for _, product in products], cause_of(first))


async def _documents(db: Executor, store_id: int, products: Collection[ProductCopy]) -> dict[int, Found]:
    ids = [product.stored_id for product in products]
    return {row.id: row for row in await queries.DOCUMENTS.all(db, store_id, ids)} if ids else {}


def _claim(sought: Keys, call: Call) -> bool:
    """Add the keys in a call to those that are sought, unless an earlier call has one of them."""
    own = Keys()
    own.add(call.patch)
    if sought.overlaps(own):
        return False
    sought.add(call.patch)
    return True
