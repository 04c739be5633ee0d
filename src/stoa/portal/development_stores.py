"""Development stores: created, filled with sample data and installed with an app, in one transaction."""

from stoa.access.contract import StoreRow
from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts.ownership import open_development_store
from stoa.demo.stock import fill

_CATALOG, _CURRENCY = "catalog.json", "USD"


async def create_development_store(by: Operator, account_id: int, *, name: str, app: str = "") -> StoreRow:
    async with by.transaction() as joined:
        store = await open_development_store(joined, account_id, name, _CURRENCY)
        await fill(joined, store.handle, _CATALOG)
        if app:
            await install(joined, app, store.handle)
    return store
