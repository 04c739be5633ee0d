"""Operations on stores, apps and secrets, with their audit entries and events."""

import asyncio

import httpx
import pytest

from stoa.access import audit
from stoa.access.apps import create_app, list_apps, resume_app, rotate_secret, suspend_app
from stoa.access.contract import (
    AccessRefused,
    AppDeleted,
    ErasureBegun,
    HandleTaken,
    HostTaken,
    InvalidGrace,
    InvalidHandle,
    InvalidHost,
    InvalidLocale,
    InvalidName,
    InvalidRate,
    InvalidTimezone,
    MisleadingName,
    NoShardForStores,
    NoSuchApp,
    NoSuchStore,
    NoSuchToken,
    NotInstalled,
    RotationActive,
    ScopeNotCovered,
    StoreInShard,
    UnknownCurrency,
    UnknownScope,
)
from stoa.access.grants import (
    install,
    issue_token,
    list_installations,
)
from stoa.access.operator import Operator, find_app
from stoa.access.stores import create_store, list_stores, resume_store, suspend_store
from stoa.db.pool import Database
from stoa.settings import load
from tests.access.tenants import REQUESTED, Tenant, about_app, actions, new_handle, open_store, post

# --- stores --------------------------------------------------------------------------------------------------------


async def test_a_store_is_created_with_its_hosts_and_recorded(db: Database, operator: Operator) -> None:
    handle = new_handle()
    hosts = [f"b.{handle}.org", f"A.{handle}.org."]
    store = await create_store(operator, handle, "A store", "KWD", hosts)
    assert (store.handle, store.currency, store.status) == (handle, "KWD", "active")
    assert store.hosts == [f"a.{handle}.org", f"b.{handle}.org"]
    assert store in await list_stores(operator)
    entry = (await audit.newest(db, store.id, 1))[0]
    assert (entry.action, entry.actor, entry.request_id) == ("store.created", "operator:maria", "req_access_tests")


@pytest.mark.parametrize("handle", ["", "Demo", "-a", "a-", "a_b", "a.b", "x" * 64, "é"])
async def test_a_handle_is_a_host_label(operator: Operator, handle: str) -> None:
    with pytest.raises(InvalidHandle):
        await create_store(operator, handle, "A store", "EUR")


@pytest.mark.parametrize("currency", ["", "eur", "XXX", "EURO"])
async def test_a_currency_must_be_in_use(operator: Operator, currency: str) -> None:
    with pytest.raises(UnknownCurrency):
        await create_store(operator, new_handle(), "A store", currency)


@pytest.mark.parametrize(
    "host", ["https://shop.org", "shop.org:80", "shop.org/x", "", "a b", "localhost", "demo.localhost"]
)
async def test_a_custom_host_is_a_plain_name_outside_the_stores_domain(operator: Operator, host: str) -> None:
    with pytest.raises(InvalidHost):
        await create_store(operator, new_handle(), "A store", "EUR", [host])


@pytest.mark.parametrize("name", ["", "x" * 256, "a\x00b", "a\nb"])
async def test_a_name_is_one_printable_line(operator: Operator, name: str) -> None:
    with pytest.raises(InvalidName):
        await create_store(operator, new_handle(), name, "EUR")
    with pytest.raises(InvalidName):
        await create_app(operator, name, ["orders:read"])


async def test_handles_and_hosts_belong_to_one_store(db: Database, operator: Operator) -> None:
    host = f"{new_handle()}.example.org"
    store = await open_store(operator, [host])
    with pytest.raises(HandleTaken):
        await create_store(operator, store.handle, "A store", "EUR")
    second = new_handle()
    with pytest.raises(HostTaken):
        await create_store(operator, second, "A store", "EUR", [host])
    assert second not in [each.handle for each in await list_stores(operator)]


async def test_the_host_of_the_service_cannot_be_a_handle(db: Database, operator: Operator) -> None:
    public = load(
        {}, secret_key=operator.settings.secret_key, store_domain="example.com", public_url="https://api.example.com"
    )
    by = Operator(db, public, actor="operator:maria", request_id="req")
    with pytest.raises(HandleTaken):
        await create_store(by, "api", "A store", "EUR")


async def test_a_store_is_suspended_and_resumed_once(db: Database, operator: Operator) -> None:
    store = await open_store(operator)
    for _ in range(2):
        assert (await suspend_store(operator, store.handle)).status == "suspended"
    for _ in range(2):
        assert (await resume_store(operator, store.handle)).status == "active"
    assert await actions(db, store.id) == ["store.created", "store.suspended", "store.resumed"]


async def test_an_unknown_store_is_refused(operator: Operator, tenant: Tenant) -> None:
    for attempt in (
        suspend_store(operator, "no-such-store"),
        list_installations(operator, "no-such-store"),
        install(operator, tenant.app, "no-such-store"),
        issue_token(operator, tenant.app, "no-such-store"),
    ):
        with pytest.raises(NoSuchStore):
            await attempt


# --- apps ----------------------------------------------------------------------------------------------------------


async def test_an_app_is_listed_without_its_secret(operator: Operator, tenant: Tenant) -> None:
    app = next(each for each in await list_apps(operator) if each.client_id == tenant.app)
    assert (app.scopes, app.status, app.stores) == (REQUESTED, "active", [tenant.handle])
    assert app.secret_hints == [tenant.secret.client_secret[-4:]]
    assert tenant.secret.client_secret not in str(app)


async def test_an_app_is_found_by_client_id_or_number(operator: Operator, tenant: Tenant) -> None:
    for name in (tenant.app, str(tenant.secret.app_id)):
        assert (await find_app(operator.db, name)).client_id == tenant.app
    for name in ("0", "999999999999", "9" * 19, "9" * 30, "stoa_ci_none", "", "²"):
        with pytest.raises(NoSuchApp):
            await find_app(operator.db, name)


@pytest.mark.parametrize("scopes", [[], ["orders"], ["orders:read", "orders:fly"]])
async def test_an_app_can_request_only_scopes_that_exist(operator: Operator, scopes: list[str]) -> None:
    with pytest.raises(UnknownScope):
        await create_app(operator, "An app", scopes)


async def test_an_app_is_suspended_and_resumed_once(db: Database, operator: Operator, tenant: Tenant) -> None:
    for _ in range(2):
        assert (await suspend_app(operator, tenant.app)).status == "suspended"
    for _ in range(2):
        assert (await resume_app(operator, tenant.app)).status == "active"
    assert await about_app(db, tenant) == ["app.created", "app.suspended", "app.resumed"]


# --- secrets -------------------------------------------------------------------------------------------------------


async def works(oauth: httpx.AsyncClient, client_id: str, secret: str) -> bool:
    return (await post(oauth, auth=(client_id, secret))).status_code == 200


async def test_both_secrets_work_during_the_grace_period(
    oauth: httpx.AsyncClient, db: Database, operator: Operator, tenant: Tenant
) -> None:
    new = await rotate_secret(operator, tenant.app)
    assert new.previous_until is not None
    assert await works(oauth, *tenant.basic)
    assert await works(oauth, tenant.app, new.client_secret)
    await db.execute(
        "UPDATE app_secrets SET expires_at = now() WHERE app_id = $1 AND expires_at IS NOT NULL", tenant.secret.app_id
    )
    assert not await works(oauth, *tenant.basic)
    assert await works(oauth, tenant.app, new.client_secret)


async def test_the_grace_period_is_as_long_as_requested(db: Database, operator: Operator, tenant: Tenant) -> None:
    new = await rotate_secret(operator, tenant.app, grace_hours=168)
    rows = await db.fetch("SELECT extract(epoch FROM $1::timestamptz - now())::float8", new.previous_until)
    assert 168 * 3600 - 60 < rows[0][0] <= 168 * 3600


async def test_without_a_grace_period_the_old_secret_ends_at_once(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    new = await rotate_secret(operator, tenant.app, grace_hours=0)
    assert not await works(oauth, *tenant.basic)
    assert await works(oauth, tenant.app, new.client_secret)


async def test_a_third_live_secret_is_refused_unless_forced(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    second = await rotate_secret(operator, tenant.app)
    with pytest.raises(RotationActive):
        await rotate_secret(operator, tenant.app)
    assert await works(oauth, *tenant.basic)
    third = await rotate_secret(operator, tenant.app, force=True)
    assert not await works(oauth, *tenant.basic)
    assert await works(oauth, tenant.app, second.client_secret)
    assert await works(oauth, tenant.app, third.client_secret)


async def test_after_a_leak_one_rotation_ends_every_old_secret(
    oauth: httpx.AsyncClient, operator: Operator, tenant: Tenant
) -> None:
    second = await rotate_secret(operator, tenant.app)
    third = await rotate_secret(operator, tenant.app, grace_hours=0)
    assert not await works(oauth, *tenant.basic)
    assert not await works(oauth, tenant.app, second.client_secret)
    assert await works(oauth, tenant.app, third.client_secret)


async def test_concurrent_rotations_leave_at_most_two_live_secrets(
    db: Database, operator: Operator, tenant: Tenant
) -> None:
    results = await asyncio.gather(*(rotate_secret(operator, tenant.app) for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(each, RotationActive) for each in results) == 4
    assert len((await find_app(db, tenant.app)).secret_hints) == 2


@pytest.mark.parametrize("hours", [-1, 169])
async def test_a_grace_period_of_more_than_a_week_is_refused(operator: Operator, tenant: Tenant, hours: int) -> None:
    with pytest.raises(InvalidGrace):
        await rotate_secret(operator, tenant.app, grace_hours=hours)


def test_every_refusal_says_what_to_do() -> None:
    refusals = [
        StoreInShard("x", "y"),
        NoSuchStore("x"),
        NoSuchApp("x"),
        NoSuchToken(),
        InvalidHandle("X"),
        HandleTaken("x"),
        InvalidHost("x", "use a host name"),
        HostTaken("x"),
        UnknownCurrency("x"),
        InvalidTimezone("x"),
        InvalidLocale("x"),
        InvalidName(),
        MisleadingName("must have letters of one script in each word"),
        UnknownScope("x"),
        ScopeNotCovered("x", "y"),
        NotInstalled("x", "y"),
        InvalidRate(),
        InvalidGrace(),
        RotationActive(),
        AppDeleted(),
        ErasureBegun(),
        NoShardForStores("west", ["east"]),
    ]
    ours = {kind for kind in AccessRefused.__subclasses__() if kind.__module__ == AccessRefused.__module__}
    assert {type(each) for each in refusals} == ours
    assert all(any(part in str(each) for part in (";", ":", " must ")) for each in refusals)
    assert all("\n" not in str(each) for each in refusals)
