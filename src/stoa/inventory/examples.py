"""The example request about stock: the documentation shows it, and the tests send it."""

from typing import Any

from stoa.products.examples import MEDIUM, SMALL

ADJUSTMENTS: dict[str, Any] = {
    "mode": "atomic",
    "reason": "stocktake",
    "reference": "COUNT-9",
    "items": [
        {"sku": SMALL, "op": "set", "quantity": 14, "compare_quantity": 12},
        {"sku": MEDIUM, "op": "adjust", "quantity": -2},
    ],
}
