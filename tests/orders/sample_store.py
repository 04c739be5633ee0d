"""A store with products and stock, for the tests of orders."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from tests.support.shops import Shop

TEA: dict[str, Any] = {"name": "Green Tea", "price": "8.00", "sku": "TEA", "stock": {"on_hand": 10}}
POT: dict[str, Any] = {
    "name": "Tea Pot",
    "price": "45.00",
    "options": [{"name": "Colour", "values": ["Blue", "White"]}],
    "variants": [
        {"sku": "POT-B", "option_values": {"Colour": "Blue"}, "stock": {"on_hand": 3}},
        {"sku": "POT-W", "option_values": {"Colour": "White"}, "price": "48.50", "stock": {"on_hand": 1}},
    ],
}
CLASS: dict[str, Any] = {"name": "Tea Class", "price": "30.00", "sku": "CLASS", "track_inventory": False}
ADA: dict[str, Any] = {
    "email": "ada.moor@example.com",
    "phone": "+442079460018",
    "first_name": "Ada",
    "last_name": "Moor",
}
HOME: dict[str, Any] = {"address1": "3 Well Street", "city": "Bath", "postal_code": "BA1 1AA", "country_code": "GB"}


@dataclass
class SampleStore:
    """Places orders of a store, changes their status, and reads stock, ledger, timelines and events."""

    shop: Shop
    variants: dict[str, int] = field(default_factory=dict[str, int])
    last_event: int = 0

    async def add_products(self, *products: dict[str, Any]) -> "SampleStore":
        await self.shop.add(*products)
        rows = await self.shop.db.fetch("SELECT sku, id FROM variants WHERE store_id = $1", self.shop.store_id)
        self.variants = {row[0]: row[1] for row in rows}
        await self.skip_events()
        return self

    @property
    def client(self) -> httpx.AsyncClient:
        return self.shop.client

    async def post(self, *lines: tuple[str, int], headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
        body.setdefault("line_items", [{"sku": sku, "quantity": quantity} for sku, quantity in lines])
        return await self.client.post("/orders", json=body, headers=headers)

    async def place(self, *lines: tuple[str, int], **body: Any) -> dict[str, Any]:
        """Place an order that must be accepted."""
        answer = await self.post(*lines, **body)
        assert answer.status_code == 201, answer.text
        return answer.json()["data"]

    async def put_status(self, order: dict[str, Any], **body: Any) -> httpx.Response:
        return await self.client.put(f"/orders/{order['id']}/status", json=body)

    async def patiently(self, call: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
        """Repeat a call that waited too long for a lock on a busy machine: such a call changes nothing."""
        while (answer := await call()).status_code == 503:
            pass
        return answer

    async def change_status(self, order: dict[str, Any], *statuses: str, **body: Any) -> dict[str, Any]:
        """Set statuses one after the other; the last call has the other fields too."""
        changed = order
        for status in statuses:
            fields = {"status": status, **(body if status == statuses[-1] else {})}
            answer = await self.put_status(order, **fields)
            assert answer.status_code == 200, answer.text
            changed = answer.json()["data"]
        return changed

    async def patch(self, order: dict[str, Any], **body: Any) -> httpx.Response:
        return await self.client.patch(f"/orders/{order['id']}", json=body)

    async def get(self, order: dict[str, Any]) -> dict[str, Any]:
        answer = await self.client.get(f"/orders/{order['id']}")
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    async def stock(self, sku: str) -> tuple[int, int]:
        """The units on hand and reserved."""
        page = (await self.client.get("/products/inventory", params={"sku": sku})).json()
        return page["data"][0]["stock"]["on_hand"], page["data"][0]["stock"]["reserved"]

    async def ledger(self, order: dict[str, Any]) -> list[tuple[str, int, int]]:
        """The ledger rows of an order, oldest first: kind, on hand, reserved."""
        params = {"order_id": order["id"], "limit": 250}
        page = (await self.client.get("/products/inventory/adjustments", params=params)).json()
        return [(entry["kind"], entry["delta_on_hand"], entry["delta_reserved"]) for entry in reversed(page["data"])]

    async def timeline(self, order: dict[str, Any], **params: Any) -> list[dict[str, Any]]:
        return (await self.client.get(f"/orders/{order['id']}/comments", params=params)).json()["data"]

    async def skip_events(self) -> None:
        """Exclude all events so far from later reads."""
        rows = await self.shop.db.fetch(
            "SELECT coalesce(max(position), 0) FROM events WHERE store_id = $1", self.shop.store_id
        )
        self.last_event = rows[0][0]

    async def events(self, kind: str = "order.") -> list[dict[str, Any]]:
        """The events since the last `skip_events`, oldest first."""
        rows = await self.shop.db.fetch(
            """SELECT type, resource_type, resource_id, resource_version, parent_version, changes, data FROM events
                WHERE store_id = $1 AND position > $2 AND starts_with(type, $3) ORDER BY position""",
            self.shop.store_id,
            self.last_event,
            kind,
        )
        names = ("type", "resource_type", "resource_id", "version", "parent_version", "changes", "data")
        events: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in rows]
        for event in events:
            event.update({name: msgspec.json.decode(event[name]) for name in ("changes", "data")})
        return events

    async def event_names(self) -> list[str]:
        return [event["type"].removeprefix("order.") for event in await self.events()]

    async def assert_stock_is_consistent(self) -> None:
        """Check that stock levels, ledger, product totals and the allocations of open orders agree."""
        store_id = self.shop.store_id
        for sku, on_hand, reserved, ledger_on_hand, ledger_reserved, open_quantity in await self.shop.db.fetch(
            """SELECT v.sku, v.on_hand, v.reserved, m.on_hand, m.reserved, coalesce(l.open, 0)
                 FROM variants v
                      JOIN (SELECT variant_id, sum(delta_on_hand)::bigint AS on_hand, sum(delta_reserved)::bigint AS reserved
                              FROM stock_movements WHERE store_id = $1 GROUP BY variant_id) m ON m.variant_id = v.id
                      LEFT JOIN (SELECT (l ->> 'variant_id')::bigint AS variant_id,
                                        sum(greatest(0, a.allocated - (l ->> 'fulfilled_quantity')::bigint)) AS open
                                   FROM orders o
                                        CROSS JOIN LATERAL json_array_elements(o.lines::json) AS l
                                        CROSS JOIN LATERAL (
                                            SELECT sum((each ->> 'quantity')::bigint) AS allocated
                                              FROM json_array_elements(l -> 'allocations') AS each) a
                                  WHERE o.store_id = $1 AND o.status IN ('pending', 'processing', 'on_hold')
                                  GROUP BY 1) l ON l.variant_id = v.id
                WHERE v.store_id = $1""",
            store_id,
        ):
            assert (on_hand, reserved, reserved) == (ledger_on_hand, ledger_reserved, open_quantity), f"stock of {sku}"
        wrong = await self.shop.db.fetch(
            """SELECT p.id FROM products p JOIN variants v ON v.store_id = $1 AND v.product_id = p.id
                WHERE p.store_id = $1 AND v.deleted_at IS NULL GROUP BY p.id, p.on_hand, p.reserved
               HAVING (p.on_hand, p.reserved) <> (sum(v.on_hand), sum(v.reserved))""",
            store_id,
        )
        assert wrong == []


def codes(answer: httpx.Response) -> list[tuple[str, str]]:
    """The pointer and code of each fault of an error response."""
    return [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]]
