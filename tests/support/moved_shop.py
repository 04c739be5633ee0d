"""A shop of another platform: products, customers and orders with everything that happened to them, of any size."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import msgspec

from stoa.rest.checks import parse_time

OPENED = datetime(2019, 3, 1, 9, 30, tzinfo=UTC)
FIRST_NUMBER = 7_001
STATUSES = (
    "completed",
    "completed",
    "completed",
    "delivered",
    "shipped",
    "processing",
    "pending",
    "cancelled",
    "returned",
)


class Shop(msgspec.Struct):
    """What is moved: rows for imports, and orders for requests."""

    products: list[dict[str, Any]]
    customers: list[dict[str, Any]]
    orders: list[dict[str, Any]]


def shop_of(products: int, customers: int, orders: int, seed: int = 7) -> Shop:
    chance = random.Random(seed)
    return Shop(
        [_product(n) for n in range(products)],
        [_customer(n) for n in range(customers)],
        [_order(n, products, customers, chance) for n in range(orders)],
    )


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _product(n: int) -> dict[str, Any]:
    return {
        "external_id": f"old-{n}",
        "name": f"Кружка {n}",
        "price": f"{5 + n % 90}.50",
        "sku": f"OLD-{n}",
        "weight": 1 + n % 3,
        "created_at": _time(OPENED + timedelta(minutes=n)),
        "stock": {"on_hand": n % 40},
    }


def _customer(n: int) -> dict[str, Any]:
    return {
        "email": f"person{n}@example.com",
        "first_name": "Person",
        "last_name": f"No{n}",
        "created_at": _time(OPENED + timedelta(hours=n)),
    }


def _order(n: int, products: int, customers: int, chance: random.Random) -> dict[str, Any]:
    placed = OPENED + timedelta(hours=7 * n, minutes=chance.randrange(60), microseconds=chance.randrange(10**6))
    status = STATUSES[n % len(STATUSES)]
    lines = [_line(chance.randrange(products), chance) for _ in range(chance.randint(1, 4))]
    shipping = Decimal("4.90")
    total = sum((Decimal(line["unit_price"]) * line["quantity"] for line in lines), shipping)
    order: dict[str, Any] = {
        "number": FIRST_NUMBER + n,
        "external_id": f"shop/{n}",
        "status": status,
        "placed_at": _time(placed),
        "customer": {"email": f"person{chance.randrange(customers)}@example.com"},
        "line_items": lines,
        "shipping_total": str(shipping),
        "payment_method": "card",
        "tags": ["moved"],
        "shipping_address": {"address1": f"{n} Harbor Street", "city": "Lisbon", "country_code": "PT"},
    }
    if status != "pending":
        _pay(order, n, total, placed)
    if status in ("shipped", "delivered", "completed", "returned"):
        _ship(order, n, placed)
    elif status == "processing" and lines[0]["quantity"] + len(lines) > 2:
        # One unit of the first line item has left; the others have not.
        order["fulfillments"] = [
            {"line_items": [{"line_item": 0, "quantity": 1}], "shipped_at": _time(placed + timedelta(days=2))}
        ]
    if status == "completed":
        order["completed_at"] = _time(placed + timedelta(days=6))
        if n % 2:
            amount = Decimal(lines[0]["unit_price"])
            line = {"line_item": 0, "quantity": 1, "amount": str(amount)}
            _refund(order, n, amount, placed + timedelta(days=9), line_items=[line], reason="Chipped")
    elif status == "returned":
        for line in lines:
            line["returned_quantity"] = line["quantity"]
        _refund(order, n, total, placed + timedelta(days=12), shipping_amount=str(shipping), line_items=[
            {"line_item": i, "quantity": line["quantity"], "restock": True,
             "amount": str(Decimal(line["unit_price"]) * line["quantity"])}
            for i, line in enumerate(lines)
        ])  # fmt: skip
    elif status == "cancelled":
        order |= {"cancelled_at": _time(placed + timedelta(days=1)), "cancel_reason": "Changed their mind"}
        _refund(order, n, total, placed + timedelta(days=1, hours=2))
    return order


def _line(product: int, chance: random.Random) -> dict[str, Any]:
    return {
        "sku": f"OLD-{product}",
        "name": f"Кружка {product}, as it was called",
        "quantity": chance.randint(1, 3),
        "unit_price": f"{4 + product % 90}.25",
    }


def _pay(order: dict[str, Any], n: int, total: Decimal, placed: datetime) -> None:
    """Every fifth order was paid in two parts."""
    deposit = Decimal("2.00") if n % 5 == 0 else Decimal(0)
    parts = [(deposit, timedelta(minutes=1)), (total - deposit, timedelta(days=1))]
    order["payments"] = [
        {"amount": str(amount), "method": "card", "external_id": f"ch_{n}_{part}", "created_at": _time(placed + after)}
        for part, (amount, after) in enumerate(parts)
        if amount
    ]


def _refund(order: dict[str, Any], n: int, amount: Decimal, when: datetime, **more: Any) -> None:
    order["refunds"] = [
        {"amount": str(amount), "method": "card", "external_id": f"re_{n}", "created_at": _time(when), **more}
    ]


def _ship(order: dict[str, Any], n: int, placed: datetime) -> None:
    """Every third order left in two parcels."""
    parcels: list[list[dict[str, int]]] = [[], []]
    for index, line in enumerate(order["line_items"]):
        parcels[index % 2 if n % 3 == 0 else 0].append({"line_item": index, "quantity": line["quantity"]})
    order["fulfillments"] = [
        {
            "line_items": units,
            "shipped_at": _time(placed + timedelta(days=2 + parcel)),
            "delivered_at": None if order["status"] == "shipped" else _time(placed + timedelta(days=4 + parcel)),
            "tracking": {"carrier": "CTT", "number": f"PT{n}-{parcel}"},
        }
        for parcel, units in enumerate(parcels)
        if units
    ]


# --- comparison ------------------------------------------------------------------------------------------------------


def comparable(value: Any) -> Any:
    """A value with times in one form: the SDK and the API write them with and without fractions."""
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [comparable(each) for each in cast("list[Any]", value)]
    return parse_time(value) or value if isinstance(value, str) else value


def shown(order: dict[str, Any]) -> Any:
    """What an exported order says of its history, in the form of `sent`."""
    return comparable(_shown(order))


def sent(order: dict[str, Any]) -> Any:
    """What was sent of an order's history."""
    return comparable(_sent(order))


def _shown(order: dict[str, Any]) -> dict[str, Any]:
    index = {line["id"]: n for n, line in enumerate(order["line_items"])}
    return {
        **{
            name: order[name]
            for name in ("number", "external_id", "status", "placed_at", "cancelled_at", "cancel_reason")
        },
        "completed_at": order["completed_at"],
        "lines": [
            [line[name] for name in ("sku", "name", "quantity", "unit_price", "returned_quantity", "allocations")]
            for line in order["line_items"]
        ],
        "payments": [
            [each[name] for name in ("kind", "amount", "method", "external_id", "created_at")]
            for each in order["payments"]
        ],
        "refunds": [
            [
                each["amount"],
                each["created_at"],
                each["reason"],
                [[index[line["line_item_id"]], line["quantity"], line["amount"]] for line in each["line_items"]],
            ]
            for each in order["refunds"]
        ],
        "fulfillments": [
            [
                each["shipped_at"],
                each["delivered_at"],
                _parcel(each["tracking"]),
                [[index[line["line_item_id"]], line["quantity"]] for line in each["line_items"]],
            ]
            for each in order["fulfillments"]
        ],
    }


def _parcel(tracking: dict[str, Any] | None) -> str | None:
    return tracking["number"] if tracking else None


def _sent(order: dict[str, Any]) -> dict[str, Any]:
    records: list[tuple[str, dict[str, Any]]] = [("payment", each) for each in order.get("payments", [])]
    records += [("refund", each) for each in order.get("refunds", [])]
    records.sort(key=lambda record: record[1]["created_at"])
    return {
        **{name: order[name] for name in ("number", "external_id", "status", "placed_at")},
        **{name: order.get(name) for name in ("cancelled_at", "cancel_reason", "completed_at")},
        "lines": [
            [line["sku"], line["name"], line["quantity"], line["unit_price"], line.get("returned_quantity", 0), []]
            for line in order["line_items"]
        ],
        "payments": [
            [kind, each["amount"], each["method"], each["external_id"], each["created_at"]] for kind, each in records
        ],
        "refunds": [
            [
                each["amount"],
                each["created_at"],
                each.get("reason"),
                [[line["line_item"], line["quantity"], line["amount"]] for line in each.get("line_items", [])],
            ]
            for each in order.get("refunds", [])
        ],
        "fulfillments": [
            [
                each["shipped_at"],
                each.get("delivered_at"),
                each.get("tracking", {}).get("number"),
                [[line["line_item"], line["quantity"]] for line in each["line_items"]],
            ]
            for each in order.get("fulfillments", [])
        ],
    }
