"""The pages of app subscriptions: declaring, changing, progress, removing, and the merchant who pauses one."""

import re

from stoa.db.pool import Database
from stoa.webhooks.app_subscription_rollout import apply_app_subscriptions
from stoa.webhooks.app_subscriptions import declared_by
from tests.portal.installed_app import InstalledApp
from tests.support.people import User

_SECRET = re.compile(r'id="signing-secret">(whsec_\w{44})<')


async def _declare(app: InstalledApp, maria: User) -> str:
    url = f"{app.path}/new-subscription"
    await maria.open(url)
    await maria.submit(
        url, name="prices", url="https://app.example.com/hooks", events=["product.*"], changed="price, metadata.tier"
    )
    return url


async def test_a_declaration_shows_the_secret_once_and_its_progress(
    app: InstalledApp, maria: User, db: Database
) -> None:
    await maria.open(f"{app.path}/subscriptions")
    assert "No app subscriptions" in maria.text
    url = await _declare(app, maria)
    assert _SECRET.search(maria.text)
    await maria.open(f"{app.path}/subscriptions")
    assert "0 of 1" in maria.text
    assert "Updating" in maria.text
    await apply_app_subscriptions(db)
    await maria.open(f"{app.path}/subscriptions")
    assert "1 of 1" in maria.text
    assert "Up to date" in maria.text
    await maria.open(url)
    await maria.submit(url, name="prices", url="https://app.example.com/hooks", events=["product.*"], changed="")
    assert maria.faults == {"name": "Another subscription of the app has this name."}
    await maria.submit(url, name="", url="", events=["product.*"], changed="")
    assert set(maria.faults) == {"name"}
    await maria.submit(url, name="other", url="https://app.example.com/x", events=["product.*"], changed="prise")
    assert "prise" in maria.faults["changed"]


async def test_a_declaration_is_changed_and_removed(app: InstalledApp, maria: User, db: Database) -> None:
    await _declare(app, maria)
    [declared] = await declared_by(db, app.app_id)
    url = f"{app.path}/subscriptions/{declared.id}"
    await maria.open(url)
    await maria.submit(
        url, name="prices", url="https://app.example.com/new", events=["product.updated"], changed="name"
    )
    assert maria.notice == "Saved. All stores get the change in the background."
    [changed] = await declared_by(db, app.app_id)
    assert (changed.url, changed.events, changed.changed) == (
        "https://app.example.com/new",
        ["product.updated"],
        ["name"],
    )
    await maria.submit(f"{url}/remove", confirmed="on")
    await maria.open(f"{app.path}/subscriptions")
    assert "Being removed" in maria.text
    await apply_app_subscriptions(db)
    assert await declared_by(db, app.app_id) == []


async def test_a_merchant_pauses_it_and_the_developer_sees_that(app: InstalledApp, maria: User, db: Database) -> None:
    await _declare(app, maria)
    await apply_app_subscriptions(db)
    page = f"/portal/stores/{app.handle}/apps/{app.app_id}"
    await maria.open(page)
    [webhook_id] = re.findall(rf"{page}/events/(\d+)/pause", maria.text)
    await maria.submit(f"{page}/events/{webhook_id}/pause")
    assert "kept until you resume" in (maria.notice or "")
    await maria.open(f"{app.path}/subscriptions")
    assert "Paused on 1 stores" in maria.text
    await maria.open(app.hook(int(webhook_id)))
    assert "The merchant of this store has paused it" in maria.text
    assert "Delete subscription" not in maria.text
    await maria.submit(f"{app.hook(int(webhook_id))}/resume", what="all")
    assert maria.response.status_code == 422
    assert (await declared_by(db, app.app_id))[0].paused_stores == 1
    await maria.open(page)
    await maria.submit(f"{page}/events/{webhook_id}/resume")
    [declared] = await declared_by(db, app.app_id)
    assert declared.paused_stores == 0
