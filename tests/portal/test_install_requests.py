"""Install requests: sending, approving, refusing and withdrawing them on pages."""

import pytest

from stoa.access import audit
from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts import ownership
from stoa.accounts.ownership import owned_store
from stoa.accounts.rate_limit import limit_rate
from stoa.db.pool import Database
from tests.support.ownership import create_app, create_store
from tests.support.people import User, new_email
from tests.support.shops import api_client, service_client, token_for


async def test_a_request_is_approved_with_fewer_scopes(
    maria: User, zeno: User, operator: Operator, db: Database
) -> None:
    handle = await create_store(operator, maria)
    app = await create_app(operator, zeno)
    await zeno.open(f"/portal/apps/{app.app_id}/stores")
    await zeno.submit(
        f"/portal/apps/{app.app_id}/install-requests", handle=f"http://testserver/stores/{handle}", message="May we?"
    )
    assert zeno.notice == f"Request sent to the owner of {handle}."
    assert "Pending" in zeno.text
    await maria.open("/portal")
    assert "Install requests" in maria.text
    await maria.open(f"/portal/stores/{handle}")
    assert "Walker asks to be installed" in maria.text
    assert "“To place them.”" in maria.text
    assert "May we?" in maria.text
    await maria.submit(f"/portal/stores/{handle}/requests/{app.app_id}/approve", scopes=[])
    assert "at least one" in maria.faults[""]
    await maria.submit(f"/portal/stores/{handle}/requests/{app.app_id}/approve", scopes=["customers:erase"])
    assert maria.response.status_code == 422
    await maria.submit(f"/portal/stores/{handle}/requests/{app.app_id}/approve", scopes=["products:read"])
    assert maria.notice == "Walker is installed."
    async with service_client(maria.application) as service:
        token = await token_for(service, app.client_id, app.client_secret)
    async with api_client(maria.application, handle, token) as api:
        assert (await api.get("/products")).status_code == 200
    await zeno.open(f"/portal/apps/{app.app_id}/stores")
    assert handle in zeno.text
    store = await owned_store(db, maria.account.id, handle)
    assert store
    actions = [entry.action for entry in reversed(await audit.newest(db, store.id, 10))]
    assert actions == ["store.created", "app.asked", "app.installed"]


async def test_a_refused_app_can_ask_again_after_a_day(
    maria: User, zeno: User, operator: Operator, db: Database
) -> None:
    handle = await create_store(operator, maria)
    app = await create_app(operator, zeno)
    await zeno.open(f"/portal/apps/{app.app_id}/stores")
    await zeno.submit(f"/portal/apps/{app.app_id}/install-requests", handle=handle)
    await maria.open(f"/portal/stores/{handle}")
    await maria.submit(f"/portal/stores/{handle}/requests/{app.app_id}/refuse")
    assert maria.notice == "Request refused."
    await zeno.open(f"/portal/apps/{app.app_id}/stores")
    assert "Refused" in zeno.text
    await zeno.submit(f"/portal/apps/{app.app_id}/install-requests", handle=handle)
    assert "tomorrow" in zeno.faults["handle"]
    await db.execute(
        "UPDATE installation_requests SET decided_at = now() - interval '2 days' WHERE app_id = $1", app.app_id
    )
    await zeno.submit(f"/portal/apps/{app.app_id}/install-requests", handle=handle)
    assert "Request sent" in zeno.notice
    await zeno.submit(f"/portal/apps/{app.app_id}/install-requests/{handle}/withdraw")
    assert zeno.notice == "Request withdrawn."


@pytest.mark.parametrize("handle", ["no-such-store", "NOT A HANDLE", "a\tb", "🏛", "x" * 190])
async def test_an_unknown_store_cannot_be_asked(zeno: User, operator: Operator, handle: str) -> None:
    app = await create_app(operator, zeno)
    await zeno.open(f"/portal/apps/{app.app_id}/stores")
    await zeno.submit(f"/portal/apps/{app.app_id}/install-requests", handle=handle)
    assert set(zeno.faults) == {"handle"}


async def test_a_request_for_granted_scopes_is_refused(maria: User, operator: Operator) -> None:
    handle = await create_store(operator, maria)
    app = await create_app(operator, maria)
    await install(operator, app.client_id, handle)
    await maria.open(f"/portal/apps/{app.app_id}/stores")
    await maria.submit(f"/portal/apps/{app.app_id}/install-requests", handle=handle)
    assert "already" in maria.faults["handle"]


async def test_deciding_a_withdrawn_request_shows_a_warning(maria: User, zeno: User, operator: Operator) -> None:
    handle = await create_store(operator, maria)
    app = await create_app(operator, zeno)
    await zeno.open(f"/portal/apps/{app.app_id}/stores")
    await zeno.submit(f"/portal/apps/{app.app_id}/install-requests", handle=handle)
    await maria.open(f"/portal/stores/{handle}")
    await zeno.submit(f"/portal/apps/{app.app_id}/install-requests/{handle}/withdraw")
    for decision in ("approve", "refuse"):
        await maria.submit(f"/portal/stores/{handle}/requests/{app.app_id}/{decision}", scopes=["products:read"])
        assert "already decided or withdrawn" in maria.notice


async def test_repeated_requests_do_not_flood_the_audit_log_of_the_store(
    maria: User, zeno: User, db: Database, operator: Operator
) -> None:
    store = await ownership.open_store(operator, maria.account.id, f"quiet-{maria.account.id}", "Agora", "EUR")
    app = await ownership.register_app(operator, zeno.account.id, "Walker", "", {"products:read": "x"}, new_email())
    page = f"/portal/apps/{app.app_id}/stores"
    before = await audit.head(db, store.id)
    for _ in range(3):
        await zeno.open(page)
        await zeno.submit(f"/portal/apps/{app.app_id}/install-requests", handle=store.handle, message="Please?")
        assert zeno.path == page
    assert (await audit.head(db, store.id)).position == before.position + 1
    for _ in range(12):
        await zeno.submit(f"/portal/apps/{app.app_id}/install-requests/{store.handle}/withdraw")
        await zeno.submit(f"/portal/apps/{app.app_id}/install-requests", handle=store.handle, message="Please?")
    assert zeno.response.status_code == 429
    assert zeno.faults[""].startswith("You have sent ten requests in the last minute.")
    assert (await audit.head(db, store.id)).position < before.position + 25


async def test_the_rate_limit_counts_each_account_separately(zeno: User, db: Database, operator: Operator) -> None:
    for other in range(10**9, 10**9 + 12):
        for _ in range(9):
            await limit_rate(operator, db, other, "install-request")
    store = await ownership.open_store(operator, zeno.account.id, f"asked-{zeno.account.id}", "Agora", "EUR")
    app = await ownership.register_app(operator, zeno.account.id, "Walker", "", {"products:read": "x"}, new_email())
    for message in ("One", "Two", "Three"):
        await zeno.open(f"/portal/apps/{app.app_id}/stores")
        await zeno.submit(f"/portal/apps/{app.app_id}/install-requests", handle=store.handle, message=message)
        assert zeno.notice


async def test_reasons_are_needed_only_when_a_merchant_is_asked(maria: User, zeno: User, operator: Operator) -> None:
    await zeno.open("/portal/register-app")
    fields = {"name": "Silent", "scopes": ["products:read", "orders:read"], "reasons[products:read]": "To list them."}
    await zeno.submit("/portal/register-app", {**fields, "development_store": "on", "registration": "x" * 12})
    [app] = await ownership.owned_apps(operator, zeno.account.id)
    [development] = await ownership.owned_stores(operator, zeno.account.id)
    assert app.installations == 1, "a development store asks for no reason"
    handle, url = await create_store(operator, maria), f"/portal/apps/{app.id}/install-requests"
    await zeno.open(f"/portal/apps/{app.id}/stores")
    await zeno.submit(url, handle=handle)
    assert zeno.response.status_code == 422
    assert "no reason for orders:read" in zeno.faults["handle"]
    await zeno.open(f"/portal/apps/{app.id}/settings")
    changed = {**fields, "homepage": "", "reasons[orders:read]": "To count them."}
    await zeno.submit(f"/portal/apps/{app.id}/settings", changed)
    await zeno.open(f"/portal/apps/{app.id}/stores")
    await zeno.submit(url, handle=handle)
    assert zeno.notice == f"Request sent to the owner of {handle}."
    assert development.handle != handle
