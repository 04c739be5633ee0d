"""Orders, customers and webhooks through the SDK."""

import asyncio
from decimal import Decimal

import pytest

from stoa_client import AsyncClient, Client, codes, models


def test_an_order_is_placed_shipped_and_found_again(client: Client) -> None:
    client.products.create(name="Mug", price="12.50", sku="MUG-1", stock={"on_hand": 5})
    order = client.orders.create(
        line_items=[{"sku": "MUG-1", "quantity": 2}],
        customer={"email": "ada@example.com", "first_name": "Ada"},
    )
    assert (order.status, order.total) == ("pending", Decimal("25.00"))
    client.orders.update_status(order.id, status="processing", payment_status="paid")
    shipped = client.orders.update_status(order.id, status="shipped")
    assert (shipped.status, shipped.fulfillment_status) == ("shipped", "fulfilled")
    with pytest.raises(codes.IllegalTransition) as refused:
        client.orders.update_status(order.id, status="draft")
    assert refused.value.more["allowed_transitions"]
    client.orders.comments.create(order.id, body="On its way")
    assert "On its way" in {comment.body for comment in client.orders.comments.list(order.id)}
    assert [found.id for found in client.orders.list(status="shipped", total_gte="20")] == [order.id]
    assert client.products.list(sku="MUG-1").page().data[0].stock.on_hand == 3


def test_a_copy_reports_skipped_line_items(client: Client) -> None:
    client.products.create(name="Mug", price="12.50", sku="MUG-1", stock={"on_hand": 5})
    order = client.orders.create(line_items=[{"sku": "MUG-1", "quantity": 2}])
    copy = client.orders.duplicate(order.id)
    assert (copy.status, copy.answer.meta.get("skipped_line_items", [])) == ("draft", [])


def test_a_customer_is_created_and_erased(client: Client) -> None:
    made = client.customers.create(email="ada@example.com", first_name="Ada")
    client.customers.addresses.create(made.id, address1="1 Mill Lane", city="Leeds", country_code="GB")
    entries = client.customers.update_metadata(made.id, {"tier": "gold"})
    assert [(entry.key, entry.value) for entry in entries] == [("tier", "gold")]
    assert all(isinstance(entry, models.MetadataEntry) for entry in entries)
    with pytest.raises(codes.CustomerExists) as refused:
        client.customers.create(email="ADA@example.com")
    assert refused.value.more["existing_id"] == made.id
    client.customers.erase(made.id)
    assert client.customers.list(email="ada@example.com").first() is None


def test_a_subscription_is_followed_by_long_polling(client: Client) -> None:
    hook = client.webhooks.create(events=["product.*"])
    product = client.products.create(name="Mug", price="12.50")
    client.products.update(product.id, price="13.00")
    feed = client.webhooks.deliveries.feed(hook.id)
    first, second = next(feed), next(feed)
    assert (first.type, second.type) == ("product.created", "product.updated")
    assert second.changes["price"] == ["12.50", "13.00"]
    assert second.read(models.Product).price == Decimal("13.00")
    assert first.sequence is not None
    rest = list(client.webhooks.deliveries.feed(hook.id, after=first.sequence, wait_s=0))
    assert [event.id for event in rest] == [second.id]


async def test_a_subscription_is_followed_in_an_event_loop(async_client: AsyncClient) -> None:
    hook = await async_client.webhooks.create(events=["product.created"])

    async def first() -> str:
        async for event in async_client.webhooks.deliveries.feed(hook.id):
            return str(event.data["name"])
        return ""

    waiting = asyncio.create_task(first())
    await async_client.products.create(name="Mug", price="12.50")
    assert await waiting == "Mug"
