"""Example requests about subscriptions: the documentation shows them, and the tests send them."""

from typing import Any

from stoa.openapi_examples.fixtures import CREATED_AT, UPDATED_AT

NEW_WEBHOOK: dict[str, Any] = {
    "name": "Orders to the warehouse",
    "url": "https://hooks.example.com/stoa",
    "events": ["order.*"],
    "filter": {"status": "processing,shipped", "total[gte]": "100.00"},
    "payload": "full",
    "ordering": "resource",
    "skip_own": True,
    "headers": {"X-Warehouse": "east"},
}
WEBHOOK_CHANGES: dict[str, Any] = {"events": ["order.*", "product.out_of_stock"], "rate_per_s": 50}
NEW_REDELIVERY: dict[str, Any] = {
    "since": CREATED_AT,
    "until": UPDATED_AT,
    "status": "failed",
    "rate_per_s": WEBHOOK_CHANGES["rate_per_s"],
}
