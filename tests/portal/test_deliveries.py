"""Deliveries on pages: the log, payloads, attempts and redelivery."""

import re

import msgspec
import pytest

from stoa.access.grants import uninstall
from stoa.access.stores import suspend_store
from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.portal.deliveries import truncate_escaped
from stoa.webhooks.delivery.router import route_events
from tests.portal.installed_app import InstalledApp, install_app
from tests.portal.store_data import create_store_data
from tests.portal.webhook_data import CANARY, add_subscription, finish_delivery
from tests.support.people import User


async def test_the_log_is_filtered_and_paginated(app: InstalledApp) -> None:
    number = await app.add_deliveries(*(f"Mug {n}" for n in range(30)))
    await finish_delivery(app.by, app.store_id, number, 1, "failed", response_status=500)
    user = app.user
    await user.open(app.hook(number, "/deliveries"))
    assert "30 deliveries" in user.text
    following = re.search(r'href="(\?cursor=[^"]+)">Older', user.text)
    assert following
    await user.open(app.hook(number, f"/deliveries{following[1]}"))
    assert len(re.findall(r"/deliveries/\d+\"", user.text)) == 5
    await user.open(app.hook(number, "/deliveries?status=failed"))
    assert "1 delivery" in user.text
    await user.open(app.hook(number, "/deliveries?event_type=product.deleted"))
    assert "No matching deliveries" in user.text
    await user.open(app.hook(number, "/deliveries?event_type=product.*"))
    assert "30 deliveries" in user.text
    for hostile in (
        "status=nope",
        "cursor=x",
        "cursor=" + "a" * 9000,
        "event_type=%00",
        "status=<b>",
        "event_id=evt_nope",
    ):
        await user.open(app.hook(number, f"/deliveries?{hostile}"))
        assert user.response.status_code == 200, hostile


async def test_payload_and_responses_are_escaped(app: InstalledApp) -> None:
    number = await app.add_deliveries("<script>alert(1)</script>")
    body = "<img src=x onerror=alert(1)>" * 50
    await finish_delivery(app.by, app.store_id, number, 1, "failed", response_status=500, response_body=body)
    await app.user.open(app.hook(number, "/deliveries/1"))
    assert '"type": "product.created"' in app.user.text
    assert "<script>alert(1)</script>" in app.user.text
    assert "<script>alert(1)" not in app.user.response.text
    assert "<img" not in app.user.response.text
    await app.user.open(app.hook(number, "/deliveries/2"))
    assert app.user.response.status_code == 404


async def test_a_payload_is_hidden_without_the_scope(app: InstalledApp) -> None:
    number = await app.add_deliveries()
    await app.user.open(app.hook(number, "/deliveries/1"))
    assert CANARY in app.user.text
    await app.grant("webhooks:write")
    await app.user.open(app.hook(number, "/deliveries/1"))
    assert app.user.response.status_code == 200
    assert CANARY not in app.user.text
    assert "products:read" in app.user.text
    await app.user.submit(app.hook(number, "/test"), event="product.created")
    assert "does not grant this app products:read" in app.user.faults["event"]
    await app.grant("products:read")
    for rest in ("", "/deliveries", "/deliveries/1"):
        await app.user.open(app.hook(number, rest))
        assert app.user.response.status_code == 404
    await app.user.open(f"{app.path}/webhooks")
    assert app.handle not in app.user.text


@pytest.mark.parametrize("how", ["uninstalled", "suspended"])
async def test_deliveries_are_hidden_once_the_app_has_no_access(app: InstalledApp, how: str) -> None:
    number = await app.add_deliveries()
    if how == "uninstalled":
        await uninstall(app.by, app.client_id, app.handle)
    else:
        await suspend_store(app.by, app.handle)
    for path in (app.hook(number), app.hook(number, "/deliveries"), app.hook(number, "/deliveries/1")):
        await app.user.open(path)
        assert app.user.response.status_code == 404
        assert CANARY not in app.user.text
    for path in ("/webhooks", "/tail"):
        await app.user.open(app.path + path)
        assert "product.created" not in app.user.text


async def test_a_viewer_sees_no_payload(app: InstalledApp, zeno: User) -> None:
    number = await app.add_deliveries()
    await give(app.by, zeno.email, app=str(app.app_id), role="viewer")
    await zeno.open(app.hook(number, "/deliveries/1"))
    assert zeno.response.status_code == 200
    assert CANARY not in zeno.text
    assert "only owners of the app can see payloads" in zeno.text


async def test_one_delivery_or_a_period_is_redelivered(app: InstalledApp) -> None:
    number = await app.add_deliveries("Mug", "Cup", "Jug")
    for sequence in (1, 2):
        await finish_delivery(app.by, app.store_id, number, sequence, "failed", response_status=500)
    user = app.user
    await user.open(app.hook(number, "/deliveries/2"))
    await user.submit(app.hook(number, "/deliveries/2/again"))
    assert "Redelivering" in user.notice
    await user.submit(app.hook(number, "/redeliver"), since="2020-01-01T00:00", status="failed")
    assert user.notice == "Redelivering 2 deliveries."
    await user.submit(app.hook(number, "/redeliver"), since="2099-01-01T00:00")
    assert "No deliveries match" in user.notice
    redeliveries = await app.db.fetch(
        "SELECT sequences, status FROM redeliveries WHERE webhook_id = $1 ORDER BY id", number
    )
    assert [tuple(each) for each in redeliveries][:2] == [([2], None), (None, "failed")]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "since"),
        ({"since": "yesterday"}, "since"),
        ({"since": "0001-01-01T00:00"}, "since"),
        ({"since": "2026-01-01T00:00", "until": "2025-01-01T00:00"}, "until"),
        ({"since": "2026-01-01T00:00", "status": "held"}, "status"),
    ],
)
async def test_an_invalid_period_is_refused(app: InstalledApp, fields: dict[str, str], field: str) -> None:
    number = await app.add_deliveries()
    await app.user.open(app.hook(number, "/deliveries"))
    await app.user.submit(app.hook(number, "/redeliver"), fields)
    assert app.user.response.status_code == 422
    assert app.user.faults[field]


async def test_long_payloads_and_responses_are_truncated(app: InstalledApp) -> None:
    number = await app.add_deliveries('"' * 90_000)
    attempt = {
        "at": "2026-03-14T09:26:53Z",
        "duration_ms": 1,
        "response_status": 500,
        "response_body": '"<' * 2000,
        "error": None,
    }
    attempts = msgspec.json.encode([attempt] * 20).decode()
    await app.db.execute(
        "UPDATE pending_deliveries SET attempts = $2, attempt_count = 20 WHERE webhook_id = $1", number, attempts
    )
    await app.user.open(app.hook(number, "/deliveries/1"))
    assert app.user.response.status_code == 200
    assert len(app.user.response.content) < 150_000
    assert "returns the full payload" in app.user.text


def test_text_is_truncated_by_its_escaped_length() -> None:
    assert truncate_escaped("abc", 10) == ("abc", False)
    text, truncated = truncate_escaped("<" * 1000, 100)
    assert truncated
    assert 0 < len(text) * 4 <= 100
    assert truncate_escaped("abc", -5) == ("", True)


async def test_a_delivery_shows_the_number_of_its_order(maria: User, db: Database) -> None:
    reasons = {"orders:write": "To place them.", "webhooks:write": "To subscribe to changes."}
    app = await install_app(maria, db, reasons)
    webhook_id = await add_subscription(app.by, app.store_id, app.app_id, "order.*")
    placed = await create_store_data(app.by, app.handle)
    while (await route_events(db, [app.store_id % 64])).events:
        pass
    [[number]] = await db.fetch("SELECT number FROM orders WHERE store_id = $1", app.store_id)
    await maria.open(app.hook(webhook_id, "/deliveries"))
    assert f"order #{number}" in maria.text
    link = re.search(r'href="([^"]+/deliveries/\d+)"', maria.text)
    assert link
    await maria.open(link[1])
    assert f"order #{number} (ID {placed['order_id']})" in maria.text
    await app.grant("webhooks:write")  # the app can no longer read orders
    await maria.open(app.hook(webhook_id, "/deliveries"))
    assert f"#{number}" not in maria.text
