"""Usage pages: charts and tables."""

import itertools
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import httpx
import pytest

from stoa.access.grants import install
from stoa.accounts.ownership import open_store, register_app
from stoa.app import Application
from stoa.db.pool import Database
from stoa.usage.rules import COUNTERS
from tests.support.people import User, as_operator
from tests.support.shops import api_client, service_client, token_for

_numbers = itertools.count(1)


@dataclass
class AppWithClient:
    """An app on a store, with an API client."""

    user: User
    app_id: int
    handle: str
    store_id: int
    client: httpx.AsyncClient

    @property
    def path(self) -> str:
        return f"/portal/apps/{self.app_id}"


async def create_app_with_client(user: User, db: Database) -> AppWithClient:
    number, me = next(_numbers), user.account.id
    by = as_operator(db, user.application.settings)
    store = await open_store(by, me, f"usage-{me}-{number}", f"AppWithClient {number}", "EUR")
    registered = await register_app(by, me, "Counter", "", {"products:read": "To count."}, f"{me}:{number}")
    await install(by, registered.client_id, store.handle)
    async with service_client(user.application) as service:
        token = await token_for(service, registered.client_id, registered.client_secret)
    return AppWithClient(
        user, registered.app_id, store.handle, store.id, api_client(user.application, store.handle, token)
    )


@pytest.fixture
async def app(maria: User, db: Database) -> AsyncIterator[AppWithClient]:
    created = await create_app_with_client(maria, db)
    yield created
    await created.client.aclose()


async def add_requests(db: Database, app: AppWithClient, days_ago: int, requests: int, **figures: int) -> None:
    """Add requests of one day, each with a duration of up to 10 ms."""
    values = dict.fromkeys(COUNTERS, 0) | {"requests": requests, "ms_10": requests} | figures
    day = datetime.now(UTC).date() - timedelta(days=days_ago)
    placeholders = ", ".join(f"${number}" for number in range(5, 5 + len(values)))
    await db.execute(
        f"INSERT INTO usage_days (store_id, app_id, day, operation, {', '.join(values)}) VALUES ($1, $2, $3, $4, {placeholders})",
        app.store_id,
        app.app_id,
        day,
        "list_products",
        *values.values(),
    )


async def test_without_requests_the_page_shows_how_to_send_one(app: AppWithClient) -> None:
    await app.user.open(f"{app.path}/usage")
    assert "No requests yet" in app.user.text
    assert "curl -s" in app.user.text
    assert f"/stores/{app.handle}" not in app.user.text  # it is in the .env file
    assert "<svg viewBox" not in app.user.text.replace('<svg viewBox="0 0 24 24"', "")


async def test_four_charts_have_axes_units_and_descriptions(app: AppWithClient, db: Database) -> None:
    await add_requests(db, app, 0, 120, client_errors=6, server_errors=1, rate_limited=9)
    await add_requests(db, app, 3, 80)
    await app.user.open(f"{app.path}/usage?days=7")
    charts = [
        ET.fromstring(each)  # noqa: S314 - our own page
        for each in re.findall(r'<svg viewBox="0 0 440 216".*?</svg>', app.user.response.text, re.DOTALL)
    ]
    assert len(charts) == 4
    for chart in charts:
        assert chart.get("role") == "img"
        desc = chart.find("desc")
        assert desc is not None
        assert desc.text
        assert len(chart.findall("g[@class='y-axis']/text")) >= 2
        assert len(chart.findall("g[@class='x-axis']/text")) >= 4
    assert "Requests: at most 120 per day" in app.user.text
    assert "Responses with 429: at most 9 per day" in app.user.text
    assert ">200<" in app.user.text  # the sum of both days
    assert "3.5%" in app.user.text
    assert app.user.text.count('<th scope="row">') == 7


async def test_the_page_is_filtered_by_days_and_store(app: AppWithClient, maria: User, db: Database) -> None:
    by = as_operator(db, maria.application.settings)
    other = await open_store(by, maria.account.id, f"other-{maria.account.id}", "Other", "EUR")
    second = AppWithClient(maria, app.app_id, other.handle, other.id, app.client)
    await add_requests(db, app, 1, 41)
    await add_requests(db, second, 1, 1_000)
    await add_requests(db, app, 60, 7)
    await maria.open(f"{app.path}/usage?days=30")
    assert "1,041" in maria.text
    assert other.handle in maria.text
    await maria.open(f"{app.path}/usage?days=90&store={app.handle}")
    assert ">48<" in maria.text
    assert "1,000" not in maria.text
    await maria.open(f"{app.path}/usage?days=7&store={other.handle}")
    assert "1,000" in maria.text


async def test_the_last_day_is_shown_by_hour(app: AppWithClient, application: Application, db: Database) -> None:
    await add_requests(db, app, 0, 500)  # of the day, not of the last 24 hours
    await app.client.get("/products")
    await app.client.get("/products/999999999")
    await application.usage.flush(application.shards)
    for query in ("", f"&store={app.handle}"):
        await app.user.open(f"{app.path}/usage?days=1{query}")
        assert app.user.text.count('<th scope="row">') == 24
        assert "<dt>Requests</dt><dd>2</dd>" in app.user.text
        assert "<dd>50%" in app.user.text
        assert re.search(r"Requests: at most \d per hour, at \d+ \w+, \d\d:00", app.user.text)
        assert "By hour" in app.user.text
        assert "get_product" in app.user.text


@pytest.mark.parametrize(
    "query", ["days=0", "days=9999999", "days=-1", "days=x", "store=../..", "store=%00", "store=''"]
)
async def test_an_invalid_filter_is_ignored(app: AppWithClient, db: Database, query: str) -> None:
    await add_requests(db, app, 1, 5)
    await app.user.open(f"{app.path}/usage?{query}")
    assert app.user.response.status_code == 200
    assert app.user.text.count('<th scope="row">') == 30


async def test_ninety_days_fit_on_the_page(app: AppWithClient, db: Database) -> None:
    for day in range(90):
        await add_requests(db, app, day, 10_000 + day, client_errors=17, rate_limited=3)
    await app.user.open(f"{app.path}/usage?days=90")
    assert len(app.user.response.content) < 100_000


async def test_requests_of_other_apps_are_not_counted(app: AppWithClient, maria: User, db: Database) -> None:
    await add_requests(db, app, 1, 33)
    other = await create_app_with_client(maria, db)
    await add_requests(db, AppWithClient(maria, other.app_id, app.handle, app.store_id, other.client), 1, 4_444)
    await maria.open(f"{app.path}/usage")
    assert "33" in maria.text
    assert "4,444" not in maria.text
    await other.client.aclose()


async def test_the_mean_latency_of_the_period_is_shown(app: AppWithClient, db: Database) -> None:
    await add_requests(db, app, 0, 3, total_us=12_000)
    await add_requests(db, app, 1, 1, total_us=30_000)
    await app.user.open(f"{app.path}/usage?days=7")
    assert ">mean 10.5 ms<" in app.user.text
