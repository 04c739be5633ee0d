"""Creates products: those of concurrent requests in one statement."""

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from stoa.db.query import Executor
from stoa.products import queries
from stoa.products.bodies import NewProduct
from stoa.products.contract import Product
from stoa.products.rows import Keys, pointing_into
from stoa.products.rules import new_product
from stoa.products.save import cause_of, load, save, store
from stoa.products.working_copy import ProductCopy
from stoa.products.workspace import ProductWorkspace
from stoa.rest.call import Call
from stoa.rest.endpoint import Created
from stoa.rest.problems import Refusal

FIRST_VERSION = 1


async def create_all(db: Executor, calls: Sequence[tuple[Call, NewProduct]]) -> list[Created[Product] | Refusal | None]:
    """Create the products of several calls to one store, each as if it came after those before it.

    A product with a SKU or external id of an earlier one, and those after it, are None: they run again after the commit.
    """
    store_id = calls[0][0].store_id
    sought = Keys()
    together = list(takewhile(lambda each: _claim(sought, each[0]), calls))
    found = await load(db, store_id, **msgspec.structs.asdict(sought)) if sought else []
    workspace = ProductWorkspace(found)
    outcomes: dict[int, Created[Product] | Refusal] = {}
    new: dict[int, ProductCopy] = {}
    for number, (call, body) in enumerate(together):
        try:
            product = workspace.put(new_product(body, call.store), pointing_into(call.patch))
        except Refusal as refusal:
            outcomes[number] = refusal
        else:
            product.cause = cause_of(call)
            new[number] = product
    if len(calls) == 1 and new:
        call = calls[0][0]
        await store(call, new[0], pointing_into(call.patch))
    elif new:
        await save(db, store_id, list(new.values()), cause_of(calls[0][0]))
    ids = [product.stored_id for product in new.values()]
    documents = {row.id: row.doc for row in await queries.DOCUMENTS.all(db, store_id, ids)} if ids else {}
    for number, product in new.items():
        document = documents[product.stored_id].encode()
        outcomes[number] = Created(document, FIRST_VERSION, f"/products/{product.id}")
    return [outcomes.get(number) for number in range(len(calls))]


def _claim(sought: Keys, call: Call) -> bool:
    """Add the keys in a call to those that are sought, unless an earlier call has one of them."""
    own = Keys()
    own.add(call.patch)
    if sought.overlaps(own):
        return False
    sought.add(call.patch)
    return True
