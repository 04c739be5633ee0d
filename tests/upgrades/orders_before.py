"""Orders that the previous release places before this one migrates its database, and the calls that change an order."""

from typing import Any

import httpx

from tests.support.service import Account

LINES = [
    {"name": "Table", "unit_price": "50.00", "quantity": 2},
    {"name": "Lamp", "unit_price": "10.00", "quantity": 3},
]
LINE = {"line_items": [{"name": "Chair", "unit_price": "20.00", "quantity": 1}]}
Order = dict[str, Any]


async def call(account: Account, method: str, path: str, body: Any = None, **options: Any) -> Any:
    """The data of a response that succeeds."""
    async with account.client() as client:
        answer: httpx.Response = await client.request(method, path, json=body, **options)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer.json()["data"]


async def put(account: Account, order: int, **body: Any) -> Order:
    return await call(account, "PUT", f"/orders/{order}/status", body)


async def place(account: Account, **body: Any) -> int:
    return (await call(account, "POST", "/orders", {"line_items": LINES, "status": "processing", **body}))["id"]


async def shown(account: Account, order: int) -> Order:
    return await call(account, "GET", f"/orders/{order}")


async def place_before(old: Account) -> dict[str, int]:
    """Orders in each state that 0.3.0 leaves."""
    placed = {"unpaid": await place(old), "voided": await place(old), "free": await place(old, discount_total="130.00")}
    await put(old, placed["voided"], payment_status="voided")
    await put(old, placed["free"], payment_status="paid")
    for name in ("paid", "grown", "shrunk", "refunded", "goodwill", "cancelled", "returned"):
        placed[name] = await place(old, payment_status="paid", payment_method="card")
    await call(old, "POST", f"/orders/{placed['grown']}/products", LINE)
    lines = (await shown(old, placed["shrunk"]))["line_items"]
    await call(old, "PATCH", f"/orders/{placed['shrunk']}/products/{lines[1]['id']}", {"quantity": 1})
    await put(old, placed["refunded"], payment_status="refunded", reason="Torn")
    await put(old, placed["goodwill"], refund={"amount": "5.00", "note": "Sorry."})
    await put(old, placed["goodwill"], refund={"amount": "7.00"})
    await put(old, placed["cancelled"], status="cancelled")
    lines = (await shown(old, placed["returned"]))["line_items"]
    await put(old, placed["returned"], status="shipped")
    await put(old, placed["returned"], status="returned", line_items=[{"id": lines[1]["id"], "quantity": 2}])
    return placed
