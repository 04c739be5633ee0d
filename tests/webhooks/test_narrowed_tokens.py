"""A token narrowed to some scopes gains no more data through subscriptions than it may read."""

from typing import Any

import httpx
import pytest

from stoa.settings import Settings
from tests.customers.people import JUN, created
from tests.support.receivers import Receiver
from tests.support.shops import Shop, api_client, token_for
from tests.webhooks.subscriptions import ATTEMPT, add_products, deliveries, finish, route, subscribe
from tests.webhooks.workers import until, working

CUSTOMERS = {"url": "https://hooks.example.com/people", "events": ["customer.*"]}
RECEIVER = [
    {"url": "https://elsewhere.example.com/"},
    {"events": ["customer.created"]},
    {"events": ["customer.*", "product.*"]},
    {"filter": {"email": "jun@example.com"}},
    {"headers": {"X-Key": "mine"}},
]


async def narrowed(shop: Shop, *scopes: str) -> httpx.AsyncClient:
    """A client of the shop's own app, whose token has only these scopes."""
    token = await token_for(shop.service, shop.client_id, shop.client_secret, scope=" ".join(scopes))
    return api_client(shop.application, shop.store.handle, token)


def refused(answer: httpx.Response) -> str:
    """The scope that a refusal names."""
    assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope"), answer.text
    return answer.json()["required_scope"]


async def subscribe_to_all(shop: Shop, **more: Any) -> int:
    """Subscribe to everything that happens from now on, with a token that has all scopes."""
    await route(shop)
    return (await subscribe(shop, url="https://hooks.example.com/all", events=["*"], **more))["id"]


async def fed(shop: Shop, hook: int, client: httpx.AsyncClient | None = None) -> list[tuple[str, bool]]:
    """The events of a feed, each with whether its payload is readable."""
    await route(shop)
    query = {"after": 0, "include": "payload"}
    answer = await (client or shop.client).get(f"/webhooks/{hook}/deliveries", params=query)
    return [(each["event_type"], each["payload"] is not None) for each in answer.json()["data"]]


# --- subscribing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "events", [["customer.created"], ["customer.*"], ["product.*", "customer.*"], ["*", "customer.*"]]
)
async def test_names_and_families_need_their_scope_in_the_token(shop: Shop, events: list[str]) -> None:
    client = await narrowed(shop, "webhooks:write", "products:read")
    assert refused(await client.post("/webhooks", json=CUSTOMERS | {"events": events})) == "customers:read"
    assert (await shop.client.get("/webhooks")).json()["data"] == []


async def test_a_token_subscribes_to_what_it_may_read(shop: Shop) -> None:
    client = await narrowed(shop, "webhooks:write", "customers:read")
    assert (await client.post("/webhooks", json=CUSTOMERS)).status_code == 201


async def test_a_family_with_events_of_two_scopes_needs_one_of_them(shop: Shop) -> None:
    client = await narrowed(shop, "webhooks:write", "inventory:read")
    hook = (await client.post("/webhooks", json={"name": "n", "events": ["product.*"]})).json()["data"]["id"]
    [product] = await add_products(shop, "Mug")
    variant = (await shop.client.get(f"/products/{product}/variants")).json()["data"][0]["id"]
    moved = {"items": [{"variant_id": variant, "quantity": 3}]}
    assert (await shop.client.post("/products/inventory/adjustments", json=moved)).status_code < 300
    assert {name for name, _ in await fed(shop, hook)} <= {"product.inventory_changed", "product.back_in_stock"}
    assert await fed(shop, hook)


async def test_a_wildcard_covers_what_the_token_may_read(shop: Shop, settings: Settings) -> None:
    client = await narrowed(shop, "webhooks:write", "products:read")
    await route(shop)
    hook = (await client.post("/webhooks", json={"name": "n", "events": ["*"]})).json()["data"]["id"]
    async with Receiver() as receiver:
        await shop.db.execute("UPDATE webhooks SET url = $2 WHERE id = $1", hook, receiver.url)
        async with working(settings):
            await created(shop, JUN)
            await shop.add({"name": "Mug", "price": "5.00"})
            await receiver.until(1)
    assert {event["type"].partition(".")[0] for event in receiver.events} == {"product"}
    assert {name.partition(".")[0] for name, _ in await fed(shop, hook)} == {"product"}


async def test_a_wildcard_of_a_token_with_all_scopes_follows_the_installation(shop: Shop) -> None:
    change = "UPDATE installations SET scopes = $3 WHERE store_id = $1 AND app_id = $2"
    await shop.db.execute(change, shop.store_id, shop.app_id, ["webhooks:write", "products:read"])
    client = api_client(
        shop.application, shop.store.handle, await token_for(shop.service, shop.client_id, shop.client_secret)
    )
    await route(shop)
    hook = (await client.post("/webhooks", json={"name": "n", "events": ["*"]})).json()["data"]["id"]
    await shop.db.execute(change, shop.store_id, shop.app_id, ["webhooks:write", "products:read", "customers:write"])
    other = await shop.client_with(["customers:write"])
    assert (await other.post("/customers", json=JUN)).status_code == 201
    await route(shop)
    rows = await shop.db.fetch("SELECT event_type FROM pending_deliveries WHERE webhook_id = $1", hook)
    assert [row[0] for row in rows] == ["customer.created"]


async def test_the_installation_bounds_a_recorded_token(shop: Shop) -> None:
    client = await narrowed(shop, "webhooks:write", "customers:read", "products:read")
    await route(shop)
    hook = (await client.post("/webhooks", json={"name": "n", "events": ["*"]})).json()["data"]["id"]
    change = "UPDATE installations SET scopes = $3 WHERE store_id = $1 AND app_id = $2"
    await shop.db.execute(change, shop.store_id, shop.app_id, ["webhooks:write", "products:write"])
    other = await shop.client_with(["customers:write"])
    assert (await other.post("/customers", json=JUN)).status_code == 201
    await add_products(shop, "Mug")
    rows = await shop.db.fetch("SELECT event_type FROM pending_deliveries WHERE webhook_id = $1", hook)
    assert {row[0] for row in rows} == {"product.created"}


async def test_a_subscription_without_recorded_scopes_follows_the_installation(shop: Shop) -> None:
    hook = (await subscribe(shop, url=None, name="n", events=["*"]))["id"]
    await shop.db.execute("UPDATE webhooks SET readable = NULL WHERE id = $1", hook)  # as release 0.2.0 inserts it
    await created(shop, JUN)
    assert ("customer.created", True) in await fed(shop, hook)


# --- changing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("patch", RECEIVER)
async def test_a_change_of_the_receiver_needs_the_scopes_of_the_events(shop: Shop, patch: dict[str, Any]) -> None:
    hook = await subscribe(shop, **CUSTOMERS)
    client = await narrowed(shop, "webhooks:write", "products:read")
    assert refused(await client.patch(f"/webhooks/{hook['id']}", json=patch)) == "customers:read"
    after = (await shop.client.get(f"/webhooks/{hook['id']}")).json()["data"]
    assert (after["version"], after["url"], after["events"]) == (1, CUSTOMERS["url"], CUSTOMERS["events"])


async def test_a_new_secret_needs_the_scopes_of_the_events(shop: Shop) -> None:
    hook = await subscribe(shop, **CUSTOMERS)
    client = await narrowed(shop, "webhooks:write", "products:read")
    assert refused(await client.post(f"/webhooks/{hook['id']}/rotate-secret", json={})) == "customers:read"


async def test_other_settings_need_no_scope_of_the_events(shop: Shop) -> None:
    hook = await subscribe(shop, **CUSTOMERS)
    client = await narrowed(shop, "webhooks:write")
    same: dict[str, Any] = {"url": CUSTOMERS["url"], "events": CUSTOMERS["events"], "headers": {}}
    answer = await client.patch(f"/webhooks/{hook['id']}", json={**same, "name": "New", "status": "paused"})
    assert (answer.status_code, answer.json()["data"]["name"]) == (200, "New")
    assert (await client.delete(f"/webhooks/{hook['id']}")).status_code == 204


async def test_pending_events_do_not_follow_to_the_receiver_of_a_narrow_token(shop: Shop, settings: Settings) -> None:
    hook = await subscribe_to_all(shop, status="paused")
    await created(shop, JUN)
    await route(shop)
    client = await narrowed(shop, "webhooks:write", "products:read")
    async with Receiver() as receiver:
        url = {"url": "https://elsewhere.example.com/", "status": "active"}
        assert (await client.patch(f"/webhooks/{hook}", json=url)).status_code == 200
        await shop.db.execute("UPDATE webhooks SET url = $2 WHERE id = $1", hook, receiver.url)
        async with working(settings):

            async def skipped() -> bool:
                [delivery] = (await deliveries(shop, hook))["data"]
                return delivery["status"] == "skipped"

            await until(skipped, "the event is skipped")
    assert receiver.events == []


# --- reading ----------------------------------------------------------------------------------------------------------


async def test_redelivery_needs_the_scopes_of_what_it_sends(shop: Shop) -> None:
    hook = await subscribe_to_all(shop)
    await created(shop, JUN)
    await add_products(shop, "Mug")
    listed = (await deliveries(shop, hook))["data"]
    ids = {each["event_type"]: each["id"] for each in listed}
    client = await narrowed(shop, "webhooks:write", "products:read")
    path = f"/webhooks/{hook}/redeliver"
    since = {"since": "2026-01-01T00:00:00Z"}
    for body in ({"delivery_ids": [ids["customer.created"]]}, since, {**since, "dry_run": True}):
        assert refused(await client.post(path, json=body)) == "customers:read"
    assert (await client.post(path, json={"delivery_ids": [ids["product.created"]]})).status_code == 202
    assert (await client.post(path, json={**since, "status": "failed"})).status_code == 202
    assert (await shop.client.post(path, json=since)).status_code == 202


async def test_redelivery_of_stock_events_needs_the_scope_of_their_products(shop: Shop) -> None:
    hook = (await subscribe(shop, url=None, name="n", events=["product.inventory_changed"]))["id"]
    await shop.add({"name": "Mug", "price": "5.00", "sku": "MUG", "stock": {"on_hand": 3}})
    moved = {"items": [{"sku": "MUG", "quantity": 3}]}
    assert (await shop.client.post("/products/inventory/adjustments", json=moved)).status_code < 300
    await route(shop)
    body = {"since": "2026-01-01T00:00:00Z", "dry_run": True}
    client = await narrowed(shop, "webhooks:write", "inventory:read")
    assert refused(await client.post(f"/webhooks/{hook}/redeliver", json=body)) == "products:read"


async def test_a_test_needs_the_scope_of_its_event(shop: Shop) -> None:
    hook = await subscribe(shop, **CUSTOMERS)
    client = await narrowed(shop, "webhooks:write", "products:read")
    path = f"/webhooks/{hook['id']}/test"
    assert refused(await client.post(path, json={"event": "customer.created"})) == "customers:read"


async def test_a_test_is_bounded_by_the_subscription(shop: Shop) -> None:
    client = await narrowed(shop, "webhooks:write", "products:read")
    hook = (await client.post("/webhooks", json={"url": CUSTOMERS["url"], "events": ["*"]})).json()["data"]["id"]
    answer = await shop.client.post(f"/webhooks/{hook}/test", json={"event": "customer.created"})
    assert refused(answer) == "customers:read"


async def test_the_log_hides_payload_and_response_without_the_scope(shop: Shop) -> None:
    hook = await subscribe_to_all(shop)
    await created(shop, JUN)
    await add_products(shop, "Mug")
    for sequence in (1, 2):
        await finish(shop, hook, sequence, "failed", ATTEMPT.replace("pending", "canary"))
    client = await narrowed(shop, "webhooks:read", "products:read")
    for query in ({"include": "payload"}, {"after": 0, "include": "payload"}):
        page = (await client.get(f"/webhooks/{hook}/deliveries", params=query)).json()["data"]
        seen = {
            each["event_type"]: (each["payload"] is not None, each["attempts"][0]["response_body"] is not None)
            for each in page
        }
        assert seen == {"customer.created": (False, False), "product.created": (True, True)}
        assert {each["attempts"][0]["response_status"] for each in page} == {500}
    own = (await deliveries(shop, hook))["data"]
    assert all("canary" in each["attempts"][0]["response_body"] for each in own)


async def test_the_feed_is_bounded_by_the_subscription(shop: Shop) -> None:
    hook = await subscribe_to_all(shop)
    await created(shop, JUN)
    assert await fed(shop, hook) == [("customer.created", True)]
    client = await narrowed(shop, "webhooks:write", "products:read")
    changed = await client.patch(f"/webhooks/{hook}", json={"url": None, "name": "n"})
    assert changed.status_code == 200
    assert await fed(shop, hook) == [("customer.created", False)]


async def test_why_an_event_was_not_sent_tells_nothing_about_its_data(shop: Shop) -> None:
    hook = await subscribe(shop, **CUSTOMERS, filter={"email": "other@example.com"})
    await created(shop, JUN)
    await route(shop)
    query = "SELECT id FROM events WHERE store_id = $1 AND type = 'customer.created'"
    [[event_id]] = await shop.db.fetch(query, shop.store_id)
    path, asked = f"/webhooks/{hook['id']}/deliveries", {"event_id": event_id}
    reasons = [
        (await client.get(path, params=asked)).json()["meta"]["not_sent"]["reason"]
        for client in (shop.client, await narrowed(shop, "webhooks:read"))
    ]
    assert reasons == ["filtered", "scope_not_granted"]
