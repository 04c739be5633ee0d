"""The delivery log: sent and pending deliveries, why an event was not sent, and redelivery."""

import asyncio
from typing import Any

import pytest

from stoa.access.grants import install
from stoa.ids import new_id
from tests.support.shops import Shop
from tests.webhooks.subscriptions import add_products, deliveries, finish, route, subscribe


async def test_a_pending_delivery_is_listed_with_its_event_and_resource(shop: Shop) -> None:
    hook = await subscribe(shop)
    (mug,) = await add_products(shop, "Mug")
    page = await deliveries(shop, hook["id"])
    (shown,) = page["data"]
    assert page["meta"]["total"] == 1
    assert shown["id"] == f"dlv_{hook['id']}_1"
    assert shown["resource"] == {"type": "product", "id": mug, "version": 1}
    assert (shown["event_type"], shown["status"], shown["sequence"]) == ("product.created", "pending", 1)
    assert (shown["attempts"], shown["attempt_count"], shown["redelivery_of"]) == ([], 0, None)
    seen = (await shop.client.get(f"/webhooks/{hook['id']}")).json()["data"]
    assert (seen["pending"], seen["last_sequence"]) == (1, 1)
    assert seen["oldest_pending_age_s"] >= 0


async def test_the_log_is_paged_newest_first(shop: Shop) -> None:
    hook = await subscribe(shop)
    await add_products(shop, "A", "B", "C", "D", "E")
    await finish(shop, hook["id"], 2, "succeeded")
    first = await deliveries(shop, hook["id"], limit=3)
    rest = await deliveries(shop, hook["id"], cursor=first["meta"]["next_cursor"])
    assert [each["sequence"] for each in first["data"] + rest["data"]] == [5, 4, 3, 2, 1]
    oldest = await deliveries(shop, hook["id"], sort="id", fields="sequence")
    assert oldest["data"] == [{"sequence": n} for n in range(1, 6)]


async def test_a_settled_delivery_lists_its_attempts(shop: Shop) -> None:
    hook = await subscribe(shop)
    await add_products(shop, "A")
    await finish(shop, hook["id"], 1, "failed")
    (shown,) = (await deliveries(shop, hook["id"]))["data"]
    assert (shown["status"], shown["attempt_count"], shown["next_attempt_at"]) == ("failed", 1, None)
    assert shown["attempts"][0]["response_status"] == 500
    assert shown["attempts"][0]["response_body"] == '"status":"pending"'


async def test_the_log_is_filtered_by_status_event_resource_and_time(shop: Shop) -> None:
    hook = await subscribe(shop)
    a, b = await add_products(shop, "A", "B")
    await shop.client.patch(f"/products/{b}", json={"name": "B2"})
    await route(shop)
    await finish(shop, hook["id"], 1, "succeeded")
    await finish(shop, hook["id"], 2, "failed")

    async def found(**query: Any) -> list[int]:
        return [each["sequence"] for each in (await deliveries(shop, hook["id"], sort="id", **query))["data"]]

    assert await found(status="succeeded") == [1]
    assert await found(status="failed,pending") == [2, 3]
    assert await found(event="product.updated") == [3]
    assert await found(event_type="product.updated") == [3]
    assert await found(event_type="product.*") == [1, 2, 3]
    assert await found(event_type="product.created,order.*") == [1, 2]
    assert await found(event_type="order.*") == []
    assert await found(resource_type="product") == [1, 2, 3]
    assert await found(resource_type="variant,order") == []
    moment = (await deliveries(shop, hook["id"], sort="id"))["data"][2]["created_at"]
    assert await found(until=moment) == [1, 2]
    assert await found(since=moment, until="2100-01-01T00:00:00Z") == [3]
    assert await found(resource_id=b) == [2, 3]
    assert await found(resource_id=a, status="failed") == []
    assert await found(since="2020-01-01T00:00:00Z") == [1, 2, 3]
    assert await found(since="2100-01-01T00:00:00Z") == []
    event_id = (await deliveries(shop, hook["id"]))["data"][0]["event_id"]
    assert await found(event_id=event_id) == [3]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("event_type=product.exploded", "event_type"),
        ("event_type=product", "event_type"),
        ("event_type=product.created,", "event_type"),
        ("event=prod.*", "event"),
        ("resource_type=products", "resource_type"),
        ("until=tomorrow", "until"),
    ],
)
async def test_an_unknown_event_or_resource_type_is_refused(shop: Shop, query: str, pointer: str) -> None:
    hook = await subscribe(shop)
    answer = await shop.client.get(f"/webhooks/{hook['id']}/deliveries?{query}")
    assert (answer.status_code, [fault["pointer"] for fault in answer.json()["errors"]]) == (400, [pointer])


async def test_pending_deliveries_of_a_paused_subscription_are_held(shop: Shop) -> None:
    hook = await subscribe(shop)
    await add_products(shop, "A", "B")
    await finish(shop, hook["id"], 1, "succeeded")
    await shop.client.patch(f"/webhooks/{hook['id']}", json={"status": "paused"})
    assert [each["status"] for each in (await deliveries(shop, hook["id"]))["data"]] == ["held", "succeeded"]
    assert (await deliveries(shop, hook["id"], status="held"))["meta"]["total"] == 1
    assert (await deliveries(shop, hook["id"], status="pending"))["meta"]["total"] == 0
    await shop.client.patch(f"/webhooks/{hook['id']}", json={"status": "active"})
    assert (await deliveries(shop, hook["id"], status="held"))["meta"]["total"] == 0
    assert (await deliveries(shop, hook["id"], status="pending,held"))["meta"]["total"] == 1


async def test_the_payload_is_the_body_that_is_sent(shop: Shop) -> None:
    hook = await subscribe(shop)
    (mug,) = await add_products(shop, "Mug")
    (shown,) = (await deliveries(shop, hook["id"], include="payload"))["data"]
    payload = shown["payload"]
    assert (payload["id"], payload["type"], payload["sequence"]) == (shown["event_id"], "product.created", 1)
    assert payload["resource"] == {"type": "product", "id": mug, "version": 1, "url": f"/api/v3/app/products/{mug}"}
    product = (await shop.client.get(f"/products/{mug}", params={"fields": "id,name,price"})).json()["data"]
    assert product.items() <= payload["data"].items()
    assert "headers" not in shown


async def test_payload_and_fields_apply_to_the_payload_in_the_log(shop: Shop) -> None:
    thin = await subscribe(shop, payload="thin")
    narrow = await subscribe(shop, fields=["name"], url="https://hooks.example.com/2")
    await add_products(shop, "Mug")
    assert "data" not in (await deliveries(shop, thin["id"], include="payload"))["data"][0]["payload"]
    assert (await deliveries(shop, narrow["id"], include="payload"))["data"][0]["payload"]["data"] == {"name": "Mug"}


# --- not sent ---------------------------------------------------------------------------------------------------------


async def reason_not_sent(shop: Shop, webhook_id: int, event_id: str) -> str:
    page = await deliveries(shop, webhook_id, event_id=event_id)
    assert page["data"] == []
    assert page["meta"]["not_sent"]["event_id"] == event_id
    assert page["meta"]["not_sent"]["detail"]
    return page["meta"]["not_sent"]["reason"]


async def last_event(shop: Shop) -> str:
    rows = await shop.db.fetch(
        "SELECT id FROM events WHERE store_id = $1 ORDER BY position DESC LIMIT 1", shop.store_id
    )
    return rows[0][0]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"events": ["product.deleted"]}, "not_subscribed"),
        ({"filter": {"name": "Jug"}}, "filtered"),
        ({"skip_own": True}, "own_change"),
    ],
)
async def test_the_log_gives_the_reason_why_an_event_was_not_sent(
    shop: Shop, given: dict[str, Any], reason: str
) -> None:
    hook = await subscribe(shop, **given)
    await add_products(shop, "Mug")
    assert await reason_not_sent(shop, hook["id"], await last_event(shop)) == reason


async def test_an_event_older_than_the_subscription_is_not_sent(shop: Shop) -> None:
    await add_products(shop, "Mug")
    hook = await subscribe(shop)
    assert await reason_not_sent(shop, hook["id"], await last_event(shop)) == "before_subscription"


async def test_an_unrouted_event_is_reported_as_not_routed(shop: Shop) -> None:
    hook = await subscribe(shop)
    await shop.add({"name": "Mug", "price": "5.00"})
    assert await reason_not_sent(shop, hook["id"], await last_event(shop)) == "not_routed"


async def test_an_event_about_another_app_is_not_sent(shop: Shop) -> None:
    hook = await subscribe(shop, events=["*"])
    await shop.client_with(["products:read"])
    await route(shop)
    assert await reason_not_sent(shop, hook["id"], await last_event(shop)) == "other_app"


async def test_an_event_without_a_granted_scope_is_not_sent(shop: Shop) -> None:
    narrow = await shop.client_with(["webhooks:write"])
    hook = (await narrow.post("/webhooks", json={"events": ["*"]})).json()["data"]
    await add_products(shop, "Mug")
    query = {"event_id": await last_event(shop)}
    page = (await narrow.get(f"/webhooks/{hook['id']}/deliveries", params=query)).json()
    assert page["meta"]["not_sent"]["reason"] == "scope_not_granted"


async def test_an_event_of_another_store_is_reported_as_unknown(shop: Shop, other_shop: Shop) -> None:
    hook = await subscribe(shop)
    await add_products(other_shop, "Mug")
    assert await reason_not_sent(shop, hook["id"], await last_event(other_shop)) == "unknown_event"
    assert await reason_not_sent(shop, hook["id"], new_id("evt")) == "unknown_event"


# --- redelivery -------------------------------------------------------------------------------------------------------


async def redeliver(shop: Shop, webhook_id: int, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = await shop.client.post(f"/webhooks/{webhook_id}/redeliver", json=body)
    return answer.status_code, answer.json()


async def queued(shop: Shop) -> list[Any]:
    rows = await shop.db.fetch(
        "SELECT sequences, since IS NOT NULL, status, rate_per_s FROM redeliveries WHERE store_id = $1", shop.store_id
    )
    return [tuple(row) for row in rows]


async def test_a_dry_run_counts_a_range_before_it_is_redelivered(shop: Shop) -> None:
    hook = await subscribe(shop)
    await add_products(shop, "A", "B", "C")
    await finish(shop, hook["id"], 1, "failed")
    await finish(shop, hook["id"], 2, "failed")
    await finish(shop, hook["id"], 3, "succeeded")
    since = {"since": "2020-01-01T00:00:00Z", "status": "failed"}
    status, response = await redeliver(shop, hook["id"], **since, dry_run=True)
    assert (status, response["data"]["matched"], response["data"]["dry_run"], response["data"]["id"]) == (
        200,
        2,
        True,
        None,
    )
    assert await queued(shop) == []
    status, response = await redeliver(shop, hook["id"], **since, rate_per_s=50)
    assert (status, response["data"]["matched"], response["data"]["rate_per_s"]) == (202, 2, 50)
    assert await queued(shop) == [(None, True, "failed", 50)]


async def test_deliveries_are_redelivered_by_id(shop: Shop) -> None:
    hook = await subscribe(shop)
    await add_products(shop, "A", "B", "C")
    await finish(shop, hook["id"], 3, "failed")
    ids = [f"dlv_{hook['id']}_3", f"dlv_{hook['id']}_1", f"dlv_{hook['id']}_3"]
    status, response = await redeliver(shop, hook["id"], delivery_ids=ids)
    assert (status, response["data"]["matched"]) == (202, 2)
    assert await queued(shop) == [([1, 3], False, None, None)]


async def test_a_delivery_id_of_another_subscription_is_refused_with_its_pointer(shop: Shop) -> None:
    hook = await subscribe(shop)
    other = await subscribe(shop, url="https://hooks.example.com/2")
    await add_products(shop, "A")
    ids = [f"dlv_{hook['id']}_1", f"dlv_{other['id']}_1", f"dlv_{hook['id']}_9", "dlv_9999999999999999999_1"]
    status, response = await redeliver(shop, hook["id"], delivery_ids=ids)
    assert status == 422
    assert [fault["pointer"] for fault in response["errors"]] == [f"/delivery_ids/{n}" for n in (1, 2, 3)]
    assert await queued(shop) == []


async def test_too_many_ids_are_refused(shop: Shop) -> None:
    hook = await subscribe(shop)
    status, response = await redeliver(shop, hook["id"], delivery_ids=[f"dlv_{hook['id']}_{n}" for n in range(1, 502)])
    assert (status, response["code"], response["max_items"]) == (413, "too_many_items", 500)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"dry_run": True},
        {"delivery_ids": []},
        {"until": "2026-01-01T00:00:00Z"},
        {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
        {"delivery_ids": ["dlv_1_1"], "status": "failed"},
        {"delivery_ids": ["evt_1"]},
        {"status": "pending"},
        {"status": "failed", "rate_per_s": 0},
    ],
)
async def test_an_invalid_redelivery_is_refused(shop: Shop, body: dict[str, Any]) -> None:
    hook = await subscribe(shop)
    assert (await redeliver(shop, hook["id"], **body))[0] == 422


async def test_a_repeated_idempotency_key_queues_one_redelivery(shop: Shop) -> None:
    hook = await subscribe(shop)
    await add_products(shop, "A")
    key = {"idempotency-key": "again"}
    for _ in range(2):
        body = {"since": "2020-01-01T00:00:00Z"}
        answer = await shop.client.post(f"/webhooks/{hook['id']}/redeliver", json=body, headers=key)
        assert answer.status_code == 202
    assert len(await queued(shop)) == 1


async def test_the_number_of_queued_redeliveries_is_limited(shop: Shop) -> None:
    hook = await subscribe(shop)
    for _ in range(20):
        assert (await redeliver(shop, hook["id"], status="failed"))[0] == 202
    status, response = await redeliver(shop, hook["id"], status="failed")
    assert (status, response["code"]) == (429, "rate_limited")


async def test_payloads_are_hidden_after_their_scope_is_revoked(shop: Shop) -> None:
    hook = await subscribe(shop)
    await add_products(shop, "Mug")
    await install(shop.operator, shop.client_id, shop.store.handle, ["webhooks:write"])

    async def payloads_hidden() -> bool:
        (shown,) = (await deliveries(shop, hook["id"], include="payload"))["data"]
        feed = await shop.client.get(f"/webhooks/{hook['id']}/deliveries", params={"after": 0, "include": "payload"})
        return shown["payload"] is None and feed.json()["data"][0]["payload"] is None

    async with asyncio.timeout(20):  # the scopes are cached for less than a second
        while not await payloads_hidden():
            await asyncio.sleep(0.05)
