"""A merchant's story: a store, who asks to be let in, and what they may do there."""

import asyncio
import re

import pytest

from stoa.access import audit
from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts import asking
from stoa.accounts.contract import NoSuchRequest
from stoa.accounts.ownership import open_store, owned_app, owned_store, register_app
from stoa.db.pool import Database
from tests.portal.people import Somebody
from tests.support.shops import api_client, service_client, token_for

REASONS = {"products:read": "To list them.", "orders:write": "To place them."}


async def a_store(operator: Operator, person: Somebody) -> str:
    return (await open_store(operator, person.account.id, f"agora-{person.account.id}", "Agora", "EUR")).handle


async def an_app(operator: Operator, person: Somebody) -> tuple[int, str, str]:
    made = await register_app(
        operator, person.account.id, "Walker", "https://example.com", REASONS, f"r{person.account.id}"
    )
    return made.app_id, made.client_id, made.client_secret


async def test_a_store_is_opened(maria: Somebody) -> None:
    handle = f"hearth-{maria.account.id}"
    await maria.open("/portal/stores")
    assert "Open your first store" in maria.text
    await maria.open("/portal/open-store")
    await maria.send("/portal/open-store", name="Hearth & Loom", handle=handle, currency="JPY")
    assert maria.path == f"/portal/stores/{handle}"
    assert maria.notice == "Hearth & Loom is open."
    await maria.open("/portal/stores")
    assert "Hearth &amp; Loom" in maria.seen.text


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
async def test_a_fault_stands_beside_its_field(maria: Somebody, field: str, value: str) -> None:
    await maria.open("/portal/open-store")
    good = {"name": "Agora", "handle": f"fault-{maria.account.id}", "currency": "EUR"}
    await maria.send("/portal/open-store", {**good, field: value})
    assert maria.seen.status_code == 422
    assert set(maria.faults) == {field}


async def test_a_handle_belongs_to_one_store(maria: Somebody, zeno: Somebody, operator: Operator, db: Database) -> None:
    handle = await a_store(operator, maria)
    await zeno.open("/portal/open-store")
    await zeno.send("/portal/open-store", name="Mine", handle=handle, currency="EUR")
    assert "is taken" in zeno.faults["handle"]
    assert await owned_store(db, zeno.account.id, handle) is None


async def test_an_app_asks_and_is_let_in_with_less(
    maria: Somebody, zeno: Somebody, operator: Operator, db: Database
) -> None:
    handle = await a_store(operator, maria)
    app_id, client_id, secret = await an_app(operator, zeno)
    await zeno.open(f"/portal/apps/{app_id}/stores")
    await zeno.send(f"/portal/apps/{app_id}/requests", handle=f"http://testserver/stores/{handle}", message="May we?")
    assert zeno.notice == f"The owner of {handle} now sees your request."
    assert "Waiting" in zeno.text
    await maria.open("/portal")
    assert "Waiting for you" in maria.text
    await maria.open(f"/portal/stores/{handle}")
    assert "Walker would like to be let in" in maria.text
    assert "“To place them.”" in maria.text
    assert "May we?" in maria.text
    await maria.send(f"/portal/stores/{handle}/requests/{app_id}/approve", scopes=[])
    assert "at least one" in maria.faults[""]
    await maria.send(f"/portal/stores/{handle}/requests/{app_id}/approve", scopes=["customers:erase"])
    assert maria.seen.status_code == 422
    await maria.send(f"/portal/stores/{handle}/requests/{app_id}/approve", scopes=["products:read"])
    assert maria.notice == "Walker is installed."
    async with service_client(maria.application) as service:
        token = await token_for(service, client_id, secret)
    async with api_client(maria.application, handle, token) as api:
        assert (await api.get("/products")).status_code == 200
    await zeno.open(f"/portal/apps/{app_id}/stores")
    assert handle in zeno.text
    store = await owned_store(db, maria.account.id, handle)
    assert store
    actions = [entry.action for entry in reversed(await audit.newest(db, store.id, 10))]
    assert actions == ["store.created", "app.asked", "app.installed"]


async def test_an_app_is_narrowed_and_uninstalled_within_a_second(
    maria: Somebody, zeno: Somebody, operator: Operator
) -> None:
    handle = await a_store(operator, maria)
    app_id, client_id, secret = await an_app(operator, zeno)
    await install(operator, client_id, handle)
    async with service_client(maria.application) as service:
        token = await token_for(service, client_id, secret)
    path = f"/portal/stores/{handle}/apps/{app_id}"
    await maria.open(path)
    assert "Create and change orders" in maria.text
    await maria.send(path, scopes=["orders:write"])
    assert "Saved" in maria.notice
    async with api_client(maria.application, handle, token) as api:
        assert (await api.get("/products")).status_code == 403
    await maria.send(path, scopes=["products:write"])
    assert maria.seen.status_code == 422, "more than was granted takes a request"
    await maria.send(f"{path}/uninstall")
    assert "off this store" in maria.notice
    await maria.open(path)
    assert maria.seen.status_code == 404


async def test_a_refused_app_may_ask_again_tomorrow(
    maria: Somebody, zeno: Somebody, operator: Operator, db: Database
) -> None:
    handle = await a_store(operator, maria)
    app_id, _, _ = await an_app(operator, zeno)
    await zeno.open(f"/portal/apps/{app_id}/stores")
    await zeno.send(f"/portal/apps/{app_id}/requests", handle=handle)
    await maria.open(f"/portal/stores/{handle}")
    await maria.send(f"/portal/stores/{handle}/requests/{app_id}/refuse")
    assert maria.notice == "The request is refused."
    await zeno.open(f"/portal/apps/{app_id}/stores")
    assert "Refused" in zeno.text
    await zeno.send(f"/portal/apps/{app_id}/requests", handle=handle)
    assert "tomorrow" in zeno.faults["handle"]
    await db.execute(
        "UPDATE installation_requests SET decided_at = now() - interval '2 days' WHERE app_id = $1", app_id
    )
    await zeno.send(f"/portal/apps/{app_id}/requests", handle=handle)
    assert "now sees your request" in zeno.notice
    await zeno.send(f"/portal/apps/{app_id}/requests/{handle}/withdraw")
    assert zeno.notice == "The request is withdrawn."


@pytest.mark.parametrize("handle", ["no-such-store", "NOT A HANDLE", "a\tb", "🏛", "x" * 190])
async def test_an_unknown_store_cannot_be_asked(zeno: Somebody, operator: Operator, handle: str) -> None:
    app_id, _, _ = await an_app(operator, zeno)
    await zeno.open(f"/portal/apps/{app_id}/stores")
    await zeno.send(f"/portal/apps/{app_id}/requests", handle=handle)
    assert set(zeno.faults) == {"handle"}


async def test_a_store_that_grants_everything_need_not_be_asked(maria: Somebody, operator: Operator) -> None:
    handle = await a_store(operator, maria)
    app_id, client_id, _ = await an_app(operator, maria)
    await install(operator, client_id, handle)
    await maria.open(f"/portal/apps/{app_id}/stores")
    await maria.send(f"/portal/apps/{app_id}/requests", handle=handle)
    assert "already" in maria.faults["handle"]


async def test_a_request_that_was_decided_elsewhere_says_so(
    maria: Somebody, zeno: Somebody, operator: Operator
) -> None:
    handle = await a_store(operator, maria)
    app_id, _, _ = await an_app(operator, zeno)
    await zeno.open(f"/portal/apps/{app_id}/stores")
    await zeno.send(f"/portal/apps/{app_id}/requests", handle=handle)
    await maria.open(f"/portal/stores/{handle}")
    await zeno.send(f"/portal/apps/{app_id}/requests/{handle}/withdraw")
    for decision in ("approve", "refuse"):
        await maria.send(f"/portal/stores/{handle}/requests/{app_id}/{decision}", scopes=["products:read"])
        assert "withdrawn or decided already" in maria.notice


async def test_of_two_decisions_at_once_one_counts(
    maria: Somebody, zeno: Somebody, operator: Operator, db: Database
) -> None:
    handle = await a_store(operator, maria)
    app_id, _, _ = await an_app(operator, zeno)
    app, store = await owned_app(db, zeno.account.id, app_id), await owned_store(db, maria.account.id, handle)
    assert app
    assert store
    await asking.ask(operator, zeno.account.id, app, handle, "")
    decisions = [
        *(asking.approve(operator, store, app_id, ["products:read"]) for _ in range(3)),
        *(asking.refuse(operator, store, app_id) for _ in range(3)),
    ]
    ends = await asyncio.gather(*decisions, return_exceptions=True)
    assert sum(isinstance(end, NoSuchRequest) for end in ends) == 5


async def test_a_development_store_has_sample_products(maria: Somebody, db: Database) -> None:
    await maria.open("/portal/stores")
    await maria.send("/portal/stores/development")
    handle = re.search(r"/portal/stores/(dev-\w+)", str(maria.seen.url))
    assert handle
    rows = await db.fetch(
        "SELECT count(*) FROM products WHERE store_id = (SELECT id FROM stores WHERE handle = $1)", handle[1]
    )
    assert rows[0][0] > 20
    assert "Development store" in maria.text
