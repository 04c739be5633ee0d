"""The bell, the list of notifications, and the preferences of a person."""

import re

from stoa.db.pool import Database
from stoa.notifications.contract import KINDS, News
from stoa.notifications.notify import notify
from stoa.operations.maintenance import maintain
from stoa.portal.kit.pages import ROOT
from tests.support.people import User


def unread(user: User) -> str:
    """The number beside the bell; empty if everything is read."""
    found = re.search(r'<a class="bell".*?</a>', user.response.text, re.DOTALL)
    assert found
    number = re.search(r"<b>(.*?)</b>", found[0])
    return number[1] if number else ""


async def tell(db: Database, user: User, subject: str, kind: str = "app_suspended", path: str = f"{ROOT}/apps") -> None:
    await notify(db, [user.account.id], News(kind, subject, f"Title {subject}", "Body", path, "Open the apps"))


async def numbers(db: Database, user: User) -> list[int]:
    return [
        row[0]
        for row in await db.fetch("SELECT id FROM notifications WHERE account_id = $1 ORDER BY id", user.account.id)
    ]


async def test_notifications_are_listed_opened_and_marked_as_read(maria: User, zeno: User, db: Database) -> None:
    await maria.open("/portal/notifications")
    assert "No notifications" in maria.text
    assert unread(maria) == ""
    for subject in ("one", "two", "three"):
        await tell(db, maria, subject)
    await maria.open("/portal")
    assert unread(maria) == "3"
    one, two, three = await numbers(db, maria)
    await maria.open("/portal/notifications")
    assert maria.text.index("Title three") < maria.text.index("Title one")
    await maria.submit(f"/portal/notifications/{two}/open")
    assert maria.path == "/portal/apps"
    assert unread(maria) == "2"
    await maria.open("/portal/notifications")
    await maria.submit(f"/portal/notifications/{one}/read")
    assert unread(maria) == "1"
    await tell(db, maria, "while the page is open")
    await maria.submit("/portal/notifications/read", newest=three)
    assert maria.notice == "All notifications are marked as read."
    assert unread(maria) == "1"
    await zeno.open("/portal/notifications")
    assert "Title" not in re.sub(r"<title>.*?</title>", "", zeno.text)
    for action in ("open", "read"):
        await zeno.submit(f"/portal/notifications/{one}/{action}")
        assert zeno.response.status_code == 404
        await zeno.open("/portal/notifications")
    await zeno.submit("/portal/notifications/read", newest=2**62 - 1)
    await maria.open("/portal")
    assert unread(maria) == "1"


async def test_a_link_never_leaves_the_portal(maria: User, db: Database) -> None:
    await tell(db, maria, "evil", path="https://evil.example.com/")
    await maria.open("/portal/notifications")
    await maria.submit(f"/portal/notifications/{(await numbers(db, maria))[0]}/open")
    assert maria.path == "/portal"


async def test_preferences_decide_where_a_person_is_told(maria: User, db: Database) -> None:
    await maria.open("/portal/account")
    assert "This service does not send email yet" in maria.text
    everything = list(KINDS)
    await maria.submit(
        "/portal/account/notifications",
        portal=[each for each in everything if each != "app_suspended"],
        email=["import_finished", "no such kind"],
    )
    assert maria.notice == "Preferences saved."
    assert 'value="app_suspended" aria-label="App suspended: in the portal">' in maria.text
    assert 'value="import_finished" aria-label="Import finished: by email" checked>' in maria.text
    for kind in everything:
        await tell(db, maria, "preferred", kind)
        await tell(db, maria, "preferred", kind)
    shown = await db.fetch("SELECT kind FROM notifications WHERE account_id = $1 AND shown", maria.account.id)
    assert {row[0] for row in shown} == set(everything) - {"app_suspended"}
    assert len(shown) == len(everything) - 1
    mails = await db.fetch("SELECT kind FROM mails WHERE account_id = $1", maria.account.id)
    assert [row[0] for row in mails] == ["import_finished"]
    await maria.open("/portal/notifications")
    assert unread(maria) == str(len(everything) - 1)


async def test_many_notifications_have_pages_and_old_ones_are_deleted(maria: User, db: Database) -> None:
    for number in range(120):
        await tell(db, maria, str(number))
    await maria.open("/portal/notifications")
    assert unread(maria) == "99+"
    assert len(maria.response.content) < 40_000
    older = re.search(r'href="(\?before=\d+)" rel="next"', maria.response.text)
    assert older
    await maria.open(f"/portal/notifications{older[1]}")
    assert "Title 94" in maria.text
    assert "Title 95" not in maria.text
    await db.execute(
        "UPDATE notifications SET created_at = now() - interval '91 days' WHERE account_id = $1", maria.account.id
    )
    await maintain(db)
    assert await numbers(db, maria) == []


async def test_a_deleted_account_takes_its_mails_notifications_and_devices_along(maria: User, db: Database) -> None:
    await tell(db, maria, "gone soon")
    await maria.open("/portal/account")
    await maria.submit("/portal/account/notifications", portal=["app_suspended"])
    await db.execute("DELETE FROM accounts WHERE id = $1", maria.account.id)
    for table in ("mails", "notifications", "notification_preferences", "account_devices"):
        assert await db.fetch(f"SELECT FROM {table} WHERE account_id = $1", maria.account.id) == []
    assert await db.fetch("SELECT FROM mails WHERE recipient = $1", maria.email) == []
