"""The audit log on a page: in words, whole or told where it is not, and each chain to those whom it concerns."""

import pytest

from stoa.access.grants import install
from stoa.access.stores import resume_store, suspend_store
from stoa.accounts.ownership import give, open_store
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.people import Somebody, as_operator, somebody
from tests.support.shops import Shop


@pytest.fixture
async def home(shop: Shop, maria: Somebody, db: Database, settings: Settings) -> str:
    await give(as_operator(db, settings), maria.email, store=shop.store.handle)
    return f"/portal/stores/{shop.store.handle}"


async def test_it_tells_who_did_what_in_which_request(shop: Shop, maria: Somebody, home: str) -> None:
    await install(shop.operator, shop.client_id, shop.store.handle, ["products:read"])
    await maria.open(f"{home}/audit")
    for words in (
        "App scopes changed",
        "Store shared",
        "App installed",
        "Store created",
        "Operator tests",
        "req_tests",
    ):
        assert words in maria.text, words
    assert maria.text.index("App scopes changed") < maria.text.index("Store created")
    assert "products:read" in maria.text


async def test_it_names_people_of_the_store_and_nobody_else(
    maria: Somebody, zeno: Somebody, db: Database, settings: Settings
) -> None:
    by = as_operator(db, settings)
    by.actor = f"account:{maria.account.id}"
    store = await open_store(by, maria.account.id, f"painted-{maria.account.id}", "Painted", "EUR")
    await maria.open(f"/portal/stores/{store.handle}/audit")
    assert ">You<" in maria.text
    await give(as_operator(db, settings), zeno.email, store=store.handle)
    await zeno.open(f"/portal/stores/{store.handle}/audit")
    assert ">Maria Stone<" in zeno.text
    by.actor = "account:987654"
    await suspend_store(by, store.handle)
    await maria.open(f"/portal/stores/{store.handle}/audit")
    assert ">Account 987654<" in maria.text


async def test_a_whole_log_says_so(maria: Somebody, home: str) -> None:
    await maria.open(f"{home}/audit")
    assert "Whole: each of the" in maria.text


async def test_a_log_that_was_altered_says_where(shop: Shop, maria: Somebody, home: str, db: Database) -> None:
    await db.execute("UPDATE audit_entries SET actor = 'nobody' WHERE store_id = $1 AND position = 2", shop.store_id)
    await maria.open(f"{home}/audit")
    assert "Entry 2 is missing, or not as it was written." in maria.text
    assert "Whole:" not in maria.text


async def test_a_long_log_goes_on(shop: Shop, maria: Somebody, home: str) -> None:
    for _ in range(20):
        await suspend_store(shop.operator, shop.store.handle)
        await resume_store(shop.operator, shop.store.handle)
    await maria.open(f"{home}/audit")
    total = 43  # opened, let an app in, was shared; then these
    assert f"{total} entries" in maria.text
    assert maria.text.count("<tr><td>") == 30
    older = maria.text.partition('href="?before=')[2].partition('"')[0]
    await maria.open(f"{home}/audit?before={older}")
    assert maria.text.count("<tr><td>") == total - 30
    assert "Store created" in maria.text
    assert "?before=" not in maria.text


async def test_the_services_own_log_is_for_operators(application: Application, maria: Somebody, db: Database) -> None:
    await maria.open("/portal/operators/audit")
    assert maria.seen.status_code == 404
    operator = await somebody(application, db, operator=True)
    await operator.open("/portal/operators/audit")
    assert operator.seen.status_code == 200
    assert "What concerns the service as a whole" in operator.text
    await operator.client.aclose()
