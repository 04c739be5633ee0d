"""Each kind of notification reaches the people who look after the app or store, in the portal and by email."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from stoa.access import apps
from stoa.access.operator import Operator
from stoa.accounts.install_requests import request_install, withdraw
from stoa.accounts.ownership import give, owned_app
from stoa.app import Application
from stoa.db.pool import Database
from stoa.notifications.contract import KINDS
from stoa.notifications.news import new_device
from stoa.notifications.notify import notify
from stoa.notifications.people import people_of
from stoa.webhooks.delivery.disabling import report_failing
from stoa.webhooks.delivery.retry_policy import HealthChange
from stoa.webhooks.expiring_secrets import remind_of_expiring_secrets
from tests.imports.files import import_file, lines, mug
from tests.support.ownership import create_app, create_store
from tests.support.people import PASSWORD, User, Visitor, browser
from tests.support.shops import Shop
from tests.webhooks.workers import subscribe

HOSTILE = "Walker <b>\u202e" + "x" * 150


async def told(db: Database, user: User) -> list[tuple[str, str, str]]:
    """Kind, title and path of the user's notifications in the portal."""
    rows = await db.fetch(
        "SELECT kind, title, path FROM notifications WHERE account_id = $1 AND shown ORDER BY id", user.account.id
    )
    return [tuple(row) for row in rows]  # pyright: ignore[reportReturnType]


async def mailed(db: Database, user: User) -> list[str]:
    rows = await db.fetch(
        "SELECT kind FROM mails WHERE account_id = $1 AND recipient = $2 ORDER BY id", user.account.id, user.email
    )
    return [row[0] for row in rows]


@pytest.fixture
async def owned(shop: Shop, maria: User, zeno: User, operator: Operator) -> str:
    """Maria owns the shop and its app, Zeno may look at both; returns the number of the app."""
    app = str(shop.app_id)
    await give(operator, maria.email, store=shop.store.handle, app=app)
    await give(operator, zeno.email, store=shop.store.handle, app=app, role="viewer")
    return app


async def test_a_failing_and_a_disabled_webhook_are_told_to_the_developers(
    shop: Shop, maria: User, zeno: User, db: Database, owned: str
) -> None:
    hook = await subscribe(shop, "https://receiver.example.com")
    now = datetime.now(UTC)
    for change in (HealthChange(opened=True), HealthChange(opened=True), HealthChange(disable="gone")):
        await report_failing(db, shop.store_id, hook.id, change, now)
    path = f"/portal/apps/{owned}/webhooks/{shop.store.handle}/{hook.id}"
    found = await told(db, maria)
    assert [(kind, where) for kind, _, where in found] == [("webhook_failing", path), ("webhook_disabled", path)]
    assert await mailed(db, maria) == ["webhook_failing", "webhook_disabled"]
    assert await told(db, zeno) == []
    await maria.open("/portal/notifications")
    assert "its receiver responded with 410 (gone)" in maria.text
    await maria.open(path)
    assert maria.response.status_code == 200


async def test_an_install_request_is_told_to_the_owners_of_the_store_once_an_hour(
    maria: User, zeno: User, db: Database, operator: Operator
) -> None:
    handle = await create_store(operator, maria)
    created = await create_app(operator, zeno)
    app = await owned_app(db, zeno.account.id, created.app_id)
    assert app is not None
    app.name = HOSTILE
    for message in ("May we?", "Please", "Now"):
        await request_install(operator, zeno.account.id, app, handle, message)
        await withdraw(operator, app, handle)
    [(kind, title, path)] = await told(db, maria)
    assert (kind, path) == ("install_request", f"/portal/stores/{handle}")
    assert title.startswith("Walker <b> xxx")
    assert "x… asks to be installed on Agora" in title
    assert await mailed(db, maria) == ["install_request"]
    await maria.open("/portal/notifications")
    assert "Walker &lt;b&gt; xxx" in maria.response.text
    assert await told(db, zeno) == []


async def test_a_suspension_is_told_with_its_reason(
    shop: Shop, maria: User, db: Database, operator: Operator, owned: str
) -> None:
    for _ in range(2):
        await apps.suspend_app(operator, owned, "It sells <b>e-mail addresses\r\nof customers")
    await apps.resume_app(operator, owned)
    [(kind, _, path)] = await told(db, maria)
    assert (kind, path) == ("app_suspended", f"/portal/apps/{owned}")
    [[body]] = await db.fetch("SELECT body FROM mails WHERE account_id = $1", maria.account.id)
    assert "The reason: It sells <b>e-mail addresses of customers\n" in body


async def test_a_secret_that_expires_soon_is_told_of_once(
    shop: Shop, maria: User, zeno: User, db: Database, operator: Operator, owned: str
) -> None:
    hook = await subscribe(shop, "https://receiver.example.com")
    await apps.rotate_secret(operator, owned, grace_hours=24)
    await remind_of_expiring_secrets(db)
    assert await told(db, maria) == []
    soon = datetime.now(UTC) + timedelta(hours=5)
    await db.execute(
        "UPDATE app_secrets SET expires_at = $2 WHERE app_id = $1 AND expires_at IS NOT NULL", shop.app_id, soon
    )
    await db.execute("UPDATE webhooks SET old_secret_expires_at = $2 WHERE id = $1", hook.id, soon)
    for _ in range(2):
        await remind_of_expiring_secrets(db)
    found = await told(db, maria)
    assert [kind for kind, _, _ in found] == ["secret_expires"] * 2
    assert {path for _, _, path in found} == {
        f"/portal/apps/{owned}/credentials",
        f"/portal/apps/{owned}/webhooks/{shop.store.handle}/{hook.id}",
    }
    await db.execute("UPDATE webhooks SET old_secret_expires_at = now() WHERE id = $1", hook.id)
    await db.execute(
        "UPDATE app_secrets SET expires_at = now() WHERE app_id = $1 AND expires_at IS NOT NULL", shop.app_id
    )


async def test_a_finished_import_is_told_to_the_owners_of_the_store_but_not_by_email(
    shop: Shop, maria: User, zeno: User, db: Database, owned: str
) -> None:
    good = await import_file(shop, lines([mug(1)]))
    await import_file(shop, lines([mug(2)]))
    bad = await import_file(shop, lines([mug(1), {"name": ""}]))
    found = await told(db, maria)
    assert [path for _, _, path in found] == [
        f"/portal/stores/{shop.store.handle}/imports/{job['id']}" for job in (good, bad)
    ]
    assert found[0][1].endswith("is finished")
    assert "but some rows failed" in found[1][1]
    assert await mailed(db, maria) == []
    assert await told(db, zeno) == []


async def test_a_sign_in_from_a_new_device_is_told_and_a_known_one_is_not(
    visitor: Visitor, maria: User, application: Application, db: Database
) -> None:
    async def sign_in(who: Visitor) -> None:
        await who.open("/portal/sign-in")
        await who.submit("/portal/sign-in", email=maria.email, password=PASSWORD)
        assert who.path == "/portal"

    visitor.client.headers["user-agent"] = "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0\x7f"
    await sign_in(visitor)
    assert "Notifications, 1 unread" in " ".join(re.sub(r"<[^>]+>", "", visitor.text).split())
    await visitor.submit("/portal/sign-out")
    await sign_in(visitor)
    assert [kind for kind, _, _ in await told(db, maria)] == ["new_device"]
    [[body]] = await db.fetch("SELECT body FROM notifications WHERE account_id = $1", maria.account.id)
    assert "with Firefox on Linux at the address 10." in body
    async with browser(application) as client:
        client.cookies.set("stoa_device", "forged", domain="testserver.local")
        await sign_in(Visitor(client))
    assert [kind for kind, _, _ in await told(db, maria)] == ["new_device"] * 2
    assert await mailed(db, maria) == ["new_device"] * 2


async def test_a_notification_is_rolled_back_with_its_cause(maria: User, db: Database) -> None:
    async def fail() -> None:
        async with db.transaction() as connection:
            await notify(connection, [maria.account.id], new_device("Firefox", "192.0.2.1", "x"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await told(db, maria) == []
    assert await mailed(db, maria) == []


async def test_disabled_accounts_and_viewers_are_not_told(
    shop: Shop, maria: User, zeno: User, db: Database, owned: str
) -> None:
    assert await people_of(db, app_id=shop.app_id, store_id=shop.store_id) == [maria.account.id]
    await db.execute("UPDATE accounts SET status = 'disabled' WHERE id = $1", maria.account.id)
    await notify(db, [maria.account.id], new_device("Firefox", "192.0.2.1", "x"))
    assert await told(db, maria) == []
    assert len(KINDS) == 7
