"""Access tokens for developers: of their own apps, on stores that installed them, audited and short-lived."""

from typing import Any

import httpx

from stoa.access import audit
from stoa.access.apps import resume_app, suspend_app
from stoa.access.grants import install, uninstall
from stoa.access.stores import suspend_store
from stoa.accounts.ownership import give, open_store
from stoa.db.pool import Database
from stoa.portal.apps.access_tokens import LIFETIME_S
from tests.portal.installed_app import InstalledApp, install_app
from tests.support.people import SAME_ORIGIN, User

JSON = {"accept": "application/json"}


async def choices(user: User) -> dict[str, Any]:
    response = await user.client.get("/portal/access-token", headers=JSON)
    assert response.headers["cache-control"] == "no-store"
    return response.json()


async def request(user: User, app_id: int, store: str, token: str | None = None) -> httpx.Response:
    form_token = (await choices(user))["form_token"] if token is None else token
    data = {"_token": form_token, "store": store}
    return await user.client.post(f"/portal/apps/{app_id}/access-token", data=data, headers={**SAME_ORIGIN, **JSON})


async def test_a_developer_sees_only_own_apps_on_stores_that_installed_them(
    maria: User, zeno: User, db: Database, app: InstalledApp
) -> None:
    foreign = await install_app(zeno, db)
    await install(app.by, app.client_id, foreign.handle, ["products:read"])  # Maria's app on Zeno's store
    await give(app.by, maria.email, app=foreign.client_id, role="viewer")
    (listed,) = (await choices(maria))["apps"]
    assert (listed["id"], listed["name"]) == (app.app_id, "Walker")
    assert [(each["handle"], each["own"], each["scopes"]) for each in listed["stores"]] == [
        (app.handle, True, ["products:read", "webhooks:write"]),
        (foreign.handle, False, ["products:read"]),
    ]
    guest = await zeno.client.get("/portal/access-token", headers={**JSON, "cookie": "stoa_session=x"})
    assert (guest.status_code, guest.headers["location"]) == (303, "/portal/sign-in?next=/portal/access-token")


async def test_a_token_works_on_its_store_only_expires_soon_and_is_in_the_audit_log(
    maria: User, db: Database, app: InstalledApp
) -> None:
    other = await open_store(app.by, maria.account.id, f"second-{app.app_id}", "Second", "EUR")
    await install(app.by, app.client_id, other.handle)
    issued = (await request(maria, app.app_id, app.handle)).json()
    assert issued["scope"] == "products:read webhooks:write"
    assert issued["expires_in"] == LIFETIME_S
    headers = {"authorization": f"Bearer {issued['access_token']}"}
    for handle, status in ((app.handle, 200), (other.handle, 401)):
        response = await maria.client.get(f"/stores/{handle}/api/v3/app/products", headers=headers)
        assert response.status_code == status
    (entry,) = await audit.newest(db, app.store_id, 1)
    assert (entry.action, entry.actor, entry.subject) == (
        "token.issued",
        f"account:{maria.account.id}",
        f"app:{app.app_id}",
    )
    assert issued["access_token"] not in entry.detail


async def test_no_token_is_issued_to_others_or_for_other_stores(
    maria: User, zeno: User, db: Database, app: InstalledApp
) -> None:
    foreign = await install_app(zeno, db)
    before = await audit.head(db, app.store_id), await audit.head(db, foreign.store_id)
    assert (await request(zeno, app.app_id, app.handle)).status_code == 404
    await give(app.by, zeno.email, app=app.client_id, role="viewer")
    assert (await request(zeno, app.app_id, app.handle)).status_code == 403
    assert (await request(maria, app.app_id, app.handle, token="")).status_code == 403
    theirs = (await choices(zeno))["form_token"]
    assert (await request(maria, app.app_id, app.handle, token=theirs)).status_code == 403
    for store in (foreign.handle, "no-such-store", "NOT A HANDLE", ""):
        refused = await request(maria, app.app_id, store)
        assert refused.status_code == 422
        assert set(refused.json()["faults"]) == {"store"}
    await suspend_app(app.by, app.client_id)
    assert (await choices(maria))["apps"] == []
    refused = await request(maria, app.app_id, app.handle)
    assert refused.json()["faults"] == {"store": "The app or the store is suspended. No token was issued."}
    await resume_app(app.by, app.client_id)
    await suspend_store(app.by, app.handle)
    assert (await choices(maria))["apps"] == []
    assert (await request(maria, app.app_id, app.handle)).status_code == 422
    actions = [each.action for each in await audit.newest(db, app.store_id, 3)]
    assert "token.issued" not in actions
    assert (await audit.head(db, foreign.store_id)) == before[1]


async def test_tokens_are_rate_limited_because_each_is_in_the_log_of_a_store(maria: User, app: InstalledApp) -> None:
    form_token = (await choices(maria))["form_token"]
    statuses = [(await request(maria, app.app_id, app.handle, form_token)).status_code for _ in range(11)]
    assert statuses == [200] * 10 + [429]


async def test_the_page_issues_a_token_without_script(maria: User, app: InstalledApp) -> None:
    await maria.open(f"{app.path}/credentials")
    assert 'href="/portal/access-token"' in maria.text
    await maria.open("/portal/access-token")
    await maria.submit(f"{app.path}/access-token", store=app.handle)
    assert maria.response.status_code == 200
    assert "The token is shown only now." in maria.text
    assert "content-encoding" not in maria.response.headers
    await maria.open("/portal/access-token")
    await maria.submit(f"{app.path}/access-token", store="no-such-store")
    assert maria.faults == {"store": "The app is not installed on this store. Install it there first."}
    await uninstall(app.by, app.client_id, app.handle)
    await maria.open("/portal/access-token")
    assert "No app to call with" in maria.text
