"""Announcements: an operator writes them, and everybody sees them at the right time until they are dismissed."""

from datetime import UTC, datetime, timedelta

import pytest

from stoa.access import audit
from stoa.accounts.announcements import announce
from stoa.app import Application
from stoa.db.pool import Database
from tests.support.people import User, as_operator, create_user

NOW = datetime.now(UTC)
TEXT = "The service is <b>down on Sunday & nobody\nminds."


@pytest.fixture(autouse=True)
async def no_announcements(db: Database) -> None:
    await db.execute("DELETE FROM announcements")


def local(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M}"


async def test_an_announcement_is_shown_to_all_and_dismissed_by_each(
    application: Application, db: Database, maria: User, zeno: User
) -> None:
    operator = await create_user(application, db, operator=True)
    await operator.open("/portal/operators/announcements")
    ends_at = local(NOW + timedelta(days=1))
    await operator.submit(
        "/portal/operators/announcements", text=TEXT, starts_at=local(NOW - timedelta(hours=1)), ends_at=ends_at
    )
    assert operator.notice == "The announcement is saved."
    await operator.submit(
        "/portal/operators/announcements", text="Later", starts_at=local(NOW + timedelta(hours=1)), ends_at=ends_at
    )
    [[number]] = await db.fetch("SELECT id FROM announcements WHERE text = $1", TEXT)
    for user in (maria, zeno):
        await user.open("/portal/account")
        assert "down on Sunday &amp; nobody" in user.response.text
        assert "&lt;b&gt;down" in user.response.text
        assert "Later" not in user.text
    await maria.submit(f"/portal/announcements/{number}/dismiss", next="/portal/account")
    assert maria.path == "/portal/account"
    assert "down on Sunday" not in maria.text
    await maria.submit(f"/portal/announcements/{number}/dismiss", next="https://evil.example.com/")
    assert maria.path == "/portal"
    await maria.open("/portal/announcements")
    assert "down on Sunday" in maria.text
    await zeno.open("/portal")
    assert "down on Sunday" in zeno.text
    await operator.open("/portal/operators/announcements")
    assert "Planned" in operator.text
    await operator.submit(f"/portal/operators/announcements/{number}/end")
    assert operator.notice == "The announcement is no longer shown."
    await operator.submit(f"/portal/operators/announcements/{number}/end")
    assert operator.notice == "This announcement is already over."
    await zeno.open("/portal")
    assert "down on Sunday" not in zeno.text
    await zeno.client.get("/portal/announcements")
    await operator.client.aclose()


@pytest.mark.parametrize(
    ("starts_at", "ends_at", "field"),
    [
        ("2026-01-01T00:00", "2025-01-01T00:00", "ends_at"),
        (local(NOW), local(NOW - timedelta(minutes=1)), "ends_at"),
        (local(NOW), local(NOW + timedelta(days=400)), "ends_at"),
        ("tomorrow", local(NOW + timedelta(days=1)), "starts_at"),
        (local(NOW), "9999-99-99T00:00", "ends_at"),
        (local(NOW), "9999-12-31T23:59-23:59", "ends_at"),
        (local(NOW), "", "ends_at"),
        ("0001-01-01T00:00+23:59", local(NOW + timedelta(days=1)), "ends_at"),
    ],
    # Without ids, a process that collects a minute later would have other tests.
    ids=["reversed", "over", "too long", "no start", "no month", "no date", "no end", "too early"],
)
async def test_a_period_that_makes_no_sense_is_refused(
    application: Application, db: Database, starts_at: str, ends_at: str, field: str
) -> None:
    operator = await create_user(application, db, operator=True)
    await operator.open("/portal/operators/announcements")
    await operator.submit("/portal/operators/announcements", text=TEXT, starts_at=starts_at, ends_at=ends_at)
    assert set(operator.faults) == {field}
    assert await db.fetch("SELECT FROM announcements") == []
    await operator.client.aclose()


async def test_only_three_announcements_take_space_on_a_page(
    application: Application, db: Database, maria: User
) -> None:
    by = as_operator(db, application.settings)
    for number in range(5):
        await announce(by, f"News {number} " + "x" * 480, NOW - timedelta(hours=1), NOW + timedelta(hours=1), NOW)
    await maria.open("/portal")
    assert maria.text.count('aria-label="Announcement"') == 3
    await db.execute("DELETE FROM announcements")


@pytest.mark.parametrize(
    "url", ["https://status.example.com/incident?id=1", "/docs/changelog", "/portal/notifications"]
)
async def test_an_announcement_leads_to_a_page(application: Application, db: Database, maria: User, url: str) -> None:
    operator = await create_user(application, db, operator=True)
    await operator.open("/portal/operators/announcements")
    fields = {"text": "News", "starts_at": local(NOW - timedelta(hours=1)), "ends_at": local(NOW + timedelta(days=1))}
    await operator.submit("/portal/operators/announcements", fields, link_url=url, link_label="Read <more>")
    for _ in range(2):
        await operator.submit("/portal/operators/announcements", fields, link_url=url, link_label="Read <more>")
    assert [row[0] for row in await db.fetch("SELECT link_url FROM announcements")] == [url], (
        "submitted twice, made once"
    )
    rel = ' rel="noopener noreferrer" target="_blank"' if url.startswith("https") else ""
    for page in ("/portal", "/portal/announcements"):
        await maria.open(page)
        assert f'<a href="{url}"{rel}>Read &lt;more&gt;</a>' in maria.response.text, page
    assert url in (await audit.newest(db, audit.SERVICE, 1))[0].detail
    await operator.client.aclose()


@pytest.mark.parametrize(
    "url",
    [
        "http://status.example.com",
        "javascript:alert(1)",
        "//evil.example.com",
        "/portalevil",
        "/docs/ x",
        "https://user:pass@example.com",
        "https://",
        "/stores/demo",
        "x" * 501,
    ],
)
async def test_a_link_elsewhere_is_refused(application: Application, db: Database, url: str) -> None:
    operator = await create_user(application, db, operator=True)
    await operator.open("/portal/operators/announcements")
    times = {"starts_at": local(NOW), "ends_at": local(NOW + timedelta(days=1))}
    await operator.submit("/portal/operators/announcements", times, text="News", link_url=url)
    assert operator.response.status_code == 422
    assert set(operator.faults) == {"link_url"}
    assert await db.fetch("SELECT FROM announcements") == []
    await operator.client.aclose()
