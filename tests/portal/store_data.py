"""Creates a product, a customer, an order and an import with the same code as the API."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec

from stoa.access.operator import Operator
from stoa.access.queries import STORE_BY_HANDLE
from stoa.customers.bodies import NewAddress
from stoa.customers.endpoints import create_customer_address
from stoa.events.outbox import Cause
from stoa.imports.contract import Options
from stoa.imports.importable import Task
from stoa.imports.jobs import new_import_id, start_import
from stoa.imports.products import PRODUCTS
from stoa.inventory.locations import add_location
from stoa.orders.bodies import NewOrder
from stoa.orders.endpoints import create_order
from stoa.products.bodies import NewProduct
from stoa.products.collection_changes import Details, create_collection
from stoa.products.rules import new_product
from stoa.products.save import save
from stoa.rest.body import convert
from stoa.rest.call import Call, NamedOperator
from stoa.rest.headers import NDJSON
from tests.support.shops import PERSON, SHIRT

TILL = NamedOperator("Till")


async def create_store_data(by: Operator, handle: str) -> dict[str, Any]:
    """Create one of each in a store; return their path parameters."""
    store = await STORE_BY_HANDLE.one(by.db, handle)
    await add_location(by, handle, "cellar", "Cellar")
    await create_collection(by, handle, "summer", Details("Summer", rules=[("tag", "linen")]))
    shirt = new_product(convert(SHIRT, NewProduct, digits=store.digits), store)
    order = {
        "customer": {"email": PERSON["email"], "first_name": "Ada", "last_name": "Byron"},
        "line_items": [{"sku": "LS-S", "quantity": 2}],
        "shipping_address": {"first_name": "Ada", "address1": "1 Mill Lane", "city": "Ghent", "country_code": "BE"},
        "note": "Ring twice.",
    }
    async with by.db.transaction() as db:
        await save(db, store.id, [shirt], Cause(None, by.request_id))
        call = Call(db, store, TILL, by.request_id, "")
        created = await create_order(call, convert(order, NewOrder, digits=store.digits))
        placed = msgspec.json.decode(created.doc)
        address = convert(PERSON["addresses"][0], NewAddress, digits=store.digits)
        added = await create_customer_address(call, placed["customer_id"], address)
    task = Task(store, new_import_id(), None, by.request_id, Options())
    with tempfile.NamedTemporaryFile(suffix=".ndjson") as file:
        Path(file.name).write_bytes(b'{"sku":"LS-S","name":"Linen Shirt"}\n')
        async with by.db.transaction() as db:
            job = await start_import(db, task, PRODUCTS, Path(file.name), NDJSON)
    return {
        "product_id": shirt.id,
        "order_id": placed["id"],
        "action": "status",
        "customer_id": placed["customer_id"],
        "address_id": msgspec.json.decode(added.doc)["id"],
        "import_id": job.id,
        "location_code": "cellar",
        "collection": "summer",
    }
