"""Fills a demo store from its catalogue, once."""

from importlib.resources import files

import msgspec

from stoa.access.operator import Operator
from stoa.access.queries import STORE_BY_HANDLE
from stoa.access.stores import create_store
from stoa.products.contract import NewProduct
from stoa.products.rules import new_product
from stoa.products.saving import Cause, save
from stoa.rest.body import convert, parse


class NewStore(msgspec.Struct):
    handle: str
    name: str
    currency: str


async def stock_up(operator: Operator, catalogue: str) -> None:
    """Open the catalogue's store and put its products in; a store that is there already is left as it is."""
    document = parse((files("stoa.demo") / catalogue).read_bytes())
    wanted = msgspec.convert(document["store"], NewStore)
    if await STORE_BY_HANDLE.maybe(operator.db, wanted.handle) is not None:
        return
    await create_store(operator, wanted.handle, wanted.name, wanted.currency)
    store = await STORE_BY_HANDLE.one(operator.db, wanted.handle)
    products = [convert(each, NewProduct, digits=store.digits) for each in document["products"]]
    async with operator.db.transaction() as db:
        cause = Cause(0, operator.request_id, reason="restock", reference="opening stock")
        await save(db, store.id, [new_product(product, store) for product in products], cause)
