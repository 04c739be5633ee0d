"""Audit log pages: entries, actors, verification of the hash chain, and access."""

from stoa.access.grants import install
from stoa.access.stores import resume_store, suspend_store
from stoa.accounts.ownership import give, open_store, take
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.support.people import User, as_operator, create_user
from tests.support.shops import Shop


async def test_an_entry_shows_action_actor_and_request(shop: Shop, maria: User, store_url: str) -> None:
    await install(shop.operator, shop.client_id, shop.store.handle, ["products:read"])
    await maria.open(f"{store_url}/audit")
    for expected in (
        "App scopes changed",
        "Store shared",
        "App installed",
        "Store created",
        "Operator tests",
        "req_tests",
    ):
        assert expected in maria.text, expected
    assert maria.text.index("App scopes changed") < maria.text.index("Store created")
    assert "products:read" in maria.text


async def test_people_are_shown_by_name_also_after_they_have_left(
    maria: User, zeno: User, db: Database, settings: Settings
) -> None:
    by = as_operator(db, settings)
    by.actor = f"account:{maria.account.id}"
    store = await open_store(by, maria.account.id, f"painted-{maria.account.id}", "Painted", "EUR")
    await maria.open(f"/portal/stores/{store.handle}/audit")
    assert ">You<" in maria.text
    await give(as_operator(db, settings), zeno.email, store=store.handle)
    await zeno.open(f"/portal/stores/{store.handle}/audit")
    assert ">Maria Stone<" in zeno.text
    await take(as_operator(db, settings), maria.email, store=store.handle)
    await zeno.open(f"/portal/stores/{store.handle}/audit")
    assert ">Maria Stone<" in zeno.text
    await give(as_operator(db, settings), maria.email, store=store.handle)
    by.actor = "account:987654"
    await suspend_store(by, store.handle)
    await maria.open(f"/portal/stores/{store.handle}/audit")
    assert ">Account 987654<" in maria.text


async def test_an_intact_log_is_verified(maria: User, store_url: str) -> None:
    await maria.open(f"{store_url}/audit")
    assert "Verified: the hash chain of" in maria.text


async def test_an_altered_entry_is_reported(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    await db.execute("UPDATE audit_entries SET actor = 'nobody' WHERE store_id = $1 AND position = 2", shop.store_id)
    await maria.open(f"{store_url}/audit")
    assert "Entry 2 is missing or was altered" in maria.text
    assert "Verified:" not in maria.text


async def test_a_long_log_is_paginated(shop: Shop, maria: User, store_url: str) -> None:
    for _ in range(20):
        await suspend_store(shop.operator, shop.store.handle)
        await resume_store(shop.operator, shop.store.handle)
    await maria.open(f"{store_url}/audit")
    total = 43  # created, installed, shared, and these 40
    assert f"{total} entries" in maria.text
    assert maria.text.count("<tr><td>") == 30
    older = maria.text.partition('href="?before=')[2].partition('"')[0]
    await maria.open(f"{store_url}/audit?before={older}")
    assert maria.text.count("<tr><td>") == total - 30
    assert "Store created" in maria.text
    assert "?before=" not in maria.text


async def test_only_operators_see_the_log_of_the_service(application: Application, maria: User, db: Database) -> None:
    await maria.open("/portal/operators/audit")
    assert maria.response.status_code == 404
    operator = await create_user(application, db, operator=True)
    await operator.open("/portal/operators/audit")
    assert operator.response.status_code == 200
    assert "Changes to accounts, apps and their secrets." in operator.text
    await operator.client.aclose()
