"""Install requests: concurrent decisions, and reduced scopes."""

import asyncio

from stoa.access.apps import change_app
from stoa.access.contract import NotInstalled
from stoa.access.grants import install, list_installations, uninstall
from stoa.access.operator import Operator
from stoa.accounts import install_requests
from stoa.accounts.contract import OwnedStore
from stoa.accounts.install_requests import reduce_scopes
from stoa.accounts.ownership import owned_app, owned_store
from stoa.accounts.refusals import NoSuchRequest
from stoa.db.pool import Database
from tests.support.ownership import create_app, create_store
from tests.support.people import User


async def create_installation(operator: Operator, owner: User) -> tuple[OwnedStore, int, str]:
    handle = await create_store(operator, owner)
    app = await create_app(operator, owner, {"products:read": "a", "orders:read": "b", "customers:read": "c"})
    await install(operator, app.client_id, handle)
    store = await owned_store(operator.db, owner.account.id, handle)
    assert store is not None
    return store, app.app_id, app.client_id


async def test_of_concurrent_decisions_only_one_takes_effect(
    maria: User, zeno: User, operator: Operator, db: Database
) -> None:
    handle = await create_store(operator, maria)
    app_id = (await create_app(operator, zeno)).app_id
    app, store = await owned_app(db, zeno.account.id, app_id), await owned_store(db, maria.account.id, handle)
    assert app
    assert store
    await install_requests.request_install(operator, zeno.account.id, app, handle, "")
    decisions = [
        *(install_requests.approve(operator, store, app_id, ["products:read"]) for _ in range(3)),
        *(install_requests.refuse(operator, store, app_id) for _ in range(3)),
    ]
    results = await asyncio.gather(*decisions, return_exceptions=True)
    assert sum(isinstance(each, NoSuchRequest) for each in results) == 5


async def test_a_granted_scope_that_the_app_no_longer_requests_can_be_kept(maria: User, operator: Operator) -> None:
    store, app_id, client_id = await create_installation(operator, maria)
    await change_app(operator, client_id, "Walker", ["products:read"])
    installation = await reduce_scopes(operator, store, app_id, ["products:read", "orders:read"])
    assert installation.scopes == ["products:read", "orders:read"]


async def test_reducing_scopes_never_reinstalls_an_uninstalled_app(maria: User, operator: Operator) -> None:
    store, app_id, client_id = await create_installation(operator, maria)
    for _ in range(8):
        await install(operator, client_id, store.handle)
        results = await asyncio.gather(
            reduce_scopes(operator, store, app_id, ["products:read"]),
            uninstall(operator, client_id, store.handle),
            reduce_scopes(operator, store, app_id, ["products:read"]),
            return_exceptions=True,
        )
        assert all(isinstance(each, NotInstalled) for each in results if isinstance(each, BaseException)), results
        assert await list_installations(operator, store.handle) == []
        await change_app(operator, client_id, "Walker", ["products:read", "orders:read", "customers:read"])
