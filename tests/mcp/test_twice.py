"""Each tool called twice with the same arguments has no further effect, as its hint says."""

import json
import uuid
from typing import Any, cast

from mcp import Client
from stoa.mcp.operation_tools import operation_tools
from stoa.mcp.task_tools import task_tools
from stoa.mcp.tools import Tool, document
from stoa.reference.postman import collection
from stoa.reference.samples import sample_body
from tests.mcp.test_agent import inside
from tests.support.service import Account

LISTS = ["products?include=variants", "products/inventory/adjustments", "orders", "customers", "webhooks"]


def in_order() -> list[Tool]:
    """The writes in the order of the Postman collection, in which each finds what an earlier one created."""
    items = [item for each in collection(document())["item"] for item in each.get("item", [])]
    by_request = {
        (tool.operation.method, tool.operation.summary): tool for tool in operation_tools().values() if tool.writes
    }
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
    assert result.structured_content == json.loads(content.text)
    return {**(result.structured_content or {}), "failed": result.is_error}


async def test_no_operation_has_a_further_effect_when_it_is_called_again(account: Account) -> None:
    assert all(tool.idempotent for tool in operation_tools().values())
    ids: dict[str, Any] = {}
    async with inside(account, operation_tools(), write=True) as client:
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
    async with inside(account, operation_tools(), write=True) as client:
        tool = operation_tools()["update_order_status"]
        answers = [await called(client, tool, given) for _ in range(2)]
    assert [each["data"]["amount_refunded"] for each in answers] == ["10.00", "10.00"]


# A day in a shop. `$name` is the id of something that an earlier call created.
DAY: list[tuple[str, dict[str, Any]]] = [
    ("create_product", {"name": "Mug", "price": 10, "sku": "MUG", "on_hand": 20, "tags": "kitchen"}),
    ("find_products", {"q": "mug", "status": "active"}),
    ("show_product", {"product_id": "$create_product"}),
    ("update_product", {"product_id": "$create_product", "description": "A mug.", "tags": ["kitchen", "gift"]}),
    ("change_price", {"product_id": "$create_product", "price": "12.00", "compare_at_price": "15.00"}),
    ("change_variant_price", {"sku": "MUG", "price": 11.5}),
    ("check_stock", {"sku": "MUG"}),
    ("set_stock", {"sku": "MUG", "quantity": 30, "reason": "stocktake"}),
    ("adjust_stock", {"sku": "MUG", "quantity": -2, "reason": "damaged"}),
    ("quote_order", {"line_items": {"sku": "MUG", "quantity": 2}}),
    ("create_order", {"line_items": {"sku": "MUG", "quantity": 2}, "email": "ada@example.com", "status": "pending"}),
    (
        "add_order_items",
        {"order_id": "$create_order", "line_items": [{"name": "Wrapping", "unit_price": "3.00", "quantity": 1}]},
    ),
    ("change_order_item", {"order_id": "$create_order", "line_item_id": "$line", "quantity": 3}),
    ("find_orders", {"status": "pending", "email": "ada@example.com"}),
    ("show_order", {"order_id": "$create_order"}),
    ("comment_on_order", {"order_id": "$create_order", "text": "Call before delivery."}),
    ("take_payment", {"order_id": "$create_order", "amount": "500.00", "note": "Paid in the shop."}),
    ("change_order_status", {"order_id": "$create_order", "status": "processing"}),
    (
        "ship_order",
        {"order_id": "$create_order", "line_items": {"id": "$line", "quantity": 2}, "tracking_number": "J1"},
    ),
    ("return_order", {"order_id": "$create_order", "line_items": {"id": "$line", "quantity": 1}}),
    ("refund_order", {"order_id": "$create_order", "amount": 5}),
    ("show_order_timeline", {"order_id": "$create_order"}),
    ("create_order", {"line_items": {"sku": "MUG", "quantity": 1}, "phone": "+1 555 0100"}),
    ("cancel_order", {"order_id": "$create_order", "reason": "Changed their mind."}),
    ("find_customers", {"email": "ada@example.com"}),
    ("update_customer", {"customer_id": "$find_customers", "first_name": "Ada", "tags": "vip"}),
]


def test_the_day_uses_every_tool() -> None:
    assert {name for name, _ in DAY} == set(task_tools())


async def test_the_hints_of_each_tool_are_true(account: Account) -> None:
    """A read changes nothing, a call that is repeated does nothing more, and a tool that only adds overwrites nothing."""
    ids: dict[str, Any] = {}
    async with inside(account, write=True) as client:
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
        for name, template in DAY:
            tool, hint = task_tools()[name], hints[name]
            assert hint
            given = _filled(template, ids)
            if "idempotency_key" in tool.input_schema["required"]:
                given["idempotency_key"] = str(uuid.uuid4())
            before, texts = await state(account), await written(account)
            first = await called(client, tool, given)
            assert not first["failed"], (name, first)
            after = await state(account)
            assert (after == before) is bool(hint.read_only_hint), name
            assert hint.destructive_hint or texts.items() <= (await written(account)).items(), name
            second = await called(client, tool, given)
            assert hint.idempotent_hint
            assert await state(account) == after, name
            if "idempotency_key" in given:
                assert second == first
            _remember_ids(name, first["data"], ids)


async def written(account: Account) -> dict[str, Any]:
    """What people wrote: the fields of products, customers and orders that do not follow from other records."""
    fields = {"products": "id,name,description,price,tags,status", "customers": "id,email,first_name,tags"}
    fields["orders"] = "id,number,note,tags,status,payment_status"
    async with account.client() as api:
        pages = {name: (await api.get(f"/{name}?fields={wanted}")).json()["data"] for name, wanted in fields.items()}
    return {f"{name}/{each['id']}": each for name, rows in pages.items() for each in rows}


def _filled(template: Any, ids: dict[str, Any]) -> Any:
    if isinstance(template, dict):
        return {key: _filled(value, ids) for key, value in cast("dict[str, Any]", template).items()}
    return ids[template[1:]] if isinstance(template, str) and template.startswith("$") else template


def _remember_ids(name: str, data: Any, ids: dict[str, Any]) -> None:
    if name in ("create_product", "create_order"):
        ids[name] = data["id"]
    if name == "create_order":
        ids["line"] = data["line_items"][0]["id"]
    if name == "find_customers":
        ids[name] = data[0]["id"]
