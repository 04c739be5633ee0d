"""GET /oauth/installations: an app lists the stores that installed it, and those that no longer do."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from stoa.access.admission import Admission
from stoa.access.apps import create_app, suspend_app
from stoa.access.contract import NewSecret
from stoa.access.grants import install, uninstall
from stoa.access.installations import routes
from stoa.access.oauth import routes as token_routes
from stoa.access.operator import Operator
from stoa.access.stores import update_store
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.access.tenants import REQUESTED, open_store
from tests.support.databases import directory_of, sharded_runs

PATH = "/oauth/installations"


@pytest.fixture
async def service(db: Database, settings: Settings, peer: str) -> AsyncIterator[httpx.AsyncClient]:
    public = msgspec.structs.replace(settings, public_url="https://api.example.com")
    directory, shards = directory_of(db), sharded_runs.get(db.url)
    tokens = token_routes(directory, Admission(directory, public, shards), public, shards)
    app = Starlette(routes=[*routes(directory, public, shards), *tokens])
    transport = httpx.ASGITransport(app, client=(peer, 40_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as client:
        yield client


@pytest.fixture
async def app(operator: Operator) -> NewSecret:
    return await create_app(operator, "An app", REQUESTED)


def basic(app: NewSecret) -> tuple[str, str]:
    return app.client_id, app.client_secret


async def bearer(service: httpx.AsyncClient, app: NewSecret, **form: str) -> dict[str, str]:
    answer = await service.post("/oauth/token", data={"grant_type": "client_credentials", **form}, auth=basic(app))
    return {"authorization": f"Bearer {answer.json()['access_token']}"}


async def pages(service: httpx.AsyncClient, app: NewSecret, **query: Any) -> list[list[dict[str, Any]]]:
    """Every page of a list, following its cursors."""
    headers = await bearer(service, app)
    found: list[list[dict[str, Any]]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await service.get(PATH, params={**query, **cursor}, headers=headers)
        assert answer.status_code == 200, answer.text
        found.append(answer.json()["data"])
        if answer.json()["meta"]["next_cursor"] is None:
            return found
        cursor = {"cursor": answer.json()["meta"]["next_cursor"]}


async def test_the_list_has_every_store_of_the_app_and_tombstones_of_former_ones(
    service: httpx.AsyncClient, operator: Operator, app: NewSecret
) -> None:
    started = datetime.now(UTC)
    stores = [await open_store(operator) for _ in range(3)]
    await update_store(operator, stores[0].handle, timezone="Europe/Berlin", locale="de-DE")
    for store in stores:
        await install(operator, app.client_id, store.handle, ["products:read"])
    other = await create_app(operator, "Another app", REQUESTED)
    await install(operator, other.client_id, stores[1].handle)
    await uninstall(operator, app.client_id, stores[2].handle)
    [listed] = await pages(service, app)
    assert [each["store"]["id"] for each in listed] == [store.id for store in stores]
    assert [each["status"] for each in listed] == ["installed", "installed", "uninstalled"]
    assert [each["scopes"] for each in listed] == [["products:read"], ["products:read"], []]
    assert listed[0]["store"] == {
        "id": stores[0].id,
        "handle": stores[0].handle,
        "name": "A store",
        "base_url": f"https://api.example.com/stores/{stores[0].handle}",
        "currency": "EUR",
        "timezone": "Europe/Berlin",
        "locale": "de-DE",
    }
    for each in listed:
        assert started < datetime.fromisoformat(each["installed_at"]) <= datetime.fromisoformat(each["updated_at"])
    by_one = await pages(service, app, limit=1)
    assert by_one == [[each] for each in listed]
    assert await pages(service, app, status="uninstalled") == [listed[2:]]
    assert await pages(service, app, status="installed", limit=1) == [[each] for each in listed[:2]]
    assert await pages(service, app, updated_since=listed[2]["updated_at"]) == [listed[2:]]
    # A change of scopes and a reinstall move the installation forward in time.
    await install(operator, app.client_id, stores[0].handle, ["products:read", "orders:read"])
    await install(operator, app.client_id, stores[2].handle)
    [changed] = await pages(service, app, updated_since=listed[2]["updated_at"])
    assert [(each["store"]["id"], each["status"]) for each in changed] == [
        (stores[0].id, "installed"),
        (stores[2].id, "installed"),
    ]
    assert [each["store"]["id"] for [each] in await pages(service, other, limit=1)] == [stores[1].id]


async def test_the_app_authenticates_with_its_credentials_or_a_token_for_all_stores(
    service: httpx.AsyncClient, operator: Operator, app: NewSecret
) -> None:
    store = await open_store(operator)
    await install(operator, app.client_id, store.handle)
    by_secret = await service.get(PATH, auth=basic(app))
    by_token = await service.get(PATH, headers=await bearer(service, app))
    assert by_secret.json() == by_token.json()
    assert by_token.headers["cache-control"] == "no-store"

    bound = await bearer(service, app, resource=f"https://api.example.com/stores/{store.handle}/api/v3/app")
    for headers, status, code in (
        (bound, 401, "invalid_token"),
        ({"authorization": "Bearer stoa_at_nonsense"}, 401, "invalid_token"),
        ({}, 401, "missing_token"),
    ):
        refused = await service.get(PATH, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (status, code)
        assert refused.headers["www-authenticate"].startswith("Bearer")
    wrong = await service.get(PATH, auth=(app.client_id, "wrong"))
    assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_client")
    token = await bearer(service, app)
    await suspend_app(operator, app.client_id)
    for answer in (await service.get(PATH, auth=basic(app)), await service.get(PATH, headers=token)):
        assert (answer.status_code, answer.json()["code"]) == (403, "app_suspended")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "invalid_parameter"),
        ("limit=251", "invalid_parameter"),
        ("page=2", "unknown_parameter"),
        ("sort=-id", "unknown_parameter"),
        ("status=gone", "invalid_parameter"),
        ("updated_since=yesterday", "invalid_parameter"),
        ("cursor=nonsense", "invalid_parameter"),
        ("cursor=W3t9LHRydWUsWzFdXQ", "invalid_parameter"),  # a cursor that goes backwards
        ("cursor=W3t9LGZhbHNlLFsieCJdXQ", "invalid_parameter"),  # a cursor whose key is a text
        ("cursor=W3t9LGZhbHNlLFsxXV0&status=installed", "cursor_mismatch"),
        ("limit=1&limit=2", "invalid_parameter"),
        ("%00=1", "invalid_parameter"),
    ],
)
async def test_bad_parameters_are_refused(service: httpx.AsyncClient, app: NewSecret, query: str, code: str) -> None:
    answer = await service.get(f"{PATH}?{query}", auth=basic(app))
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert answer.headers["content-type"] == "application/problem+json"
