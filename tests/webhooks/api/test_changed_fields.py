"""`changed`: which updates a subscription receives, what the log and test sends say about it, and which fields are refused."""

from typing import Any

import msgspec
import pytest

from stoa.api import EVENTS
from stoa.events.outbox import Event
from stoa.webhooks.api import samples
from stoa.webhooks.api.changed_fields import watchable
from stoa.webhooks.delivery.changes import Changes
from tests.support.receivers import Receiver
from tests.support.shops import Shop
from tests.webhooks.subscriptions import HOOK, deliveries, route, subscribe


async def received(shop: Shop, webhook_id: int) -> list[str]:
    await route(shop)
    page = await deliveries(shop, webhook_id, sort="id", limit=100)
    return [each["event_type"] for each in page["data"]]


async def change(shop: Shop, path: str, **fields: Any) -> None:
    answer = await shop.client.patch(path, json=fields)
    assert answer.status_code == 200, answer.text


async def last_events(shop: Shop) -> list[tuple[str, str]]:
    rows = await shop.db.fetch("SELECT id, type FROM events WHERE store_id = $1 ORDER BY position DESC", shop.store_id)
    return [(row[0], row[1]) for row in rows]


# --- the rule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "changes", "fields", "included"),
    [
        ("product.updated", {"price": ["1.00", "2.00"]}, ["price"], True),
        ("product.updated", {"price": ["1.00", "2.00"]}, ["name", "price"], True),
        ("product.updated", {"name": ["A", "B"]}, ["price"], False),
        ("product.updated", {"metadata": [{"tier": "a", "x": 1}, {"tier": "b", "x": 1}]}, ["metadata.tier"], True),
        ("product.updated", {"metadata": [{"tier": "a", "x": 1}, {"tier": "a", "x": 2}]}, ["metadata.tier"], False),
        ("product.updated", {"metadata": [{"tier": "a"}, {}]}, ["metadata.tier"], True),
        ("product.updated", {"metadata": [{"a.b": 1}, {"a.b": 2}]}, ["metadata.a.b"], True),
        ("product.updated", {"metadata": [{"a.b": 1}, {"a.b": True}]}, ["metadata.a.b"], True),
        ("product.updated", {"metadata": [{"x": 1}, {"x": 2}]}, ["metadata"], True),
        ("product.updated", {"seo": [{"title": None}, {"title": "T"}]}, ["seo.title"], True),
        ("product.updated", {"seo": [{"title": "T"}, {"title": "T", "description": "D"}]}, ["seo.title"], False),
        ("product.updated", {"images": [[{"alt": "a", "url": "u"}], [{"alt": "a", "url": "v"}]]}, ["images.alt"], False),
        ("product.updated", {"images": [[{"alt": "a"}], [{"alt": "a"}, {"alt": "b"}]]}, ["images.alt"], True),
        ("product.updated", {"price_list": [1, 2]}, ["price"], False),
        ("product.variant_updated", {"price": [None, "2.00"]}, ["variants.price"], True),
        ("product.variant_updated", {"price": [None, "2.00"]}, ["price"], True),
        ("product.variant_updated", {"sku": ["A", "B"]}, ["variants.price"], False),
        ("product.updated", {"price": ["1.00", "2.00"]}, ["variants.price"], False),
        ("product.inventory_changed", {"available": [3, 2]}, ["stock.available"], True),
        ("product.inventory_changed", {"available": [3, 2]}, ["stock.on_hand"], False),
        ("product.inventory_changed", {"available": [3, 2]}, ["stock"], True),
        ("product.inventory_changed", {"locations": [{"east": 1}, {"east": 2}]}, ["stock.available"], False),
        ("product.inventory_changed", {"locations": [{"east": 1}, {"east": 2}]}, ["stock.locations.east"], True),
        ("product.low_stock", {"on_hand": [3, 2], "available": [3, 2]}, ["stock.available"], True),
        ("order.status_changed", {"fulfilled_quantity": [0, 1]}, ["line_items.fulfilled_quantity"], True),
        ("order.products_changed", {"line_items": [[{"id": 1, "quantity": 1}], [{"id": 1, "quantity": 2}]]}, ["line_items.quantity"], True),
        ("order.products_changed", {"line_items": [[{"id": 1, "quantity": 1}], []]}, ["line_items.sku"], True),
        ("product.created", {}, ["price"], True),
        ("product.deleted", {}, ["price"], True),
        ("order.duplicated", {"duplicate_of": [None, 7]}, ["note"], True),
        ("product.updated", {}, ["price"], True),  # without a record of what changed
        ("future.event", {"name": ["A", "B"]}, ["price"], True),
    ],
)  # fmt: skip
def test_an_update_is_included_if_a_watched_field_changed(
    type: str, changes: dict[str, Any], fields: list[str], included: bool
) -> None:
    assert Changes(type, msgspec.json.encode(changes).decode()).include(fields) is included


def test_every_field_in_the_changes_of_a_sample_can_be_watched() -> None:
    derived = {"product.variant_updated": {"effective_price"}, "order.duplicated": {"duplicate_of"}}
    for name, event in EVENTS.items():
        if event.resource_type != "webhook":
            recorded = event.recorded | event.changed_paths.keys() | derived.get(name, set())
            assert set(samples.changes(event)) <= recorded, name


# --- deliveries -------------------------------------------------------------------------------------------------------


async def test_a_subscription_receives_only_changes_of_its_fields(shop: Shop) -> None:
    hook = await subscribe(shop, changed=["price", "metadata.tier"])
    assert hook["changed"] == ["price", "metadata.tier"]
    [product] = await shop.add({"name": "Mug", "price": "5.00"})
    await change(shop, f"/products/{product}", name="Cup")
    await change(shop, f"/products/{product}", price="6.00", name="Jug")
    await change(shop, f"/products/{product}", metadata={"color": "red"})
    await change(shop, f"/products/{product}", metadata={"tier": "gold"})
    assert (await shop.client.delete(f"/products/{product}")).status_code == 204
    assert await received(shop, hook["id"]) == [
        "product.created", "product.updated", "product.updated", "product.deleted",
    ]  # fmt: skip


async def test_variants_and_stock_are_watched_by_their_own_fields(shop: Shop) -> None:
    prices = await subscribe(shop, name="prices", changed=["variants.price"], url="https://hooks.example.com/prices")
    stock = await subscribe(shop, name="stock", changed=["stock.available"], url="https://hooks.example.com/stock")
    hand = await subscribe(shop, name="hand", changed=["stock.on_hand"], url="https://hooks.example.com/hand")
    variants = [{"sku": "MUG", "stock": {"on_hand": 5}}]
    [product] = await shop.add({"name": "Mug", "price": "5.00", "variants": variants})
    shown = (await shop.client.get(f"/products/{product}?include=variants")).json()["data"]
    variant = shown["variants"][0]["id"]
    await change(shop, f"/products/{product}/variants/{variant}", price="7.00")
    await change(shop, f"/products/{product}/variants/{variant}", barcode="123")
    line = {"variant_id": variant, "quantity": 2}
    placed = await shop.client.post("/orders", json={"status": "processing", "line_items": [line]})
    assert placed.status_code == 201, placed.text
    assert await received(shop, prices["id"]) == ["product.created", "product.variant_updated"]
    assert await received(shop, stock["id"]) == ["product.created", "product.inventory_changed"]
    assert await received(shop, hand["id"]) == ["product.created"]
    order = placed.json()["data"]["id"]
    shipped = await shop.client.put(f"/orders/{order}/status", json={"status": "shipped"})
    assert shipped.status_code == 200, shipped.text
    assert (await received(shop, hand["id"]))[1:] == ["product.inventory_changed"]
    assert (await received(shop, stock["id"]))[2:] == []  # the units were reserved before they were shipped


async def test_own_metadata_is_watched_by_its_app_only(shop: Shop) -> None:
    hook = await subscribe(shop, events=["customer.*"], changed=["metadata.tier"])
    made = await shop.client.post("/customers", json={"email": "a@example.com", "metadata": {"tier": "a", "x": 1}})
    path = f"/customers/{made.json()['data']['id']}"
    await change(shop, path, metadata={"x": 2})
    await change(shop, path, metadata={"tier": "b"})
    await change(shop, path, first_name="Ada")
    assert await received(shop, hook["id"]) == ["customer.created", "customer.metadata_changed"]


async def test_changed_works_together_with_the_filter(shop: Shop) -> None:
    hook = await subscribe(shop, events=["product.updated"], changed=["price"], filter={"status": "active"})
    active, draft = await shop.add(
        {"name": "Mug", "price": "5.00"}, {"name": "Cup", "price": "5.00", "status": "draft"}
    )
    for product in (active, draft):
        await change(shop, f"/products/{product}", price="6.00")
        await change(shop, f"/products/{product}", name="New")
    await route(shop)
    reasons = {}
    for event_id, _ in (await last_events(shop))[:4]:
        page = await deliveries(shop, hook["id"], event_id=event_id)
        reasons[event_id] = page["meta"].get("not_sent", {}).get("reason")
    assert [*reasons.values()] == ["unchanged", "filtered", "unchanged", None]


async def test_the_feed_has_the_same_events_as_the_log(shop: Shop) -> None:
    hook = await subscribe(shop, url=None, changed=["price"])
    [product] = await shop.add({"name": "Mug", "price": "5.00"})
    await change(shop, f"/products/{product}", name="Cup")
    await change(shop, f"/products/{product}", price="6.00")
    await route(shop)
    feed = await deliveries(shop, hook["id"], after=0, include="payload")
    assert [each["payload"]["type"] for each in feed["data"]] == ["product.created", "product.updated"]
    assert feed["data"][1]["payload"]["changes"] == {"price": ["5.00", "6.00"]}
    assert [each["sequence"] for each in feed["data"]] == [1, 2]


async def test_a_change_of_changed_applies_to_later_events(shop: Shop) -> None:
    hook = await subscribe(shop, events=["product.updated"], changed=["price"])
    [product] = await shop.add({"name": "Mug", "price": "5.00"})
    await change(shop, f"/products/{product}", name="Cup")
    assert await received(shop, hook["id"]) == []
    await change(shop, f"/webhooks/{hook['id']}", changed=None)
    await change(shop, f"/products/{product}", name="Jug")
    assert await received(shop, hook["id"]) == ["product.updated"]
    assert (await shop.client.get(f"/webhooks/{hook['id']}")).json()["data"]["changed"] == []


@pytest.mark.parametrize(
    ("event", "reason"), [("product.updated", None), ("product.variant_updated", "unchanged"), ("order.created", "not_subscribed")]
)  # fmt: skip
async def test_a_test_send_says_whether_its_sample_would_be_sent(
    loopback_shop: Shop, event: str, reason: str | None
) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url, changed=["compare_at_price"], events=["product.*"])
        answer = await loopback_shop.client.post(f"/webhooks/{hook['id']}/test", json={"event": event})
        assert answer.status_code == 200, answer.text
        not_sent = answer.json()["data"]["not_sent"]
        assert (not_sent and not_sent["reason"]) == reason
        assert len(receiver.received) == 1


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "changed", "pointer", "code"),
    [
        (["product.*"], ["prise"], "/changed/0", "unknown_field"),
        (["product.*"], ["price", "stock.gone"], "/changed/1", "unknown_field"),
        (["product.*"], ["price", "price"], "/changed/1", "invalid_format"),
        (["product.*"], ["updated_at"], "/changed/0", "unknown_field"),
        (["product.*"], ["effective_price"], "/changed/0", "unknown_field"),
        (["product.*"], ["in_stock"], "/changed/0", "unknown_field"),
        (["product.updated"], ["stock.available"], "/changed/0", "unknown_field"),
        (["product.updated"], ["variants.price"], "/changed/0", "unknown_field"),
        (["order.*"], ["line_items.allocations"], "/changed/0", "unknown_field"),
        (["order.*"], ["price"], "/changed/0", "unknown_field"),
        (["product.created"], ["price"], "/changed/0", "unknown_field"),
        (["product.*"], ["metadata[tier]"], "/changed/0", "invalid_format"),
        (["product.*"], [f"metadata.{n}" for n in range(21)], "/changed", "too_long"),
    ],
)
async def test_a_field_that_no_event_reports_is_refused(
    shop: Shop, events: list[str], changed: list[str], pointer: str, code: str
) -> None:
    answer = await shop.client.post("/webhooks", json=HOOK | {"events": events, "changed": changed})
    assert answer.status_code == 422
    assert [(each["pointer"], each["code"]) for each in answer.json()["errors"]] == [(pointer, code)]


async def test_a_similar_field_is_suggested(shop: Shop) -> None:
    answer = await shop.client.post("/webhooks", json=HOOK | {"changed": ["stock.avaliable"]})
    [fault] = answer.json()["errors"]
    assert fault["meta"] == {"did_you_mean": "stock.available"}


def test_the_watchable_fields_of_products_include_stock_and_variants() -> None:
    fields = set(watchable(event for name, event in Event.subscribable().items() if name.startswith("product.")))
    assert {"price", "metadata", "stock.available", "stock.reserved", "low_stock_threshold"} <= fields
    assert not fields & {"id", "version", "updated_at", "in_stock", "effective_price"}
