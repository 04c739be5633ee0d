"""Each tool called twice with the same arguments has no further effect, as its hint says."""

import json
import uuid
from typing import Any

from mcp import Client
from stoa.mcp.tools import Tool, document, tools
from stoa.reference.postman import collection
from stoa.reference.samples import sample_body
from tests.mcp.test_agent import inside
from tests.support.service import Account

LISTS = ["products?include=variants", "products/inventory/adjustments", "orders", "customers", "webhooks"]


def in_order() -> list[Tool]:
    """The writes in the order of the Postman collection, in which each finds what an earlier one created."""
    items = [item for each in collection(document())["item"] for item in each.get("item", [])]
    by_request = {(tool.operation.method, tool.operation.summary): tool for tool in tools().values() if tool.writes}
    found = [by_request.get((item["request"]["method"], item["name"])) for item in items]
    return [tool for tool in found if tool is not None]


def arguments(tool: Tool, ids: dict[str, Any]) -> dict[str, Any]:
    """The example of the operation, with a key if the tool needs one."""
    given: dict[str, Any] = {each.name: ids[each.name] for each in tool.operation.path_parameters}
    body = sample_body(tool.operation, document())
    if body is not None:
        given["body"] = {"items": [json.loads(body[1])]} if "ndjson" in body[0] else json.loads(body[1])
    if "idempotency_key" in tool.input_schema["required"]:
        given["idempotency_key"] = str(uuid.uuid4())
    return given


async def state(account: Account) -> str:
    """Everything in the store that a tool can change, but the counters and times of deliveries."""
    async with account.client() as api:
        found: list[Any] = []
        for path in LISTS:
            answer = await api.get(f"/{path}")
            assert answer.status_code == 200, answer.text
            found += answer.json()["data"]
        comments = [(await api.get(f"/orders/{each['id']}/comments")).json() for each in found if "line_items" in each]
    moving = ("pending", "oldest_pending_age_s", "last_sequence", "last_delivery_at", "stats_24h", "breaker", "health")
    kept = [{key: value for key, value in each.items() if key not in moving} for each in found]
    return json.dumps([kept, comments], sort_keys=True)


async def called(client: Client, tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool(tool.name, given)
    (content,) = result.content
    assert content.type == "text"
    answer: dict[str, Any] = json.loads(content.text) if content.text.startswith("{") else {}
    return {**answer, "failed": result.is_error}


async def test_no_tool_has_a_further_effect_when_it_is_called_again(account: Account) -> None:
    assert all(tool.idempotent for tool in tools().values())
    ids: dict[str, Any] = {}
    async with inside(account, write=True) as client:
        for tool in in_order():
            given = arguments(tool, ids)
            first = await called(client, tool, given)
            assert not first["failed"], (tool.name, first)
            data = first.get("data")
            if tool.operation.method == "POST" and isinstance(data, dict):
                _remember(tool, data, ids)  # pyright: ignore[reportUnknownArgumentType] - decoded JSON
            before = await state(account)
            await called(client, tool, given)
            assert await state(account) == before, tool.name


def _remember(tool: Tool, data: dict[str, Any], ids: dict[str, Any]) -> None:
    noun = {
        "create_product": "product",
        "create_variant": "variant",
        "create_order": "order",
        "create_webhook": "webhook",
    }
    noun |= {"create_customer": "customer", "create_customer_address": "address"}
    if tool.name in noun:
        ids[f"{noun[tool.name]}_id"] = data["id"]
    if tool.name == "create_order":
        ids["line_item_id"] = data["line_items"][0]["id"]


async def test_a_refund_is_made_once(account: Account) -> None:
    async with account.client() as api:
        product = {"name": "Mug", "price": "10.00", "sku": "MUG", "stock": {"on_hand": 9}}
        assert (await api.post("/products", json=product)).status_code == 201
        order = {"status": "processing", "payment_status": "paid", "line_items": [{"sku": "MUG", "quantity": 3}]}
        made = (await api.post("/orders", json=order)).json()["data"]
    refund = {"refund": {"amount": "10.00"}}
    given = {"order_id": made["id"], "body": refund, "idempotency_key": "refund-1"}
    async with inside(account, write=True) as client:
        tool = tools()["update_order_status"]
        answers = [await called(client, tool, given) for _ in range(2)]
    assert [each["data"]["amount_refunded"] for each in answers] == ["10.00", "10.00"]
