"""Lists of customers: filters, sorting and pages."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.customers.people import JUN, MAYA, bought, created, names, patched
from tests.support.shops import Shop

MONDAY = datetime(2026, 3, 2, 9, tzinfo=UTC)


async def crowd(shop: Shop) -> dict[str, int]:
    """Three customers with 3, 1 and no orders."""
    lee: dict[str, Any] = {"email": "lee@example.org", "first_name": "Lee", "last_name": "Abara", "tags": ["vip"]}
    maya, jun, third = [await created(shop, each) for each in (MAYA, JUN, lee)]
    await bought(shop, maya["id"], "100.00", "20.00", "0.50", at=MONDAY)
    await bought(shop, jun["id"], "5.00", at=MONDAY + timedelta(days=1))
    return {"Maya": maya["id"], "Jun": jun["id"], "Lee": third["id"]}


async def test_every_filter_finds_its_customers(shop: Shop) -> None:
    ids = await crowd(shop)
    found: list[tuple[dict[str, Any], list[str]]] = [
        ({"email": "MAYA.ortiz@example.COM"}, ["Maya"]),
        ({"phone": "+1 555 010 0123"}, ["Maya"]),
        ({"phone": "15550100123"}, ["Maya"]),
        ({"phone": "+15550100124"}, []),
        ({"external_id": "crm-1"}, ["Maya"]),
        ({"ids": f"{ids['Lee']},{ids['Jun']}"}, ["Jun", "Lee"]),
        ({"name": "ort may"}, ["Maya"]),
        ({"name": "sato"}, ["Jun"]),
        ({"name": "kiln"}, ["Maya"]),
        ({"name": "wholesale"}, []),
        ({"tag": "vip"}, ["Lee"]),
        ({"tag": "VIP"}, ["Lee"]),
        ({"status": "active"}, ["Maya", "Jun", "Lee"]),
        ({"status": "disabled"}, []),
        ({"orders_count": 1}, ["Jun"]),
        ({"orders_count[gte]": 1, "orders_count[lt]": 3}, ["Jun"]),
        ({"orders_count[gt]": 0}, ["Maya", "Jun"]),
        ({"total_spent": "120.50"}, ["Maya"]),
        ({"total_spent[gte]": "5", "total_spent[lte]": "5.00"}, ["Jun"]),
        ({"total_spent[lt]": "1"}, ["Lee"]),
        ({"q": "lee@example.org"}, ["Lee"]),
        ({"q": "example"}, ["Maya", "Jun", "Lee"]),
        ({"q": "SATÓ"}, ["Jun"]),
        ({"q": "(555) 010-0123"}, ["Maya"]),
        ({"q": "+1 555 010"}, ["Maya"]),
        ({"q": "ceram"}, ["Maya"]),
        ({"created_at[gte]": "2020-01-01T00:00:00Z"}, ["Maya", "Jun", "Lee"]),
        ({"created_at[lt]": "2020-01-01T00:00:00Z"}, []),
        ({"tag": "vip", "orders_count": 0, "q": "ab"}, ["Lee"]),
    ]
    for query, expected in found:
        assert await names(shop, **query) == expected, query


async def test_every_sort_key_works_in_both_directions_across_pages(shop: Shop) -> None:
    await crowd(shop)
    orders = {
        "last_name": ["Lee", "Maya", "Jun"],
        "orders_count": ["Lee", "Jun", "Maya"],
        "total_spent": ["Lee", "Jun", "Maya"],
        "last_order_at": ["Lee", "Maya", "Jun"],
        "created_at": ["Maya", "Jun", "Lee"],
        "updated_at": ["Lee", "Maya", "Jun"],
    }
    for sort, expected in orders.items():
        if sort != "updated_at":
            assert await names(shop, sort=sort) == expected
            assert await names(shop, sort=f"-{sort}") == expected[::-1]
        walked: list[str] = []
        query: dict[str, Any] | None = {"sort": sort, "limit": 1}
        while query:
            page = (await shop.client.get("/customers", params=query)).json()
            walked += [each["first_name"] for each in page["data"]]
            query = {"cursor": page["meta"]["next_cursor"]} if page["meta"]["next_cursor"] else None
        assert sorted(walked) == sorted(expected)
        assert sort == "updated_at" or walked == expected


async def test_an_order_changes_the_totals_version_and_time_of_its_customer(shop: Shop) -> None:
    jun = await created(shop, JUN)
    first, _ = await bought(shop, jun["id"], "10.00", "20.00", at=MONDAY)
    await shop.client.put(f"/orders/{first}/status", json={"status": "cancelled"})
    after = (await shop.client.get(f"/customers/{jun['id']}")).json()["data"]
    assert (after["orders_count"], after["total_spent"], after["version"]) == (1, "20.00", 4)
    assert after["last_order_at"] == "2026-03-02T09:00:00.000000Z"
    assert after["updated_at"] > jun["updated_at"]


async def test_updated_since_keeps_a_copy_in_sync(shop: Shop) -> None:
    ids = await crowd(shop)
    everything = (await shop.client.get("/customers", params={"sort": "updated_at"})).json()["data"]
    since = everything[-1]["updated_at"]
    await patched(shop, f"/customers/{ids['Lee']}/metadata", {"shared.seen": True})
    assert (await shop.client.delete(f"/customers/{ids['Jun']}")).status_code == 204
    query = {"updated_since": since, "include_deleted": "true", "sort": "updated_at"}
    changed = (await shop.client.get("/customers", params=query)).json()["data"]
    assert [each["id"] for each in changed[-2:]] == [ids["Lee"], ids["Jun"]]
    assert set(changed[-1]) == {"id", "deleted_at", "updated_at", "version"}
    assert ids["Jun"] not in [each["id"] for each in (await shop.client.get("/customers")).json()["data"]]
    assert (await shop.client.get("/customers")).json()["meta"]["total"] == 2


async def test_fields_limits_the_members(shop: Shop) -> None:
    await created(shop, MAYA)
    page = (await shop.client.get("/customers", params={"fields": "id,metadata"})).json()
    assert set(page["data"][0]) == {"id", "metadata"}
    assert page["data"][0]["metadata"]["tier"] == "gold"
