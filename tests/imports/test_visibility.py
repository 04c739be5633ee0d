"""The rows of an import are readable by the app that made it. Other apps get its summary."""

from typing import Any

import httpx
import msgspec
import pytest

from stoa.imports.runner import run_pending
from tests.support.shops import Shop
from tests.webhooks.subscriptions import route

NDJSON, CSV = "application/x-ndjson", "text/csv"
ROWS = {
    "customers": b'{"email":"ada@example.com","metadata":{"canary":1}}\n{"email":"canary@example.com","locale":"!"}\n',
    "products": b'{"sku":"A","name":"Mug","price":"5.00"}\n{"sku":"canary","name":"Mug","price":"-5"}\n',
}
RESOURCES = pytest.mark.parametrize("resource", ["customers", "products"])


async def upload(client: httpx.AsyncClient, shop: Shop, resource: str, **options: Any) -> str:
    answer = await client.post(
        f"/{resource}/imports", content=ROWS[resource], headers={"content-type": NDJSON}, params=options
    )
    assert answer.status_code == 202, answer.text
    await run_pending(shop.db)
    return answer.headers["location"]


@RESOURCES
async def test_another_app_gets_the_summary_without_rows(shop: Shop, resource: str) -> None:
    path = await upload(shop.client, shop, resource)
    theirs = await shop.client_with([f"{resource}:write"])
    mine, other = (await shop.client.get(path)).json()["data"], (await theirs.get(path)).json()["data"]
    assert "canary" in str(mine["errors"])
    assert other == {**mine, "errors": []}
    assert other["counts"]["failed"] == 1


@RESOURCES
@pytest.mark.parametrize("media", [NDJSON, CSV])
async def test_another_app_cannot_read_the_report(shop: Shop, resource: str, media: str) -> None:
    path = await upload(shop.client, shop, resource, dry_run="true")
    theirs = await shop.client_with([f"{resource}:write"])
    assert "canary" in (await shop.client.get(path, headers={"accept": media})).text
    refused = await theirs.get(path, headers={"accept": media})
    assert (refused.status_code, refused.json()["code"]) == (403, "report_not_visible")
    assert "canary" not in refused.text


async def test_a_dry_run_shows_no_private_changes_to_another_app(shop: Shop) -> None:
    ada = {"email": "ada@example.com", "metadata": {"tier": "old-canary"}}
    assert (await shop.client.post("/customers", json=ada)).status_code == 201
    path = await upload(shop.client, shop, "customers", dry_run="true")
    theirs = await shop.client_with(["customers:write"])
    for accept in ("application/json", NDJSON, CSV):
        assert "canary" not in (await theirs.get(path, headers={"accept": accept})).text


@RESOURCES
async def test_the_event_shows_rows_only_to_the_app_that_made_the_import(shop: Shop, resource: str) -> None:
    theirs = await shop.client_with([f"{resource}:write", "webhooks:write"])
    event = f"{resource[:-1]}.import_finished"
    hooks = {
        client: (await client.post("/webhooks", json={"name": "n", "events": [event]})).json()["data"]["id"]
        for client in (shop.client, theirs)
    }
    path = await upload(shop.client, shop, resource)
    await route(shop)
    seen: dict[httpx.AsyncClient, Any] = {}
    for client, hook in hooks.items():
        query = {"after": 0, "include": "payload"}
        [delivery] = (await client.get(f"/webhooks/{hook}/deliveries", params=query)).json()["data"]
        seen[client] = delivery["payload"]["data"]
    assert "canary" in str(seen[shop.client]["errors"])
    assert "canary" not in str(seen[theirs])
    assert seen[theirs]["counts"]["failed"] == 1
    assert seen[shop.client] == (await shop.client.get(path)).json()["data"]
    assert seen[theirs] == (await theirs.get(path)).json()["data"]


async def test_an_import_of_an_operator_shows_its_rows_to_no_app(shop: Shop) -> None:
    path = await upload(shop.client, shop, "customers")
    await shop.db.execute("UPDATE imports SET app_id = NULL WHERE store_id = $1", shop.store_id)
    assert (await shop.client.get(path)).json()["data"]["errors"] == []
    assert (await shop.client.get(path, headers={"accept": NDJSON})).status_code == 403


async def test_an_erasure_removes_a_person_from_the_event_of_an_import(shop: Shop) -> None:
    made = (await shop.client.post("/customers", json={"email": "canary@example.com"})).json()["data"]
    await upload(shop.client, shop, "customers")
    query = "SELECT e::text FROM events e WHERE store_id = $1 AND type = 'customer.import_finished'"
    assert "canary@" in str(await shop.db.fetch(query, shop.store_id))
    assert (await shop.client.delete(f"/customers/{made['id']}")).status_code == 204
    [[text]] = await shop.db.fetch(query, shop.store_id)
    assert "canary@" not in text
    [[data]] = await shop.db.fetch(query.replace("e::text", "data"), shop.store_id)
    assert msgspec.json.decode(data)["counts"]["failed"] == 1
