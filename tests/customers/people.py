"""Sample customers, and their events."""

from datetime import datetime
from typing import Any

import msgspec

from tests.support.shops import Shop

MAYA: dict[str, Any] = {
    "email": "Maya.Ortiz@Example.com",
    "phone": "+1 (555) 010-0123",
    "external_id": "crm-1",
    "first_name": "Maya",
    "last_name": "Ortiz",
    "company": "Kiln & Co",
    "locale": "en-US",
    "accepts_marketing": True,
    "tags": ["wholesale", "ceramics"],
    "note": "Rings twice.",
    "addresses": [
        {"label": "Home", "address1": "12 Larch Street", "city": "Portland", "country_code": "us", "latitude": 45.52},
        {"label": "Work", "address1": "4 Kiln Yard", "city": "Astoria", "country_code": "US", "phone": "+15550100199"},
    ],
    "metadata": {"tier": "gold", "visits": 3, "vip": True, "shared.loyalty": "L-1"},
}
JUN: dict[str, Any] = {"email": "jun@example.com", "first_name": "Jun", "last_name": "Sató"}
HOUSE: dict[str, Any] = {"address1": "1 Mill Lane", "city": "Ghent", "postal_code": "9000", "country_code": "BE"}


async def created(shop: Shop, customer: dict[str, Any]) -> dict[str, Any]:
    answer = await shop.client.post("/customers", json=customer)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def patched(shop: Shop, path: str, change: dict[str, Any]) -> dict[str, Any]:
    answer = await shop.client.patch(path, json=change)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def bought(shop: Shop, customer_id: int, *prices: str, at: datetime) -> list[int]:
    """The ids of orders that a customer placed and paid, one for each price."""
    sku = f"GIFT-{customer_id}"
    await shop.add({"name": "Gift card", "price": "1.00", "sku": sku, "track_inventory": False})
    orders: list[int] = []
    for price in prices:
        body = {
            "line_items": [{"sku": sku, "quantity": 1, "unit_price": price}],
            "customer_id": customer_id,
            "payment_status": "paid",
            "placed_at": at.isoformat(),
        }
        answer = await shop.client.post("/orders", json=body)
        assert answer.status_code == 201, answer.text
        orders.append(answer.json()["data"]["id"])
    return orders


async def events(shop: Shop, like: str = "customer.%") -> list[tuple[str, int, dict[str, Any]]]:
    """The outbox in order: type, resource and changes."""
    rows = await shop.db.fetch(
        "SELECT type, resource_id, changes FROM events WHERE store_id = $1 AND type LIKE $2 ORDER BY position",
        shop.store_id,
        like,
    )
    return [(row[0], row[1], msgspec.json.decode(row[2])) for row in rows]


async def names(shop: Shop, **query: Any) -> list[str]:
    """The first names of the customers that a query finds, in order; checks the total too."""
    page = (await shop.client.get("/customers", params=query)).json()
    assert "data" in page, page
    assert page["meta"]["total"] == len(page["data"])
    return [each["first_name"] for each in page["data"]]
