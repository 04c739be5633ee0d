"""The pages of an app's request log: filters, pagination, one request, and who can see it."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.usage.queries import ADD_REQUESTS
from stoa.usage.request_log import NewRequest, first_id
from tests.portal.test_usage import AppWithClient, add_requests, create_app_with_client
from tests.support.people import User, create_user

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
async def app(maria: User, db: Database) -> AsyncIterator[AppWithClient]:
    created = await create_app_with_client(maria, db)
    yield created
    await created.client.aclose()


def request(app: AppWithClient, number: int, status: int = 200, **given: Any) -> NewRequest:
    """A request `number` minutes before NOW."""
    at = NOW - timedelta(minutes=number)
    code = "not_found" if status >= 400 else ""
    names = (f"req_{number:03}", "GET", "get_product", "/products/7")
    row = NewRequest(app.store_id, app.app_id, first_id(at), at, *names, status, code, "[]", 900)
    return msgspec.structs.replace(row, **given)


async def add(db: Database, app: AppWithClient, *rows: NewRequest) -> None:
    await ADD_REQUESTS.run(db, msgspec.json.encode(rows).decode())
    await add_requests(db, app, 0, len(rows))  # the store is offered as a filter


async def shown(app: AppWithClient, query: str = "") -> list[str]:
    await app.user.open(f"{app.path}/requests{query}")
    assert app.user.response.status_code == 200
    assert len(app.user.response.content) < 40_000
    return re.findall(r">(req_\d{3})<", app.user.text)


async def test_requests_are_listed_and_shown_in_detail(
    app: AppWithClient, application: Application, db: Database
) -> None:
    invalid = (await app.client.get("/products", params={"sort": "nope", "limit": "x"})).json()
    missing = (await app.client.get("/products/999999999")).json()
    found = (await app.client.get("/products")).headers["x-request-id"]
    await application.usage.flush(application.shards)
    user = app.user
    await user.open(f"{app.path}/requests")
    for problem in (invalid, missing):
        assert problem["request_id"] in user.text
        assert f'href="/problems/{problem["code"]}"' in user.text
    assert found in user.text
    assert "/products/999999999" in user.text
    await user.open(f"{app.path}/requests?request_id={invalid['request_id']}")
    [detail] = set(re.findall(rf'href="({app.path}/requests/\d+)"', user.text))
    await user.open(detail)
    assert invalid["request_id"] in user.text
    assert "/docs/products/list_products" in user.text
    assert (await user.client.get("/docs/products/list_products")).status_code == 200
    for fault in invalid["errors"]:
        assert f"<code>{fault['pointer']}</code>" in user.text
        assert fault["code"] in user.text
    await user.open(f"{app.path}/usage")
    assert "list_products" in user.text
    assert f'href="{app.path}/requests?status=error"' in user.text


async def test_requests_are_filtered(app: AppWithClient, db: Database) -> None:
    unknown: dict[str, Any] = {"operation": "", "path": "/products/…"}
    await add(
        db, app, request(app, 1), request(app, 2, 404), request(app, 3, 429), request(app, 4, 500),
        request(app, 5, 404, **unknown), request(app, 60, operation="list_products"),
    )  # fmt: skip
    everything = ["req_001", "req_002", "req_003", "req_004", "req_005", "req_060"]
    for query, expected in {
        "": everything,
        "?status=success": ["req_001", "req_060"],
        "?status=error": ["req_002", "req_004", "req_005"],
        "?status=4xx": ["req_002", "req_005"],
        "?status=429": ["req_003"],
        "?status=5xx": ["req_004"],
        "?operation=unknown": ["req_005"],
        "?operation=list_products": ["req_060"],
        f"?store={app.handle}": everything,
        "?request_id=req_003": ["req_003"],
        "?since=2026-06-01T11:56&until=2026-06-01T11:58:30": ["req_002", "req_003", "req_004"],
        "?status=5xx&until=2026-06-01T11:55": [],
        # Invalid filters are ignored.
        "?status=nope&operation='--&store=%00&since=yesterday&until=0001-01-01": everything,
    }.items():
        assert await shown(app, query) == expected, query
    await shown(app, "?request_id=nothing")
    assert "Clear filters" in app.user.text


async def test_requests_are_paginated(app: AppWithClient, db: Database) -> None:
    await add(db, app, *(request(app, number) for number in range(60)))
    found: list[str] = []
    query = f"?store={app.handle}"
    while query:
        found += await shown(app, query)
        following = re.search(r'href="(\?[^"]+)" rel="next">Older', app.user.text)
        query = following[1].replace("&amp;", "&") if following else ""
        assert not query or f"store={app.handle}" in query
    assert found == [f"req_{number:03}" for number in range(60)]
    assert "Newest" in app.user.text
    assert (await shown(app, "?before=nonsense"))[0] == "req_000"


async def test_the_log_of_an_app_is_for_its_team_and_operators(
    app: AppWithClient, maria: User, application: Application, db: Database
) -> None:
    other = await create_app_with_client(maria, db)
    hostile: dict[str, Any] = {
        "request_id": "<img src=x>",
        "path": "<script>alert(1)</script>",
        "code": "<b>",
        "status": 400,
    }
    row = request(app, 1, **hostile)
    await add(db, app, row)
    for path in ("", f"/{row.id}"):
        await maria.open(f"{app.path}/requests{path}")
        assert "&lt;img src=x&gt;" in maria.response.text
        for value in ("<img src=x>", "<script>alert", "<b>400"):
            assert value not in maria.response.text
    await maria.open(f"{other.path}/requests/{row.id}")
    assert maria.response.status_code == 404
    await maria.open(f"{other.path}/requests")
    assert "No requests yet" in maria.text
    await other.client.aclose()
    operator = await create_user(application, db, operator=True)
    await operator.open(f"/portal/operators/apps/{app.app_id}")
    assert f'href="/portal/operators/apps/{app.app_id}/requests"' in operator.text
    await operator.open(f"/portal/operators/apps/{app.app_id}/requests")
    assert f'href="/portal/operators/apps/{app.app_id}/requests/{row.id}"' in operator.text
    await operator.open(f"{app.path}/requests")
    assert operator.response.status_code == 404
    await operator.client.aclose()
