"""Fills a demo store from its catalogue, once."""

from importlib.resources import files

import msgspec

from stoa.access.operator import Operator
from stoa.access.queries import STORE_BY_HANDLE
from stoa.access.stores import create_store
from stoa.db.query import Executor
from stoa.products import queries
from stoa.products.contract import NewProduct
from stoa.products.documents import rows_for
from stoa.rest.body import convert, parse
from stoa.rest.endpoint import Store


class NewStore(msgspec.Struct):
    handle: str
    name: str
    currency: str


async def stock_up(operator: Operator, catalogue: str) -> None:
    """Open the catalogue's store and put its products in; a store that is there already is left as it is."""
    database = operator.db
    document = parse((files("stoa.demo") / catalogue).read_bytes())
    wanted = msgspec.convert(document["store"], NewStore)
    if await STORE_BY_HANDLE.maybe(database, wanted.handle) is not None:
        return
    await create_store(operator, wanted.handle, wanted.name, wanted.currency)
    store = await STORE_BY_HANDLE.one(database, wanted.handle)
    products = [convert(each, NewProduct, digits=store.digits) for each in document["products"]]
    async with database.transaction() as db:
        for product in products:
            await insert_product(db, store, product)
        await queries.COUNT.run(db, store.id, len(products))


async def insert_product(db: Executor, store: Store, product: NewProduct) -> int:
    """Put one product and its variants into the transaction, and say its id."""
    row, variants = rows_for(product, store)
    product_id = await queries.INSERT.one(db, store.id, *msgspec.structs.astuple(row))
    for variant in variants:
        await queries.INSERT_VARIANT.one(db, store.id, product_id, *msgspec.structs.astuple(variant))
    return product_id
