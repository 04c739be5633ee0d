"""Admission of apps to stores, and how soon a revocation takes effect."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic

import httpx
import pytest

from stoa.access.admission import TTL_S, Admission
from stoa.access.apps import resume_app, suspend_app
from stoa.access.credentials import keyed_hash, new_access_token, new_client_secret
from stoa.access.grants import install, issue_token, revoke_all_tokens, revoke_token, uninstall
from stoa.access.operator import Operator
from stoa.access.queries import STORE_TOKEN
from stoa.access.stores import resume_store, suspend_store
from stoa.db.pool import Database
from stoa.rest.call import Caller
from stoa.rest.problems import (
    AppNotInstalled,
    AppSuspended,
    ExpiredToken,
    InvalidToken,
    Refusal,
    StoreSuspended,
)
from stoa.rest.request import Access
from stoa.settings import Settings, secret_key
from tests.access.tenants import Tenant, new_handle, open_store, open_tenant, post, token_of


@pytest.fixture
def admission(db: Database, settings: Settings) -> Admission:
    return Admission(db, settings)


@pytest.fixture
async def token(oauth: httpx.AsyncClient, tenant: Tenant) -> str:
    return await token_of(oauth, tenant)


async def refusal_of(admission: Access, tenant: Tenant, token: str) -> type[Refusal]:
    with pytest.raises(Refusal) as caught:
        await admission.caller(tenant.store, token)
    return caught.type


# --- stores --------------------------------------------------------------------------------------------------------


async def test_a_store_is_found_by_handle_and_by_host(admission: Admission, tenant: Tenant) -> None:
    found = await admission.store(handle=tenant.handle)
    assert found is not None
    assert all(getattr(found, name) == getattr(tenant.store, name) for name in tenant.store.__struct_fields__)
    assert await admission.store(host=f"{tenant.handle}.localhost") == found
    assert await admission.store(host=f"{tenant.handle.upper()}.LocalHost.:8000") == found


async def test_a_store_is_found_by_a_custom_host(admission: Admission, operator: Operator) -> None:
    host = f"{new_handle()}.example.org"
    store = await open_store(operator, [host.upper()])
    found = await admission.store(host=f"{host}:443")
    assert found is not None
    assert found.id == store.id


async def test_other_urls_name_no_store(admission: Admission) -> None:
    assert await admission.store(handle="no-such-store") is None
    for host in ("localhost", "no-such-store.localhost", "127.0.0.1:8000", "[::1]", "", "a\x00b"):
        assert await admission.store(host=host) is None
    assert await admission.store(handle="\x00") is None


async def test_a_new_store_is_found_at_once_even_after_a_failed_lookup(
    admission: Admission, operator: Operator
) -> None:
    handle = new_handle()
    assert await admission.store(handle=handle) is None
    store = await open_store(operator)
    assert await admission.store(handle=store.handle) is not None


# --- callers -------------------------------------------------------------------------------------------------------


async def test_a_token_identifies_the_app_and_its_scopes(
    admission: Admission, settings: Settings, tenant: Tenant, token: str
) -> None:
    caller = await admission.caller(tenant.store, token)
    assert caller == Caller(
        tenant.secret.app_id,
        "An app",
        frozenset({"products:read", "products:write", "orders:read", "orders:write"}),
        settings.rate_burst,
        settings.rate_refill,
    )


async def test_an_installation_may_have_its_own_rate_limit(
    admission: Admission, operator: Operator, tenant: Tenant, token: str
) -> None:
    await install(operator, tenant.app, tenant.handle, rate_burst=7, rate_refill=3)
    caller = await admission.caller(tenant.store, token)
    assert (caller.burst, caller.refill) == (7, 3)


async def test_a_narrowed_token_has_only_its_requested_scopes(
    admission: Admission, oauth: httpx.AsyncClient, tenant: Tenant
) -> None:
    token = await token_of(oauth, tenant, scope="orders:write")
    caller = await admission.caller(tenant.store, token)
    assert caller.scopes == {"orders:write", "orders:read"}
    assert not caller.may("products:read")


async def test_a_token_without_a_resource_has_the_scopes_that_each_store_grants(
    admission: Admission, operator: Operator, tenant: Tenant, token: str
) -> None:
    other = await open_store(operator)
    await install(operator, tenant.app, other.handle, ["orders:read"])
    found = await admission.store(handle=other.handle)
    assert found is not None
    assert (await admission.caller(found, token)).scopes == {"orders:read"}
    assert (await admission.caller(tenant.store, token)).may("products:write")


async def test_a_bound_token_is_unknown_to_another_store(
    admission: Admission, oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    answer = await post(oauth, f"/stores/{tenant.handle}/oauth/token", auth=tenant.basic)
    token = answer.json()["access_token"]
    other = await open_tenant(operator)
    await install(operator, tenant.app, other.handle)
    assert (await admission.caller(tenant.store, token)).app_id == tenant.secret.app_id
    assert await refusal_of(admission, other, token) is InvalidToken


async def test_unknown_mistyped_and_foreign_tokens_get_the_same_refusal(
    admission: Admission, tenant: Tenant, token: str
) -> None:
    bodies: set[bytes] = set()
    for text in (new_access_token(), token[:-1], token.swapcase(), "", "x" * 5_000, new_client_secret()):
        with pytest.raises(InvalidToken) as caught:
            await admission.caller(tenant.store, text)
        bodies.add(caught.value.body(origin="", instance="", request_id=""))
    assert len(bodies) == 1


async def test_a_mistyped_token_never_reaches_the_database(settings: Settings, tenant: Tenant, token: str) -> None:
    offline = Admission(Database("postgresql://nobody@/nothing?host=/nowhere"), settings)
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    assert await refusal_of(offline, tenant, wrong) is InvalidToken


async def test_an_app_that_is_not_installed_is_refused(
    admission: Admission, operator: Operator, tenant: Tenant, token: str
) -> None:
    other = await open_tenant(operator)
    assert await refusal_of(admission, other, token) is AppNotInstalled


async def test_an_expired_token_is_refused_the_moment_it_expires(
    admission: Admission, db: Database, settings: Settings, tenant: Tenant
) -> None:
    while True:  # on a busy machine, a token may expire before it is used once
        token = new_access_token()
        digest = keyed_hash(secret_key(settings), token)
        await STORE_TOKEN.one(db, digest, tenant.secret.app_id, None, None, 0.3)
        with suppress(ExpiredToken):
            await admission.caller(tenant.store, token)
            break
    await asyncio.sleep(0.31)
    assert await refusal_of(admission, tenant, token) is ExpiredToken


# --- within one second ---------------------------------------------------------------------------------------------

Change = Callable[[Operator, Tenant, str], Awaitable[object]]
REVOCATIONS: dict[str, tuple[Change, type[Refusal]]] = {
    "token revoked": (lambda by, _, token: revoke_token(by, token), InvalidToken),
    "all tokens revoked": (lambda by, tenant, _: revoke_all_tokens(by, tenant.app), InvalidToken),
    "uninstalled": (lambda by, tenant, _: uninstall(by, tenant.app, tenant.handle), AppNotInstalled),
    "app suspended": (lambda by, tenant, _: suspend_app(by, tenant.app), AppSuspended),
    "store suspended": (lambda by, tenant, _: suspend_store(by, tenant.handle), StoreSuspended),
}


@pytest.mark.parametrize("revocation", REVOCATIONS)
async def test_a_revocation_takes_effect_within_a_second_on_a_busy_worker(
    revocation: str, admission: Admission, operator: Operator, tenant: Tenant, token: str
) -> None:
    revoke, expected = REVOCATIONS[revocation]
    await admission.caller(tenant.store, token)
    await revoke(operator, tenant, token)
    refused_by = monotonic() + TTL_S
    # Constant requests keep the cache filled.
    with suppress(expected):
        while monotonic() < refused_by:
            await admission.caller(tenant.store, token)
            await asyncio.sleep(0.01)
    assert await refusal_of(admission, tenant, token) is expected
    assert TTL_S < 1


async def test_a_narrowed_grant_takes_effect_within_a_second(
    admission: Admission, operator: Operator, tenant: Tenant, token: str
) -> None:
    assert (await admission.caller(tenant.store, token)).may("orders:write")
    await install(operator, tenant.app, tenant.handle, ["orders:read"])
    await asyncio.sleep(TTL_S)
    assert (await admission.caller(tenant.store, token)).scopes == {"orders:read"}


async def test_a_resumed_app_or_store_is_admitted_at_once(
    admission: Admission, operator: Operator, tenant: Tenant, token: str
) -> None:
    await suspend_app(operator, tenant.app)
    assert await refusal_of(admission, tenant, token) is AppSuspended
    await resume_app(operator, tenant.app)
    await suspend_store(operator, tenant.handle)
    assert await refusal_of(admission, tenant, token) is StoreSuspended
    await resume_store(operator, tenant.handle)
    assert (await admission.caller(tenant.store, token)).app_id == tenant.secret.app_id


async def test_a_token_issued_by_an_operator_works_like_any_other(
    admission: Admission, operator: Operator, tenant: Tenant
) -> None:
    issued = await issue_token(operator, tenant.app, tenant.handle, ["orders:read"])
    assert issued.scope == "orders:read"
    assert (await admission.caller(tenant.store, issued.access_token)).scopes == {"orders:read"}
