"""A store with tracked, backorder and untracked variants, and the events and ledger entries that its app causes."""

from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from tests.support.shops import Shop

SOCKS: dict[str, Any] = {
    "name": "Wool Socks",
    "price": "14.00",
    "options": [{"name": "Size", "values": ["S", "L"]}],
    "variants": [
        {"sku": "SOCK-S", "option_values": {"Size": "S"}, "low_stock_threshold": 3, "stock": {"on_hand": 10}},
        {"sku": "SOCK-L", "option_values": {"Size": "L"}, "stock": {"on_hand": 0}},
    ],
}
LAMP: dict[str, Any] = {
    "name": "Brass Lamp",
    "price": "149.00",
    "variants": [{"sku": "LAMP", "allow_backorder": True, "low_stock_threshold": 0, "stock": {"on_hand": 1}}],
}
CARD: dict[str, Any] = {
    "name": "Gift Card",
    "price": "25.00",
    "track_inventory": False,
    "variants": [{"sku": "CARD", "low_stock_threshold": 5}],
}
EVENT = ("id", "type", "resource_type", "resource_id", "resource_version", "actor", "changes", "data", "request_id")


@dataclass
class Shelves:
    """A shop with its variants by SKU. Events and ledger entries from before the test are ignored."""

    shop: Shop
    variants: dict[str, int] = field(default_factory=dict[str, int])
    products: dict[str, int] = field(default_factory=dict[str, int])
    last_event: int = 0
    last_entry: int = 0

    async def open(self, *products: dict[str, Any]) -> "Shelves":
        await self.shop.add(*products)
        store_id = self.shop.store_id
        rows = await self.shop.db.fetch("SELECT sku, id, product_id FROM variants WHERE store_id = $1", store_id)
        self.variants = {row[0]: row[1] for row in rows}
        self.products = {row[0]: row[2] for row in rows}
        await self.ignore_past()
        return self

    async def ignore_past(self) -> None:
        """Ignore all events and ledger entries up to now."""
        rows = await self.shop.db.fetch(
            """SELECT (SELECT coalesce(max(position), 0) FROM events WHERE store_id = $1),
                      (SELECT coalesce(max(id), 0) FROM stock_movements WHERE store_id = $1)""",
            self.shop.store_id,
        )
        self.last_event, self.last_entry = rows[0]

    async def adjust(self, *items: dict[str, Any], **body: Any) -> httpx.Response:
        return await self.shop.client.post("/products/inventory/adjustments", json={**body, "items": list(items)})

    async def adjusted(self, *items: dict[str, Any], **body: Any) -> list[dict[str, Any]]:
        """The results of adjustments that must all succeed."""
        answer = await self.adjust(*items, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    async def level(self, sku: str) -> dict[str, Any]:
        page = (await self.shop.client.get("/products/inventory", params={"sku": sku})).json()
        assert page["meta"]["total"] == 1
        return page["data"][0]

    async def on_hand(self, sku: str) -> int:
        return (await self.level(sku))["stock"]["on_hand"]

    async def product(self, sku: str) -> dict[str, Any]:
        return (await self.shop.client.get(f"/products/{self.products[sku]}")).json()["data"]

    async def entries(self, **params: Any) -> list[dict[str, Any]]:
        """The ledger since the shop opened, oldest first."""
        page = (await self.shop.client.get("/products/inventory/adjustments", params={"limit": 250, **params})).json()
        return [entry for entry in reversed(page["data"]) if entry["id"] > self.last_entry]

    async def events(self) -> list[dict[str, Any]]:
        """The stock events since the shop opened, in order."""
        rows = await self.shop.db.fetch(
            f"""SELECT {", ".join(EVENT)} FROM events
                WHERE store_id = $1 AND position > $2 ORDER BY position""",
            self.shop.store_id,
            self.last_event,
        )
        events: list[dict[str, Any]] = [dict(zip(EVENT, row, strict=True)) for row in rows]
        for event in events:
            event.update({name: msgspec.json.decode(event[name]) for name in ("actor", "changes", "data")})
        return events

    async def event_types(self) -> list[tuple[str, str]]:
        """The events as kind and SKU."""
        return [(event["type"].removeprefix("product."), event["data"]["sku"]) for event in await self.events()]
