"""Audit log pages: entries, actors, verification of the hash chain, and access."""

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta

from stoa.access import apps, audit
from stoa.access.apps import suspend_app
from stoa.access.deploy_tokens import create_deploy_token
from stoa.access.grants import install, revoke_all_tokens
from stoa.access.stores import resume_store, suspend_store, update_store
from stoa.accounts import teams
from stoa.accounts.contract import Team
from stoa.accounts.ownership import give, open_store, take
from stoa.accounts.registration import disable_account
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.installed_app import REASONS, InstalledApp
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


async def test_people_and_operators_are_shown_by_name_also_after_they_have_left(
    application: Application, maria: User, zeno: User, db: Database, settings: Settings
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
    operator = await create_user(application, db, operator=True, name="Olive Run")
    await operator.open(f"/portal/operators/stores/{store.handle}")
    await operator.submit(f"/portal/operators/stores/{store.handle}/suspend", reason="Spam.", confirmed="on")
    by.actor = "account:987654"
    await resume_store(by, store.handle)
    await zeno.open(f"/portal/stores/{store.handle}/audit")
    for actor in ("Maria Stone (not in the team)", "Operator Olive Run", "Account 987654"):
        assert f">{actor}<" in zeno.text, actor
        assert f">{actor}</option>" in zeno.text, "the filter names them too"
    assert "@" not in zeno.response.text.partition("<main")[2], "names, not addresses"
    await give(as_operator(db, settings), operator.email, store=store.handle, role="viewer")
    await zeno.open(f"/portal/stores/{store.handle}/audit")
    assert ">Olive Run<" in zeno.text, "an operator who is in the team is a member"
    await operator.open(f"/portal/operators/audit?store={store.handle}")
    assert ">Maria Stone<" in operator.text, "to operators, a team is nothing special"
    await operator.client.aclose()


async def test_a_text_that_looks_like_an_account_is_shown_as_it_is(
    app: InstalledApp, maria: User, zeno: User, db: Database
) -> None:
    stranger, me = f"account:{zeno.account.id}", f"account:{maria.account.id}"
    await apps.change_app(app.by, app.client_id, stranger, list(REASONS))
    await apps.change_app(app.by, app.client_id, me, list(REASONS))
    await create_deploy_token(app.by, app.client_id, stranger, days=1)
    await update_store(app.by, app.handle, name=stranger)
    for url in (app.path, f"/portal/stores/{app.handle}"):
        await maria.open(f"{url}/audit")
        assert stranger in maria.text
        assert "not in the team" not in maria.text
    await maria.open(f"{app.path}/audit")
    assert f'<span class="soft">name</span> <del>{stranger}</del> → {me}' in maria.text


async def test_the_members_that_an_entry_names_are_shown_by_name(app: InstalledApp, maria: User, zeno: User) -> None:
    await give(app.by, zeno.email, app=str(app.app_id), role="viewer")
    by, team = app.by, Team("app", app.app_id, "Walker")
    await teams.offer_ownership(by, team, maria.account.id, zeno.account.id)
    await teams.accept_ownership(by, team, zeno.account.id)
    await zeno.open(f"{app.path}/audit")
    assert '<span class="soft">former owner</span> Maria Stone' in zeno.text
    assert '<span class="soft">member</span> You' in zeno.text


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


async def entries(user: User, url: str, query: str = "") -> list[str]:
    await user.open(f"{url}{query}")
    assert user.response.status_code == 200, query
    return re.findall(r"<tr><td><b>([^<]+)</b>", user.text)


async def test_the_log_of_a_store_is_filtered(shop: Shop, maria: User, store_url: str) -> None:
    await suspend_store(shop.operator, shop.store.handle)
    url, today = f"{store_url}/audit", datetime.now(UTC).date()
    everything = await entries(maria, url)
    assert everything == ["Store suspended", "Store shared", "App installed", "Store created"]
    for query, expected in {
        "?action=app.installed": ["App installed"],
        f"?app=app:{shop.app_id}": ["App installed"],
        "?actor=operator:tests": everything,
        "?actor=nobody": [],
        f"?since={today - timedelta(days=1)}&until={today + timedelta(days=1)}": everything,
        f"?since={today + timedelta(days=2)}": [],
        f"?until={today - timedelta(days=2)}": [],
        "?since=soon&until=%00": everything,
    }.items():
        assert await entries(maria, url, query) == expected, query
    assert '<option value="app.installed"' in maria.text
    assert f'<option value="app:{shop.app_id}"' in maria.text


async def test_operators_search_all_logs(application: Application, shop: Shop, maria: User, db: Database) -> None:
    operator = await create_user(application, db, operator=True)
    url = "/portal/operators/audit"
    by = as_operator(db, application.settings)
    by.actor = f"account:{operator.account.id}"
    store = await open_store(by, maria.account.id, f"audited-{maria.account.id}", "Audited", "EUR")
    await suspend_store(by, store.handle)
    await install(by, shop.client_id, store.handle)
    await suspend_app(by, shop.client_id, "Too many requests")
    me = f"person={operator.email}"
    assert await entries(operator, url, f"?{me}") == ["App suspended"]
    assert "Store created" not in await entries(operator, url)
    of_store = await entries(operator, url, f"?store={store.handle}")
    assert of_store == ["App installed", "Store suspended", "Store created"]
    everywhere = await entries(operator, url, f"?log=all&person={operator.account.id}")
    assert everywhere == ["App suspended", "App installed", "Store suspended", "Store created"]
    assert f">{store.handle}</a></small>" in operator.text
    assert await entries(operator, url, f"?log=all&{me}&app={shop.app_id}") == ["App suspended", "App installed"]
    assert await entries(operator, url, f"?log=all&{me}&app={shop.client_id}&action=app.installed") == ["App installed"]
    for query, fault in (
        ("person=nobody@example.com", "No account has this email or number."),
        ("app=%27--", "No app has this ID."),
        ("store=../..", "No store has this handle."),
    ):
        assert await entries(operator, url, f"?log=all&{query}") == []
        assert fault in operator.text
    await operator.open(f"/portal/operators/apps/{shop.app_id}")
    assert f'href="{url}?log=all&amp;app={shop.app_id}"' in operator.response.text
    await operator.client.aclose()


async def test_pages_of_all_logs_follow_each_other(application: Application, db: Database, shop: Shop) -> None:
    operator = await create_user(application, db, operator=True)
    for _ in range(20):
        await suspend_store(shop.operator, shop.store.handle)
        await resume_store(shop.operator, shop.store.handle)
    await revoke_all_tokens(shop.operator, shop.client_id)
    url, query, found = "/portal/operators/audit", f"?log=all&app={shop.app_id}", 0
    wanted = "?log=all&action=store.suspended"
    while wanted:
        rows = await entries(operator, url, wanted)
        found += operator.text.count(f">{shop.store.handle}</a></small>")
        following = re.search(r'href="(\?[^"]+)" rel="next"', operator.response.text)
        wanted = following[1].replace("&amp;", "&") if following and rows else ""
    assert found == 20
    assert await entries(operator, url, query) == ["Token all revoked", "App installed", "App created"]
    await operator.client.aclose()


async def test_a_change_shows_the_value_before_and_after(
    application: Application, shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    by = shop.operator
    before = shop.store.name
    await update_store(by, shop.store.handle, name="Renamed", timezone="Europe/Berlin")
    await install(by, shop.client_id, shop.store.handle, ["products:read"])
    await maria.open(f"{store_url}/audit")
    for name, old, new in (("name", before, "Renamed"), ("timezone", "UTC", "Europe/Berlin")):
        assert f'<span class="soft">{name}</span> <del>{old}</del> → {new}' in maria.text
    assert re.search(r"scopes</span> <del>[^<]*orders:write[^<]*</del> → products:read", maria.text)
    assert "/portal/operators" not in maria.response.text, "a team gets no links to pages of operators"
    found = await apps.change_app(by, shop.client_id, "<b>Bold", ["products:read"])
    operator = await create_user(application, db, operator=True)
    await operator.open(f"/portal/operators/audit?log=all&app={shop.app_id}&action=app.changed")
    assert re.search(r"name</span> <del>[^<]+</del> → &lt;b&gt;Bold", operator.response.text.replace("\n", " "))
    assert f'<a href="/portal/operators/apps/{found.id}">app {found.id}</a>' in operator.text
    await operator.open(f"/portal/operators/audit?store={shop.store.handle}")
    assert f'<a href="/portal/operators/stores/{shop.store.handle}">store {shop.store.handle}</a>' in operator.text
    await operator.client.aclose()


async def test_people_and_other_subjects_are_links_for_operators(
    application: Application, maria: User, db: Database
) -> None:
    operator = await create_user(application, db, operator=True)
    by = as_operator(db, application.settings)
    by.actor = f"account:{operator.account.id}"
    await disable_account(by, maria.email, "A test.")
    await operator.open("/portal/operators/audit?action=account.disabled")
    assert f'<a href="/portal/operators/accounts/{maria.account.id}">Maria Stone</a>' in operator.text
    assert f'<a href="/portal/operators/accounts/{operator.account.id}">You</a>' in operator.text
    await operator.client.aclose()


async def exported(user: User, query: str) -> list[dict[str, str]]:
    await user.open(f"/portal/operators/audit{query}")
    await user.submit(f"/portal/operators/audit/export{query}")
    assert user.response.headers["content-type"] == "text/csv; charset=utf-8"
    assert 'filename="audit-log.csv"' in user.response.headers["content-disposition"]
    return list(csv.DictReader(io.StringIO(user.response.content.decode("utf-8-sig"))))


async def test_operators_export_what_the_filters_find(application: Application, db: Database, shop: Shop) -> None:
    operator = await create_user(application, db, operator=True)
    by = shop.operator
    for _ in range(270):
        await suspend_store(by, shop.store.handle, '=HYPERLINK("x")')
        await resume_store(by, shop.store.handle)
    of_store = await exported(operator, f"?store={shop.store.handle}")
    assert [int(each["position"]) for each in of_store] == list(range(len(of_store), 0, -1)), "more than one page"
    assert len(of_store) > 540
    everywhere = await exported(operator, "?log=all&action=store.suspended")
    mine = [each for each in everywhere if each["log"] == shop.store.handle]
    assert len(mine) == len({each["position"] for each in mine}) == 270, "each entry once"
    assert mine[0]["subject"] == f"store:{shop.store.handle}"
    assert json.loads(mine[0]["detail"]) == {"reason": '=HYPERLINK("x")'}
    assert [each["action"] for each in await exported(operator, "?action=audit.exported")][:2] == ["audit.exported"] * 2
    assert await exported(operator, "?store=no-such-store") == []
    entry = (await audit.newest(db, audit.SERVICE, 1))[0]
    assert (entry.action, entry.detail) == ("audit.exported", '{"filters":["store"]}')
    assert entry.actor == f"account:{operator.account.id}"
    await operator.client.aclose()


async def test_entries_of_one_microsecond_are_all_exported(application: Application, db: Database, shop: Shop) -> None:
    operator = await create_user(application, db, operator=True)
    await db.execute(
        """INSERT INTO audit_entries (store_id, position, action, actor, subject, detail, request_id, created_at, seal)
           SELECT $1, 1000 + n, 'test.same_moment', 'nobody', '-evil', '{}', 'req_x', '2026-01-01T00:00:00Z', '' FROM generate_series(1, 20) n""",
        shop.store_id,
    )
    rows = await exported(operator, "?log=all&action=test.same_moment")
    assert len({each["position"] for each in rows}) == len(rows) == 20
    assert {each["subject"] for each in rows} == {"'-evil"}, "nothing that a spreadsheet computes"
    await operator.client.aclose()
