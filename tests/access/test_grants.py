"""Operations on installations and tokens, with their audit entries and events."""

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from stoa.access import audit
from stoa.access.app_keys import add_key
from stoa.access.apps import change_app, create_app, delete_app, rotate_secret
from stoa.access.contract import AppDeleted, InvalidRate, NoSuchToken, NotInstalled, ScopeNotCovered, UnknownScope
from stoa.access.credentials import new_access_token
from stoa.access.deploy_tokens import create_deploy_token
from stoa.access.grants import (
    install,
    issue_token,
    list_installations,
    revoke_all_tokens,
    revoke_token,
    uninstall,
)
from stoa.access.operator import Operator
from stoa.db.pool import Database
from stoa.webhooks.app_callbacks import save_callbacks
from tests.access.tenants import REQUESTED, Tenant, about_app, actions, open_store, open_tenant
from tests.support.races import until_somebody_waits


async def events(db: Database, store_id: int) -> list[tuple[str, int, int, dict[str, Any], dict[str, Any]]]:
    rows = await db.fetch(
        """SELECT type, resource_id, resource_version, changes, data FROM events
            WHERE store_id = $1 AND resource_type = 'app' ORDER BY position""",
        store_id,
    )
    return [(r[0], r[1], r[2], msgspec.json.decode(r[3]), msgspec.json.decode(r[4])) for r in rows]


# --- installations -------------------------------------------------------------------------------------------------


async def test_installing_changing_and_uninstalling_are_recorded_and_announced(
    db: Database, operator: Operator, tenant: Tenant
) -> None:
    app_id, store_id = tenant.secret.app_id, tenant.row.id
    await install(operator, tenant.app, tenant.handle)  # unchanged, so nothing is recorded or announced
    await install(operator, tenant.app, tenant.handle, ["orders:read"])
    await uninstall(operator, tenant.app, tenant.handle)
    await install(operator, tenant.app, tenant.handle)
    assert await actions(db, store_id) == [
        "store.created",
        "app.installed",
        "app.scopes_changed",
        "app.uninstalled",
        "app.installed",
    ]
    data, none, some = {"id": app_id, "name": "An app", "scopes": REQUESTED}, [], ["orders:read"]
    assert await events(db, store_id) == [
        ("app.installed", app_id, 2, {}, data),
        ("app.scopes_changed", app_id, 3, {"scopes": [REQUESTED, some]}, {**data, "scopes": some}),
        ("app.uninstalled", app_id, 4, {"scopes": [some, none]}, {**data, "scopes": none}),
        ("app.installed", app_id, 5, {}, data),
    ]
    assert await audit.verify(db, store_id) is None


@pytest.mark.not_in_shard("the app is locked where it is changed, and an installation in a shard follows later")
@pytest.mark.parametrize("change", ["install", "rotate_secret", "add_key", "create_deploy_token", "save_callbacks"])
async def test_a_change_that_waits_for_the_deletion_of_its_app_is_refused(
    db: Database, operator: Operator, tenant: Tenant, change: str
) -> None:
    app, key = tenant.app, ed25519.Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": base64.urlsafe_b64encode(key).rstrip(b"=").decode()}
    changes: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "install": lambda: install(operator, app, tenant.handle),
        "rotate_secret": lambda: rotate_secret(operator, app),
        "add_key": lambda: add_key(operator, app, json.dumps(jwk)),
        "create_deploy_token": lambda: create_deploy_token(operator, app, "CI", days=1),
        "save_callbacks": lambda: save_callbacks(
            operator, app, endpoint_url=None, return_urls=["https://example.com/installed"]
        ),
    }
    async with operator.transaction() as deleting:
        await delete_app(deleting, app)
        waiting = asyncio.create_task(changes[change]())
        await until_somebody_waits(db)
    with pytest.raises(AppDeleted):
        await waiting
    assert await list_installations(operator, tenant.handle) == []


@pytest.mark.not_in_shard("the app is locked where it is changed, and an installation in a shard follows later")
async def test_an_installation_that_waits_for_a_change_of_the_app_grants_what_the_app_requests_now(
    db: Database, operator: Operator, tenant: Tenant
) -> None:
    store = await open_store(operator)
    async with operator.transaction() as changing:
        await change_app(changing, tenant.app, "An app", ["orders:read"])
        waiting = asyncio.create_task(install(operator, tenant.app, store.handle))
        await until_somebody_waits(db)
    assert (await waiting).scopes == ["orders:read"]


async def test_an_installation_shows_the_granted_scopes(operator: Operator, tenant: Tenant) -> None:
    done = await install(operator, tenant.app, tenant.handle, ["orders:read", "orders:read"], rate_burst=50)
    assert (done.store, done.client_id, done.scopes) == (tenant.handle, tenant.app, ["orders:read"])
    assert (done.rate_burst, done.rate_refill) == (50, None)
    assert await list_installations(operator, tenant.handle) == [done]


async def test_a_new_rate_limit_keeps_the_rest_and_is_recorded(
    db: Database, operator: Operator, tenant: Tenant
) -> None:
    await install(operator, tenant.app, tenant.handle, rate_burst=50, rate_refill=5)
    again = await install(operator, tenant.app, tenant.handle, rate_refill=6)
    assert (again.rate_burst, again.rate_refill, again.scopes) == (50, 6, REQUESTED)
    assert (await actions(db, tenant.row.id))[2:] == ["app.rate_changed", "app.rate_changed"]
    assert [event[0] for event in await events(db, tenant.row.id)] == ["app.installed"]


async def test_a_store_cannot_grant_more_than_the_app_requests(operator: Operator, tenant: Tenant) -> None:
    with pytest.raises(ScopeNotCovered):
        await install(operator, tenant.app, tenant.handle, ["orders:read", "customers:read"])
    with pytest.raises(UnknownScope):
        await install(operator, tenant.app, tenant.handle, [])
    for rate in (0, -1):
        with pytest.raises(InvalidRate):
            await install(operator, tenant.app, tenant.handle, rate_burst=rate)


async def test_concurrent_installs_are_announced_once(db: Database, operator: Operator) -> None:
    store = await open_store(operator)
    app = await create_app(operator, "An app", ["orders:read"])
    await asyncio.gather(*(install(operator, app.client_id, store.handle) for _ in range(5)))
    assert [event[0] for event in await events(db, store.id)] == ["app.installed"]


async def test_an_app_that_is_not_installed_cannot_be_uninstalled(operator: Operator, tenant: Tenant) -> None:
    await uninstall(operator, tenant.app, tenant.handle)
    with pytest.raises(NotInstalled):
        await uninstall(operator, tenant.app, tenant.handle)
    with pytest.raises(NotInstalled):
        await issue_token(operator, tenant.app, tenant.handle)


# --- tokens --------------------------------------------------------------------------------------------------------


async def test_tokens_are_recorded_in_the_audit_chain_of_their_store_or_of_the_service(
    db: Database, operator: Operator, tenant: Tenant
) -> None:
    bound = await issue_token(operator, tenant.app, tenant.handle)
    free = await issue_token(operator, tenant.app, scopes=["orders:read"])
    assert (bound.store, bound.scope, free.store, free.scope) == (
        tenant.handle,
        " ".join(REQUESTED),
        None,
        "orders:read",
    )
    await revoke_token(operator, bound.access_token)
    await revoke_token(operator, free.access_token)
    assert (await actions(db, tenant.row.id))[-2:] == ["token.issued", "token.revoked"]
    assert (await about_app(db, tenant))[-2:] == ["token.issued", "token.revoked"]


async def test_a_token_cannot_have_more_scopes_than_granted(operator: Operator, tenant: Tenant) -> None:
    with pytest.raises(ScopeNotCovered):
        await issue_token(operator, tenant.app, tenant.handle, ["customers:read"])


async def test_only_a_live_token_can_be_revoked(operator: Operator, tenant: Tenant) -> None:
    issued = await issue_token(operator, tenant.app)
    await revoke_token(operator, issued.access_token)
    for text in (issued.access_token, new_access_token(), "nonsense"):
        with pytest.raises(NoSuchToken):
            await revoke_token(operator, text)


async def test_all_tokens_of_one_app_are_revoked_and_no_others(operator: Operator, tenant: Tenant) -> None:
    other = await open_tenant(operator)
    await issue_token(operator, other.app)
    for _ in range(3):
        await issue_token(operator, tenant.app)
    assert await revoke_all_tokens(operator, tenant.app) == 3
    assert await revoke_all_tokens(operator, other.app) == 1
