"""Stores: creation, development stores, and installed apps."""

import re

import pytest

from stoa.access.grants import install, list_installations, uninstall
from stoa.access.operator import Operator
from stoa.accounts.ownership import owned_store
from stoa.db.pool import Database
from tests.support.ownership import create_app, create_store
from tests.support.people import User
from tests.support.shops import api_client, service_client, token_for


async def test_a_store_is_created(maria: User) -> None:
    handle = f"hearth-{maria.account.id}"
    await maria.open("/portal/stores")
    assert "Create your first store" in maria.text
    await maria.open("/portal/open-store")
    await maria.submit("/portal/open-store", name="Hearth & Loom", handle=handle, currency="JPY")
    assert maria.path == f"/portal/stores/{handle}"
    assert maria.notice == "Hearth & Loom was created."
    await maria.open("/portal/stores")
    assert "Hearth &amp; Loom" in maria.response.text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 81),
        ("handle", "Not a handle"),
        ("handle", ""),
        ("currency", "XXX"),
        ("currency", "EURO"),
    ],
)
async def test_a_fault_is_shown_beside_its_field(maria: User, field: str, value: str) -> None:
    await maria.open("/portal/open-store")
    good = {"name": "Agora", "handle": f"fault-{maria.account.id}", "currency": "EUR"}
    await maria.submit("/portal/open-store", {**good, field: value})
    assert maria.response.status_code == 422
    assert set(maria.faults) == {field}


async def test_a_handle_is_unique(maria: User, zeno: User, operator: Operator, db: Database) -> None:
    handle = await create_store(operator, maria)
    await zeno.open("/portal/open-store")
    await zeno.submit("/portal/open-store", name="Mine", handle=handle, currency="EUR")
    assert "is taken" in zeno.faults["handle"]
    assert await owned_store(db, zeno.account.id, handle) is None


async def test_an_owner_decides_whether_prices_include_taxes(maria: User, operator: Operator, db: Database) -> None:
    url = f"/portal/stores/{(handle := await create_store(operator, maria))}"
    await maria.open(url)
    assert "Exclude taxes" in maria.text
    for values, included in (({"prices_include_tax": "on"}, True), ({}, False)):
        await maria.submit(f"{url}/settings", values)
        assert maria.notice == "Saved. The change takes effect within a second."
        await maria.open(url)
        assert ("Include taxes" if included else "Exclude taxes") in maria.text
        store = await owned_store(db, maria.account.id, handle)
        assert store is not None
        assert store.prices_include_tax is included


async def test_a_development_store_has_sample_products(maria: User, db: Database) -> None:
    await maria.open("/portal/stores")
    await maria.submit("/portal/stores/development")
    handle = re.search(r"/portal/stores/(dev-\w+)", str(maria.response.url))
    assert handle
    rows = await db.fetch(
        "SELECT count(*) FROM products WHERE store_id = (SELECT id FROM stores WHERE handle = $1)", handle[1]
    )
    assert rows[0][0] > 20
    assert "Development store" in maria.text


async def test_reduced_scopes_and_uninstallation_take_effect_within_a_second(
    maria: User, zeno: User, operator: Operator
) -> None:
    handle = await create_store(operator, maria)
    app = await create_app(operator, zeno)
    await install(operator, app.client_id, handle)
    async with service_client(maria.application) as service:
        token = await token_for(service, app.client_id, app.client_secret)
    path = f"/portal/stores/{handle}/apps/{app.app_id}"
    await maria.open(path)
    assert "Create and change orders" in maria.text
    await maria.submit(path, scopes=["orders:write"])
    assert "Saved" in maria.notice
    async with api_client(maria.application, handle, token) as api:
        assert (await api.get("/products")).status_code == 403
    await maria.submit(path, scopes=["products:write"])
    assert maria.response.status_code == 422, "more scopes need a new request"
    await maria.submit(f"{path}/uninstall")
    assert maria.faults == {"confirmed": "Select this box to confirm."}
    async with api_client(maria.application, handle, token) as api:
        assert (await api.get("/orders")).status_code == 200, "nothing happens without the confirmation"
    await maria.submit(f"{path}/uninstall", confirmed="on")
    assert "was uninstalled" in maria.notice
    await maria.open(path)
    assert maria.response.status_code == 404


async def test_an_owner_installs_an_app_again_for_30_days(
    maria: User, zeno: User, operator: Operator, db: Database
) -> None:
    handle, other = await create_store(operator, maria), await create_store(operator, zeno)
    app = await create_app(operator, zeno)
    store, form = f"/portal/stores/{handle}", f"/portal/stores/{handle}/removed/{app.app_id}"
    await install(operator, app.client_id, handle, ["products:read", "orders:write"])
    await uninstall(operator, app.client_id, handle)
    await maria.open(store)
    assert "Install again" in maria.text
    for wrong in (["customers:read"], ["products:write"], []):
        await maria.submit(form, scopes=wrong)
        assert maria.response.status_code == 422, wrong
    await maria.submit(form.replace(handle, other), scopes=["products:read"])
    assert maria.response.status_code == 404
    await maria.open(store)
    await maria.submit(form, scopes=["products:read"])
    assert "is installed again" in maria.notice
    assert "Install again" not in maria.text
    [installed] = await list_installations(operator, handle)
    assert installed.scopes == ["products:read"]
    await uninstall(operator, app.client_id, handle)
    await db.execute(
        "UPDATE removed_installations SET removed_at = now() - interval '31 days' WHERE app_id = $1", app.app_id
    )
    await maria.open(store)
    assert "Install again" not in maria.text
    await maria.submit(form, scopes=["products:read"])
    assert "cannot be installed again" in maria.notice
    assert await list_installations(operator, handle) == []
