"""Development stores: created and reset with sample data, each in one transaction, and deleted without a delay.

A store in a shard is created in the directory, and a message that is committed with it brings its sample data.
"""

from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

import msgspec

from stoa.access.closures import delete_store
from stoa.access.contract import AccessRefused, AppDeleted, NoSuchApp, StoreRow
from stoa.access.grants import install
from stoa.access.operator import Joined, Operator, known_store
from stoa.access.stores import choose_shard, receive_in_shard
from stoa.accounts.contract import OwnedStore
from stoa.accounts.ownership import development_handle, open_development_store, owned_store
from stoa.accounts.queries import LOCK_ACCOUNT, REMOVE_STORE_ROLES
from stoa.db.connection import Connection
from stoa.db.errors import LOCK_TIMEOUT, Unavailable, sqlstate
from stoa.db.shard_outbox import send_to_store
from stoa.demo.backdating import FOUND_STORE
from stoa.demo.past import Past
from stoa.demo.stock import define_samples, fill
from stoa.demo.story import OPENED
from stoa.settings import Settings
from stoa.store_data.store_erasure import CONTENT, delete_rows

MAX_RESET_ROWS = 50_000
_TRIES = 5
_CATALOG, _CURRENCY = "catalog.json", "USD"
SAMPLES = "store.samples"  # the message that fills a development store in a shard


class Samples(msgspec.Struct):
    """A new development store, who creates it, and the app that it gets, if any."""

    handle: str
    actor: str
    request_id: str
    app: str


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
    handle, shard = development_handle(account_id, key), (await choose_shard(by)).shard
    async with by.transaction() as joined:
        await LOCK_ACCOUNT.one(joined.db, account_id)
        if await owned_store(joined.db, account_id, handle) is not None:
            store = await known_store(joined.db, handle)
        else:
            store = await open_development_store(joined, account_id, name, _CURRENCY, handle=handle, shard=shard)
            await FOUND_STORE.run(joined.db, store.id, datetime.now(UTC) - OPENED)
            await define_samples(joined, store.handle, _CATALOG)
            if store.shard:
                await send_to_store(joined.db, store.id, SAMPLES, Samples(handle, by.actor, by.request_id, app))
            else:
                await _fill(joined, store.handle, app)
    await receive_in_shard(by, store, {SAMPLES: partial(receive_samples, by.settings)})
    return store


async def _fill(joined: Operator, handle: str, app: str) -> None:
    await fill(joined, handle, _CATALOG, Past())
    if app:
        await install(joined, app, handle)


async def receive_samples(settings: Settings, db: Connection, _: int, content: bytes) -> None:
    """Fill a new development store in its shard. An app that was deleted meanwhile is not installed."""
    samples = msgspec.json.decode(content, type=Samples)
    by = Operator(Joined(db), settings, actor=samples.actor, request_id=samples.request_id)
    with suppress(AppDeleted, NoSuchApp):
        await _fill(by, samples.handle, samples.app)


async def reset_development_store(by: Operator, store: OwnedStore) -> None:
    """Replace the content of a store by the sample data; apps, subscriptions and locations stay."""
    if store.shard:  # its definitions are in the directory
        async with by.transaction() as joined:
            await define_samples(joined, store.handle, _CATALOG)
    there = await by.at_store(store.handle)
    async with there.transaction() as joined:
        if await delete_rows(joined.db, store.id, MAX_RESET_ROWS, CONTENT) >= MAX_RESET_ROWS:
            raise StoreTooLarge
        if not store.shard:
            await define_samples(joined, store.handle, _CATALOG)
        await fill(joined, store.handle, _CATALOG, Past())
        await joined.record(joined.db, store.id, "store.reset", f"store:{store.handle}")


async def delete_development_store(by: Operator, store: OwnedStore) -> None:
    """End everybody's access to a store, and let maintenance erase it now."""
    async with by.transaction() as joined:
        await delete_store(joined, store.handle, days=0)
        await REMOVE_STORE_ROLES.run(joined.db, store.id)
