"""Metadata: each app reads and writes its own keys and the shared keys, without lost updates."""

import asyncio
from typing import Any

import httpx

from tests.customers.people import JUN, MAYA, created, events
from tests.support.shops import Shop


async def other_app(shop: Shop) -> httpx.AsyncClient:
    return await shop.client_with(["customers:write"])


async def merged(client: httpx.AsyncClient, customer_id: int, patch: dict[str, Any]) -> dict[str, Any]:
    """Merge metadata and return what the app then sees."""
    answer = await client.patch(f"/customers/{customer_id}/metadata", json=patch)
    assert answer.status_code == 200, answer.text
    assert answer.json()["meta"]["total"] == len(answer.json()["data"])
    return {entry["key"]: entry["value"] for entry in answer.json()["data"]}


async def test_keys_are_merged_and_null_removes_one(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "metadata": {"a": 1, "b": "two"}})
    assert await merged(shop.client, jun["id"], {"b": None, "c": False, "d": 1.50}) == {"a": 1, "c": False, "d": 1.5}
    after = (await shop.client.get(f"/customers/{jun['id']}")).json()["data"]
    assert after["metadata"] == {"a": 1, "c": False, "d": 1.5}


async def test_an_entry_shows_its_author_and_time(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "metadata": {"mine": 1, "shared.tier": "gold"}})
    theirs = await other_app(shop)
    await merged(theirs, jun["id"], {"shared.tier": "silver"})
    answer = await shop.client.patch(f"/customers/{jun['id']}/metadata", json={})
    mine, tier = answer.json()["data"]
    assert (mine["key"], mine["updated_by"]) == ("mine", {"app_id": shop.app_id})
    assert (tier["key"], tier["value"]) == ("shared.tier", "silver")
    assert tier["updated_by"]["app_id"] != shop.app_id
    assert tier["updated_at"] > mine["updated_at"]


async def test_an_app_never_sees_keys_of_another_app(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "metadata": {"tier": "gold", "shared.tier": "gold"}})
    theirs = await other_app(shop)
    path = f"/customers/{jun['id']}"
    assert await merged(theirs, jun["id"], {"tier": "iron"}) == {"tier": "iron", "shared.tier": "gold"}
    for client, tier in ((shop.client, "gold"), (theirs, "iron")):
        one = (await client.get(path)).json()["data"]
        listed = (await client.get("/customers")).json()["data"][0]
        changed = (await client.patch(path, json={"note": tier})).json()["data"]
        for seen in (one, listed, changed):
            assert seen["metadata"] == {"tier": tier, "shared.tier": "gold"}
        assert (await client.get("/customers?metadata[tier]=gold")).json()["meta"]["total"] == (tier == "gold")
        assert (await client.get("/customers?metadata[tier]=iron")).json()["meta"]["total"] == (tier == "iron")
        assert (await client.get("/customers?metadata[shared.tier]=gold")).json()["meta"]["total"] == 1
        assert (await client.get("/customers?q=iron")).json()["meta"]["total"] == 0
    assert await merged(theirs, jun["id"], {"tier": None}) == {"shared.tier": "gold"}
    assert (await shop.client.get(path)).json()["data"]["metadata"]["tier"] == "gold"


async def test_events_for_every_app_contain_shared_keys_only(shop: Shop) -> None:
    jun = await created(shop, JUN)
    await merged(shop.client, jun["id"], {"secret": "canary", "shared.tier": "gold"})
    await merged(shop.client, jun["id"], {"secret": "canary", "shared.tier": "gold"})  # changes nothing
    await merged(shop.client, jun["id"], {"secret": "canary2"})
    assert (await events(shop))[1:] == [
        ("customer.metadata_changed", jun["id"], {"metadata": [{}, {"shared.tier": "gold"}]}),
        ("customer.metadata_changed", jun["id"], {"metadata": [{"secret": "canary"}, {"secret": "canary2"}]}),
    ]
    rows = await shop.db.fetch(
        "SELECT audience, changes || data FROM events WHERE store_id = $1 ORDER BY position", shop.store_id
    )
    assert [(row[0], "canary" in row[1]) for row in rows[-3:]] == [
        (None, False),
        (None, False),
        (shop.app_id, True),
    ]


async def test_only_the_app_that_sees_a_key_notices_its_change(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "metadata": {"shared.tier": "gold"}})
    path, theirs = f"/customers/{jun['id']}", await other_app(shop)
    before = await theirs.get(path)
    answer = await shop.client.patch(f"{path}/metadata", json={"visits": 3})
    assert answer.status_code == 200
    after = await theirs.get(path)
    assert (after.json(), after.headers["etag"]) == (before.json(), before.headers["etag"])
    assert (await theirs.get(path, headers={"if-none-match": before.headers["etag"]})).status_code == 304
    changed = await theirs.patch(path, json={"note": "Regular."}, headers={"if-match": before.headers["etag"]})
    assert (changed.status_code, changed.json()["data"]["version"]) == (200, 2)


async def test_the_etag_of_an_app_covers_its_own_keys(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "metadata": {"visits": 1, "shared.tier": "gold"}})
    path = f"/customers/{jun['id']}"
    first = (await shop.client.get(path)).headers["etag"]
    assert (await shop.client.get(path, headers={"if-none-match": first})).status_code == 304
    await merged(shop.client, jun["id"], {"visits": 2})
    second = await shop.client.get(path, headers={"if-none-match": first})
    assert (second.status_code, second.json()["data"]["version"]) == (200, 1)
    for write in (path, f"{path}/metadata"):
        body = {"metadata": {"visits": 3}} if write == path else {"visits": 3}
        stale = await shop.client.patch(write, json=body, headers={"if-match": first})
        assert (stale.status_code, stale.json()["current_version"]) == (412, 1)
        fresh = {"if-match": (await shop.client.get(path)).headers["etag"]}
        assert (await shop.client.patch(write, json=body, headers=fresh)).status_code == 200
    # A version alone covers what every app sees.
    assert (await shop.client.patch(path, json={"note": "-"}, headers={"if-match": "1"})).status_code == 200


async def test_the_etag_of_an_app_without_own_keys_says_so(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "metadata": {"shared.tier": "gold"}})
    path = f"/customers/{jun['id']}"
    read = await shop.client.get(path)
    none = {"if-match": read.headers["etag"]}
    assert (await shop.client.get(path, headers={"if-none-match": none["if-match"]})).status_code == 304
    assert (await shop.client.patch(f"{path}/metadata", json={"visits": 1}, headers=none)).status_code == 200
    # A second process of the app has read the customer at the same time.
    for write, body in ((f"{path}/metadata", {"visits": 2}), (path, {"metadata": {"visits": 2}})):
        assert (await shop.client.patch(write, json=body, headers=none)).status_code == 412
    assert (await shop.client.get(path)).json()["data"]["metadata"] == {"visits": 1, "shared.tier": "gold"}
    # Another app, which has no keys of its own, is not concerned.
    assert (await (await other_app(shop)).patch(path, json={"note": "-"}, headers=none)).status_code == 200


async def test_upper_case_keys_are_allowed_on_every_resource(shop: Shop) -> None:
    metadata = {"Tier": "gold", "tier": "silver", "Shared.x": 1}
    product = await shop.client.post("/products", json={"name": "Tea", "price": "8.00", "metadata": metadata})
    line = {"variant_id": product.json()["data"]["variants"][0]["id"], "quantity": 1}
    order = await shop.client.post("/orders", json={"status": "draft", "line_items": [line], "metadata": metadata})
    customer = await shop.client.post("/customers", json={**JUN, "metadata": metadata})
    for answer in (product, order, customer):
        assert (answer.status_code, answer.json()["data"]["metadata"]) == (201, metadata)
    # Only the lower-case prefix makes a key shared.
    seen = (await (await other_app(shop)).get(f"/customers/{customer.json()['data']['id']}")).json()["data"]
    assert seen["metadata"] == {}


async def test_concurrent_merges_of_several_apps_all_succeed(shop: Shop) -> None:
    jun = await created(shop, JUN)
    apps = [shop.client, await other_app(shop), await other_app(shop)]
    await asyncio.gather(
        *(
            merged(app, jun["id"], {f"k{n}": n, f"shared.{index}-{n}": n})
            for index, app in enumerate(apps)
            for n in range(6)
        )
    )
    for app in apps:
        seen = (await app.get(f"/customers/{jun['id']}")).json()["data"]["metadata"]
        assert {key for key in seen if not key.startswith("shared.")} == {f"k{n}" for n in range(6)}
        assert len(seen) == 6 + 18


async def test_an_app_has_at_most_a_hundred_keys(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "metadata": {f"k{n}": n for n in range(100)}})
    path = f"/customers/{jun['id']}/metadata"
    full = await shop.client.patch(path, json={"one-more": 1})
    assert full.status_code == 422
    assert [fault["code"] for fault in full.json()["errors"]] == ["metadata_limit"]
    assert (await shop.client.patch(path, json={"one-more": 1, "k0": None})).status_code == 200
    assert (await shop.client.patch(path, json={f"shared.{n}": n for n in range(100)})).status_code == 200
    assert (await shop.client.patch(path, json={"shared.more": 1})).status_code == 422
    assert len(await merged(await other_app(shop), jun["id"], {f"k{n}": n for n in range(100)})) == 200


async def test_faults_of_metadata_are_named(shop: Shop) -> None:
    jun = await created(shop, JUN)
    answer = await shop.client.patch(
        f"/customers/{jun['id']}/metadata", json={"no space": 1, "list": [], "long": "x" * 1001, "fine": 1}
    )
    assert answer.status_code == 422
    assert {fault["pointer"]: fault["code"] for fault in answer.json()["errors"]} == {
        "/no space": "invalid_format",
        "/list": "invalid_type",
        "/long": "too_long",
    }


async def test_if_match_limits_a_metadata_merge_to_one_version(shop: Shop) -> None:
    jun = await created(shop, JUN)
    path = f"/customers/{jun['id']}/metadata"
    assert (await shop.client.patch(path, json={"shared.a": 1}, headers={"if-match": '"1"'})).status_code == 200
    assert (await shop.client.patch(path, json={"shared.a": 2}, headers={"if-match": '"1"'})).status_code == 412


async def test_similar_values_are_found_exactly(shop: Shop) -> None:
    await created(shop, MAYA)
    for query in ("metadata[visits]=3", "metadata[vip]=true", "metadata[tier]=gold&metadata[visits]=3"):
        assert (await shop.client.get(f"/customers?{query}")).json()["meta"]["total"] == 1, query
    for query in (
        "metadata[visits]=4",
        "metadata[vip]=1",
        "metadata[tier]=gold&metadata[visits]=4",
        "metadata[none]=x",
    ):
        assert (await shop.client.get(f"/customers?{query}")).json()["meta"]["total"] == 0, query
