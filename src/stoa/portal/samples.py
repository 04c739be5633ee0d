"""A development store in one click: opened, filled with sample data, and the app let in, together or not at all."""

from stoa.access.contract import StoreRow
from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts.ownership import open_development_store
from stoa.demo.stock import fill

CATALOGUE, CURRENCY = "catalogue.json", "USD"


async def sample_store(by: Operator, account_id: int, *, name: str, app: str = "") -> StoreRow:
    async with by.together() as joined:
        store = await open_development_store(joined, account_id, name, CURRENCY)
        await fill(joined, store.handle, CATALOGUE)
        if app:
            await install(joined, app, store.handle)
    return store
