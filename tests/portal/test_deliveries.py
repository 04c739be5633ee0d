"""Deliveries on pages: the log, payloads, attempts and redelivery."""

import re

import msgspec
import pytest

from stoa.access.grants import uninstall
from stoa.access.stores import suspend_store
from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.portal.apps.deliveries import truncate_escaped
from stoa.webhooks.delivery.router import route_events
from stoa.webhooks.http.message import HIDDEN
from tests.portal.installed_app import InstalledApp, install_app
from tests.portal.store_data import create_store_data
from tests.portal.webhook_data import CANARY, add_subscription, finish_delivery
from tests.support.people import User


async def test_the_log_is_filtered_and_paginated(app: InstalledApp) -> None:
    number = await app.add_deliveries(*(f"Mug {n}" for n in range(30)))
    await finish_delivery(await app.at_store(), app.store_id, number, 1, "failed", response_status=500)
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
    await finish_delivery(
        await app.at_store(), app.store_id, number, 1, "failed", response_status=500, response_body=body
    )
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
    assert "only owners and developers of the app can see payloads and responses" in zeno.text


async def test_a_viewer_sees_no_response_of_a_receiver(app: InstalledApp, zeno: User) -> None:
    number = await app.add_deliveries()
    await finish_delivery(
        await app.at_store(), app.store_id, number, 1, "failed", response_status=503, response_body=f"Bad: {CANARY}"
    )
    await app.user.open(app.hook(number, "/deliveries/1"))
    assert f"Bad: {CANARY}" in app.user.text
    await give(app.by, zeno.email, app=str(app.app_id), role="viewer")
    await zeno.open(app.hook(number, "/deliveries/1"))
    assert "<b>503</b>" in zeno.text
    assert CANARY not in zeno.text
    assert "Truncated" not in zeno.text


async def test_one_delivery_or_a_period_is_redelivered(app: InstalledApp) -> None:
    number = await app.add_deliveries("Mug", "Cup", "Jug")
    for sequence in (1, 2):
        await finish_delivery(await app.at_store(), app.store_id, number, sequence, "failed", response_status=500)
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


async def shown(app: InstalledApp, number: int, query: str) -> list[str]:
    """The sequences in the log, newest first."""
    await app.user.open(app.hook(number, f"/deliveries{query}"))
    assert app.user.response.status_code == 200, query
    return re.findall(r'/deliveries/(\d+)"', app.user.text)


async def test_deliveries_are_found_by_event_resource_and_time(app: InstalledApp) -> None:
    number = await app.add_deliveries("Mug", "Cup", "Jug")
    rows = await app.db.fetch("SELECT event_id FROM delivery_log WHERE webhook_id = $1 ORDER BY sequence", number)
    for query, expected in {
        f"?event_id={rows[1][0]}": ["2"],
        "?resource=3": ["3"],
        "?resource=3&resource_type=product": ["3"],
        "?resource=3&resource_type=customer": [],
        "?resource=%233": [],  # the number of an order
        "?resource=3&resource_type=order": [],
        "?since=2020-01-01T00:00&until=2099-01-01T00:00": ["3", "2", "1"],
        "?since=2099-01-01T00:00": [],
        "?until=2020-01-01T00:00": [],
        "?resource=x&since=soon": ["3", "2", "1"],
    }.items():
        assert await shown(app, number, query) == expected, query


async def test_selected_deliveries_are_redelivered(app: InstalledApp, zeno: User) -> None:
    number = await app.add_deliveries("Mug", "Cup", "Jug")
    user = app.user
    await user.open(app.hook(number, "/deliveries?resource_type=product"))
    action = f"{app.hook(number, '/redeliver-selected')}?resource_type=product"
    assert f'action="{action}"' in user.text
    await user.submit(action)
    assert user.faults["deliveries"] == "Select at least one delivery."
    await user.submit(action, deliveries=["1", "3", "3"])
    assert user.notice == "Redelivering 2 deliveries."
    assert str(user.response.url).endswith("/deliveries?resource_type=product")
    await user.submit(action, deliveries=["1", "99"])
    assert "is not a delivery of this subscription" in user.faults[""].lower()
    for hostile in (["0"], ["x"], ["-1"], [str(n) for n in range(1, 150)]):
        await user.submit(action, deliveries=hostile)
        assert user.response.status_code == 422, hostile
    queued = await app.db.fetch("SELECT webhook_id, sequences FROM redeliveries WHERE store_id = $1", app.store_id)
    assert [tuple(each) for each in queued] == [(number, [1, 3])]
    await give(app.by, zeno.email, app=str(app.app_id), role="viewer")
    await zeno.open(app.hook(number, "/deliveries"))
    assert "checkbox" not in zeno.text


async def test_the_request_headers_are_shown_without_secrets(app: InstalledApp, zeno: User) -> None:
    number = await app.add_deliveries()
    await app.db.execute("UPDATE webhooks SET header_names = '{authorization}' WHERE id = $1", number)
    await app.user.open(app.hook(number, "/deliveries/1"))
    [headers] = re.findall(r'<pre id="headers-text"[^>]*>(.*?)</pre>', app.user.text, re.DOTALL)
    names = dict(line.split(": ", 1) for line in headers.splitlines())
    assert set(names) == {
        "authorization", "content-type", "webhook-id", "webhook-timestamp", "webhook-signature",
    }  # fmt: skip
    assert names["webhook-signature"].startswith("v1,")
    assert names["authorization"] == HIDDEN
    await give(app.by, zeno.email, app=str(app.app_id), role="viewer")
    await zeno.open(app.hook(number, "/deliveries/1"))
    assert "webhook-signature" not in zeno.text


@pytest.mark.parametrize(
    ("succeeded", "failed", "attempts", "rate"),
    [
        (4, 0, 4, "100%"),
        (0, 0, 6, "0%"),
        (1, 0, 3, "33.3%"),
        (99_999, 0, 100_000, "99.9%"),
        (5, 1, 5, "99.9%"),
    ],
)
async def test_a_failing_subscription_never_shows_full_success(
    app: InstalledApp, succeeded: int, failed: int, attempts: int, rate: str
) -> None:
    number = await app.add_deliveries()
    add = "INSERT INTO delivery_hours VALUES ($1, $2, date_trunc('hour', now()), $3, $4, $5, $6, 10)"
    await app.db.execute(add, app.store_id, number, succeeded, failed, attempts, attempts - succeeded)
    await app.user.open(app.hook(number))
    assert f"<dt>Success rate</dt><dd>{rate}</dd>" in app.user.text
    assert app.user.text.count('<th scope="row">') == 24
    assert f"<td>{succeeded:,}</td><td>{attempts - succeeded:,}</td>" in app.user.text
    await app.user.open(f"{app.path}/webhooks")
    assert f">{rate}<" in app.user.text


async def test_a_delivery_shows_the_number_of_its_order(maria: User, db: Database) -> None:
    reasons = {"orders:write": "To place them.", "webhooks:write": "To subscribe to changes."}
    app = await install_app(maria, db, reasons)
    webhook_id = await add_subscription(await app.at_store(), app.store_id, app.app_id, "order.*")
    placed = await create_store_data(await app.at_store(), app.handle)
    while (await route_events(db, [app.store_id % 64])).events:
        pass
    [[number]] = await db.fetch("SELECT number FROM orders WHERE store_id = $1", app.store_id)
    await maria.open(app.hook(webhook_id, "/deliveries"))
    assert f"order #{number}" in maria.text
    link = re.search(r'href="([^"]+/deliveries/\d+)"', maria.text)
    assert link
    for query in (f"?resource=%23{number}", f"?resource={number}&resource_type=order"):
        assert await shown(app, webhook_id, query) == await shown(app, webhook_id, "")
    await maria.open(link[1])
    assert f"order #{number} (ID {placed['order_id']})" in maria.text
    await maria.open(f"{app.path}/tail")
    assert f"order #{number}" in maria.text
    assert re.search(r">\d\d:\d\d:\d\d\.\d{3}</time>", maria.text)
    await app.grant("webhooks:write")  # the app can no longer read orders
    for path in (app.hook(webhook_id, "/deliveries"), f"{app.path}/tail"):
        await maria.open(path)
        assert f"#{number}" not in maria.text
