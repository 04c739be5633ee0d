"""The list of orders: filters, search, sorting and fields."""

from typing import Any

import pytest

from tests.orders.sample_store import ADA, HOME, SampleStore
from tests.support.shops import Shop


@pytest.fixture
async def listed(store: SampleStore) -> tuple[SampleStore, dict[str, dict[str, Any]]]:
    """A few orders that differ in all filterable fields."""
    plain = await store.place(("TEA", 1), placed_at="2025-01-01T00:00:00Z", tags=["web"], metadata={"lane": "a"})
    ada = await store.place(
        ("POT-B", 1), customer=ADA, shipping_address=HOME, placed_at="2025-02-01T00:00:00Z", external_id="erp-1"
    )
    paid = await store.place(
        ("TEA", 3), status="processing", payment_status="paid", contact={"email": "Bo@Example.com", "first_name": "Bo"}
    )
    sent = await store.place(
        ("TEA", 1), ("POT-B", 1), status="processing", tags=["web", "gift"], metadata={"lane": "b"}
    )
    sent = await store.change_status(sent, "shipped")
    return store, {"plain": plain, "ada": ada, "paid": paid, "sent": sent}


FOUND: list[tuple[dict[str, Any], str]] = [
    ({}, "plain ada paid sent"),
    ({"status": "pending"}, "plain ada"),
    ({"status": "processing,shipped"}, "paid sent"),
    ({"payment_status": "paid"}, "paid"),
    ({"fulfillment_status": "fulfilled"}, "sent"),
    ({"email": "ADA.moor@example.com"}, "ada"),
    ({"email": "bo@example.com"}, "paid"),
    ({"phone": "+44 20 7946 0018"}, "ada"),
    ({"sku": "POT-B"}, "ada sent"),
    ({"sku": "NOPE"}, ""),
    ({"sku": "TEA,POT-B"}, "plain ada paid sent"),
    ({"number": "1002"}, "ada"),
    ({"external_id": "erp-1"}, "ada"),
    ({"total[gte]": "45.00"}, "ada sent"),
    ({"total": "8.00"}, "plain"),
    ({"total[gt]": "8", "total[lt]": "45"}, "paid"),
    ({"placed_at[lt]": "2025-02-01T00:00:00Z"}, "plain"),
    ({"placed_at[lte]": "2025-02-01T00:00:00Z"}, "plain ada"),
    ({"placed_at[gte]": "2025-01-02T00:00:00Z"}, "ada paid sent"),
    ({"created_at[gte]": "2026-01-01T00:00:00Z"}, "plain ada paid sent"),
    ({"created_at[gt]": "2026-01-01T00:00:00Z", "created_at[lt]": "2999-01-01T00:00:00Z"}, "plain ada paid sent"),
    ({"created_at[lte]": "2025-12-01T00:00:00Z"}, ""),
    ({"created_at": "2025-01-01T00:00:00Z"}, ""),
    ({"tag": "web"}, "plain sent"),
    ({"tag": "WEB"}, "plain sent"),
    ({"metadata[lane]": "b"}, "sent"),
    ({"q": "ada"}, "ada"),
    ({"q": "mo ad"}, "ada"),
    ({"q": "1003"}, "paid"),
    ({"has_suspected_duplicates": "true"}, ""),
    ({"has_suspected_duplicates": "false", "sku": "TEA"}, "plain paid sent"),
    ({"sort": "-total"}, "sent ada paid plain"),
    ({"sort": "-number"}, "sent paid ada plain"),
    ({"sort": "placed_at", "limit": 2}, "plain ada"),
    ({"sort": "-created_at", "limit": 2}, "sent paid"),
    ({"updated_since": "2999-01-01T00:00:00Z"}, ""),
]


@pytest.mark.parametrize(("params", "expected"), FOUND)
async def test_a_filter_finds_exactly_the_matching_orders(
    listed: tuple[SampleStore, dict[str, dict[str, Any]]], params: dict[str, Any], expected: str
) -> None:
    store, orders = listed
    page = (await store.client.get("/orders", params=params)).json()
    names = {order["id"]: name for name, order in orders.items()}
    assert " ".join(names[order["id"]] for order in page["data"]) == expected
    if "limit" not in params:
        assert page["meta"]["total"] == len(page["data"])


async def test_a_list_shows_orders_as_single_reads_do(listed: tuple[SampleStore, dict[str, dict[str, Any]]]) -> None:
    store, orders = listed
    page = (await store.client.get("/orders")).json()
    assert page["data"] == list(orders.values())
    ids = f"{orders['sent']['id']},{orders['plain']['id']}"
    page = (await store.client.get("/orders", params={"ids": ids, "fields": "id,number"})).json()
    assert page["data"] == [{"id": orders[n]["id"], "number": orders[n]["number"]} for n in ("plain", "sent")]
    customer = orders["ada"]["customer_id"]
    assert (await store.client.get("/orders", params={"customer_id": customer})).json()["meta"]["total"] == 1


async def test_updated_since_finds_changed_orders(listed: tuple[SampleStore, dict[str, dict[str, Any]]]) -> None:
    store, orders = listed
    since = orders["sent"]["updated_at"]
    await store.patch(orders["plain"], note="Changed.")
    page = (await store.client.get("/orders", params={"updated_since": since, "sort": "updated_at"})).json()
    assert [order["id"] for order in page["data"]] == [orders["sent"]["id"], orders["plain"]["id"]]


async def test_orders_of_another_store_are_not_listed(listed: Any, other_shop: Shop) -> None:
    page = (await other_shop.client.get("/orders")).json()
    assert (page["data"], page["meta"]["total"]) == ([], 0)
