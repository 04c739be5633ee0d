"""Operator pages: search, suspend and resume, disable and enable."""

import re
from collections.abc import AsyncIterator

import pytest

from stoa.access import audit
from stoa.accounts.ownership import give
from stoa.app import Application
from stoa.db.pool import Database
from tests.support.people import User, create_user, signed_in_browser
from tests.support.shops import Shop

OPERATORS = "/portal/operators"


@pytest.fixture
async def operator(application: Application, db: Database) -> AsyncIterator[User]:
    """A signed-in operator."""
    user = await create_user(application, db, operator=True, name="Olive Run")
    yield user
    await user.client.aclose()


async def latest_entry(db: Database, chain: int | None) -> audit.Entry:
    return (await audit.newest(db, chain, 1))[0]


# --- search -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("section", ["stores", "apps", "accounts"])
async def test_search_finds_stores_apps_and_accounts(shop: Shop, operator: User, zeno: User, section: str) -> None:
    term = {"stores": shop.store.handle, "apps": shop.client_id, "accounts": zeno.email}[section]
    await operator.open(f"{OPERATORS}/{section}?q={term.upper()}")
    assert operator.text.count("<tr><td>") == 1
    assert term in operator.text
    await operator.open(f"{OPERATORS}/{section}?q=no-such-{term}")
    assert "No results" in operator.text


@pytest.mark.parametrize("section", ["stores", "apps", "accounts"])
async def test_a_long_list_is_paginated(application: Application, db: Database, operator: User, section: str) -> None:
    statement = {
        "stores": "INSERT INTO stores (handle, name, currency) SELECT $1 || n, 'Many', 'EUR' FROM generate_series(1, 30) n",
        "apps": "INSERT INTO apps (client_id, name, scopes) SELECT $1 || n, 'Many', '{}' FROM generate_series(1, 30) n",
        "accounts": "INSERT INTO accounts (email, name, password_hash) SELECT $1 || n, 'Many', '' FROM generate_series(1, 30) n",
    }[section]
    prefix = f"many{operator.account.id}-"
    await db.execute(statement, prefix)
    await operator.open(f"{OPERATORS}/{section}?q={prefix}")
    assert operator.text.count("<tr><td>") == 25
    older = operator.text.partition(f'href="?q={prefix}&status=&before=')[2].partition('"')[0]
    await operator.open(f"{OPERATORS}/{section}?q={prefix}&before={older}")
    assert operator.text.count("<tr><td>") == 5


@pytest.mark.parametrize("section", ["stores", "apps", "accounts"])
@pytest.mark.parametrize("query", ["q=%00", "q=%25", "status=x", "before=x", f"before={'9' * 40}", "q=" + "é" * 600])
async def test_a_hostile_search_never_breaks_a_page(operator: User, section: str, query: str) -> None:
    await operator.open(f"{OPERATORS}/{section}?{query}")
    assert operator.response.status_code == 200


@pytest.mark.parametrize(
    "path", ["stores/no-such-store", "stores/%00", "stores/UPPER", "apps/999999999", f"accounts/{2**62}"]
)
async def test_an_unknown_id_is_not_found(operator: User, path: str) -> None:
    await operator.open(f"{OPERATORS}/{path}")
    assert operator.response.status_code == 404


# --- changes ------------------------------------------------------------------------------------------------


async def test_a_store_is_suspended_and_resumed(shop: Shop, operator: User, db: Database) -> None:
    page = f"{OPERATORS}/stores/{shop.store.handle}"
    await operator.open(page)
    await operator.submit(f"{page}/suspend")
    assert set(operator.faults) == {"reason", "confirmed"}
    await operator.submit(f"{page}/suspend", reason="Spam.", confirmed="on")
    assert operator.path == page
    assert "is suspended" in operator.notice
    entry = await latest_entry(db, shop.store_id)
    assert (entry.action, entry.actor) == ("store.suspended", f"account:{operator.account.id}")
    assert "Spam." in entry.detail
    assert entry.request_id.startswith("req_")
    await operator.open(f"{OPERATORS}/stores?status=suspended&q={shop.store.handle}")
    assert shop.store.handle in operator.text
    await operator.open(page)
    await operator.submit(f"{page}/resume")
    assert "is active again" in operator.notice
    assert (await latest_entry(db, shop.store_id)).action == "store.resumed"


async def test_an_app_is_suspended_and_resumed(
    shop: Shop, operator: User, maria: User, zeno: User, db: Database
) -> None:
    page = f"{OPERATORS}/apps/{shop.app_id}"
    await operator.open(page)
    assert "No owner." in operator.text
    await give(shop.operator, zeno.email, app=str(shop.app_id), role="owner")
    await give(shop.operator, maria.email, app=str(shop.app_id), role="developer")
    await operator.open(page)
    people = re.search(r"<dt>Team</dt><dd>(.*?)</dd>", operator.text)
    assert people
    shown = [re.sub(r"<[^>]+>", "", each) for each in people[1].split(", ")]
    assert shown == [f"Zeno {zeno.email} (owner)", f"Maria Stone {maria.email} (developer)"]
    assert f'href="{OPERATORS}/accounts/{zeno.account.id}"' in people[1]
    assert shop.store.handle in operator.text
    await operator.submit(f"{page}/suspend", reason="Spam.", confirmed="on")
    assert "is suspended" in operator.notice
    entry = await latest_entry(db, audit.SERVICE)
    assert (entry.action, entry.subject) == ("app.suspended", f"app:{shop.app_id}")
    basic = (shop.client_id, shop.client_secret)
    token = await shop.service.post("/oauth/token", data={"grant_type": "client_credentials"}, auth=basic)
    assert token.status_code >= 400
    await operator.submit(f"{page}/resume")
    assert "is active again" in operator.notice
    token = await shop.service.post("/oauth/token", data={"grant_type": "client_credentials"}, auth=basic)
    assert token.status_code == 200


async def test_a_disabled_account_is_signed_out(
    application: Application, operator: User, maria: User, db: Database
) -> None:
    page = f"{OPERATORS}/accounts/{maria.account.id}"
    await operator.open(page)
    await operator.submit(f"{page}/disable")
    assert operator.faults.keys() == {"reason", "confirmed"}, "one click does not sign anybody out"
    await maria.open("/portal")
    assert maria.path == "/portal"
    await operator.submit(f"{page}/disable", reason="Left the company.", confirmed="on")
    assert "can no longer sign in" in operator.notice
    entry = await latest_entry(db, audit.SERVICE)
    assert (entry.action, "Left the company." in entry.detail) == ("account.disabled", True)
    await maria.open("/portal")
    assert maria.path == "/portal/sign-in"
    await operator.submit(f"{page}/enable")
    again = await signed_in_browser(application, db, maria.account)
    await again.open("/portal")
    assert again.path == "/portal"
    await again.client.aclose()


async def test_operators_cannot_disable_their_own_account(operator: User) -> None:
    page = f"{OPERATORS}/accounts/{operator.account.id}"
    await operator.open(page)
    assert "Disable Olive Run" not in operator.text
    await operator.submit(f"{page}/disable", reason="A test.", confirmed="on")
    assert operator.response.status_code == 422
    assert "your own account" in operator.faults[""]
    await operator.open(page)
    assert operator.response.status_code == 200


async def test_an_operator_without_email_passes_a_reset_link_on(operator: User, maria: User, db: Database) -> None:
    page = f"{OPERATORS}/accounts/{maria.account.id}"
    await operator.open(page)
    assert "Create reset link" in operator.text
    await operator.submit(f"{page}/reset-password")
    found = re.search(r"http://[^\s<]+(/portal/new-password/[\w-]+)", operator.text)
    assert found
    assert (await latest_entry(db, audit.SERVICE)).action == "account.reset_offered"
    await maria.open("/portal")
    assert maria.path == "/portal", "the old password and its sessions stay until the link is used"
    assert (await maria.open(found[1])).status_code == 200
    await operator.open(page)
    await operator.submit(f"{page}/disable", reason="A test.", confirmed="on")
    await operator.submit(f"{page}/reset-password")
    assert operator.response.status_code == 422, "a disabled account gets no link"


async def test_other_accounts_do_not_see_the_operator_navigation(maria: User, operator: User) -> None:
    await maria.open("/portal")
    assert OPERATORS not in maria.text
    await operator.open("/portal")
    assert f"{OPERATORS}/health" in operator.text
