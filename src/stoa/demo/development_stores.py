"""Development stores: created and reset with sample data, each in one transaction, and deleted without a delay."""

from stoa.access.closures import delete_store
from stoa.access.contract import AccessRefused, StoreRow
from stoa.access.grants import install
from stoa.access.operator import Operator, find_store
from stoa.accounts.contract import OwnedStore
from stoa.accounts.ownership import development_handle, open_development_store, owned_store
from stoa.accounts.queries import LOCK_ACCOUNT, REMOVE_STORE_ROLES
from stoa.db.errors import LOCK_TIMEOUT, Unavailable, sqlstate
from stoa.demo.past import Past
from stoa.demo.stock import fill
from stoa.store_data.store_erasure import CONTENT, delete_rows

MAX_RESET_ROWS = 50_000
_TRIES = 5
_CATALOG, _CURRENCY = "catalog.json", "USD"


class StoreTooLarge(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the store is too large to reset; delete it, and create another one")


async def create_development_store(
    by: Operator, account_id: int, *, name: str, app: str = "", key: str = ""
) -> StoreRow:
    """Create a store with sample data; a form that is submitted twice has the same key, and creates one store.

    Filling a store can take longer than a statement may wait for a lock, so the second submission waits several times.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            return await _create(by, account_id, name, app, key)
        except Unavailable as error:
            if not tries_left or sqlstate(error.__cause__ or error) != LOCK_TIMEOUT:
                raise
    raise AssertionError("unreachable")


async def _create(by: Operator, account_id: int, name: str, app: str, key: str) -> StoreRow:
    handle = development_handle(account_id, key)
    async with by.transaction() as joined:
        await LOCK_ACCOUNT.one(joined.db, account_id)
        if await owned_store(joined.db, account_id, handle) is not None:
            return await find_store(joined.db, handle)
        store = await open_development_store(joined, account_id, name, _CURRENCY, handle=handle)
        await fill(joined, store.handle, _CATALOG, Past())
        if app:
            await install(joined, app, store.handle)
    return store


async def reset_development_store(by: Operator, store: OwnedStore) -> None:
    """Replace the content of a store by the sample data; apps, subscriptions and locations stay."""
    async with by.transaction() as joined:
        if await delete_rows(joined.db, store.id, MAX_RESET_ROWS, CONTENT) >= MAX_RESET_ROWS:
            raise StoreTooLarge
        await fill(joined, store.handle, _CATALOG, Past())
        await joined.record(joined.db, store.id, "store.reset", f"store:{store.handle}")


async def delete_development_store(by: Operator, store: OwnedStore) -> None:
    """End everybody's access to a store, and let maintenance erase it now."""
    async with by.transaction() as joined:
        await delete_store(joined, store.handle, days=0)
        await REMOVE_STORE_ROLES.run(joined.db, store.id)
