"""The tools for models as they are made from their declarations, without a service."""

from typing import Any, get_args

import jsonschema
import pytest

from stoa.mcp.arguments import faults, meant_arguments
from stoa.mcp.operation_tools import operation_tools
from stoa.mcp.server import described
from stoa.mcp.task import Preset
from stoa.mcp.task_tools import preset_tools, task_tools
from stoa.mcp.tasks import TASKS
from stoa.mcp.tools import Tool

MOST_TOOLS, MOST_CHARACTERS = 25, 40_000
ASKED_FOR = ("find_products", "show_order", "ship_order", "refund_order", "take_payment", "change_price", "set_stock")


def listed(tools: dict[str, Tool]) -> int:
    """The characters of these tools as a host receives them."""
    return sum(len(described(tool).model_dump_json(by_alias=True, exclude_none=True)) for tool in tools.values())


def test_the_tools_with_writes_are_few_and_small() -> None:
    assert set(ASKED_FOR) <= set(task_tools())
    assert len(task_tools()) == len(TASKS) <= MOST_TOOLS
    assert listed(task_tools()) <= MOST_CHARACTERS < listed(operation_tools())


@pytest.mark.parametrize("preset", get_args(Preset))
def test_a_preset_is_a_part_of_the_tools(preset: Preset) -> None:
    chosen = preset_tools(frozenset({preset}))
    assert 5 <= len(chosen) < len(task_tools())
    assert preset_tools(frozenset()) == task_tools()
    assert any(tool.writes for tool in chosen.values())
    assert any(not tool.writes for tool in chosen.values())


@pytest.mark.parametrize("tool", task_tools().values(), ids=task_tools().keys())
def test_arguments_are_flat(tool: Tool) -> None:
    jsonschema.Draft202012Validator.check_schema(tool.input_schema)
    assert tool.output_schema is not None
    jsonschema.Draft202012Validator.check_schema(tool.output_schema)
    properties: dict[str, Any] = tool.input_schema["properties"]
    assert set(properties) == set(tool.places)
    assert "body" not in properties
    for name, schema in properties.items():
        assert "object" not in (schema.get("type"), *_members(schema)), name
        assert schema.get("type") or schema.get("enum"), name


def _members(schema: dict[str, Any]) -> list[Any]:
    """The types of the members of a list's items; only the options of a variant, by their names, are deeper."""
    members = schema.get("items", {}).get("properties", {})
    return [each.get("type") for name, each in members.items() if name != "option_values"]


def test_hints_follow_from_the_operation() -> None:
    hints = {name: (tool.writes, tool.destructive, tool.idempotent) for name, tool in task_tools().items()}
    assert hints["find_orders"] == hints["quote_order"] == (False, False, True)
    assert hints["create_order"] == hints["comment_on_order"] == (True, False, True)
    assert hints["change_price"] == hints["refund_order"] == hints["set_stock"] == (True, True, True)


def test_a_write_that_moves_money_or_stock_needs_a_key() -> None:
    needing = {name for name, tool in task_tools().items() if "idempotency_key" in tool.input_schema["required"]}
    assert needing >= {"take_payment", "refund_order", "create_order", "ship_order", "adjust_stock", "return_order"}
    assert needing == {name for name, tool in task_tools().items() if tool.writes and not tool.operation.idempotent}


def test_arguments_become_the_request() -> None:
    shipped = task_tools()["ship_order"].request(
        {"order_id": 7, "carrier": "DHL", "tracking_number": "J1", "idempotency_key": "k"}
    )
    assert shipped["path"] == "/orders/7/status"
    assert shipped["body"] == {"status": "shipped", "tracking": {"carrier": "DHL", "number": "J1"}}
    assert shipped["idempotency_key"] == "k"
    stock = task_tools()["set_stock"].request(
        {"sku": "MUG", "quantity": 4, "reason": "stocktake", "idempotency_key": "k"}
    )
    assert stock["body"] == {"items": [{"op": "set", "sku": "MUG", "quantity": 4}], "reason": "stocktake"}
    found = task_tools()["find_products"].request({"price_min": "5", "fields": ["id"]})
    assert found["query"] == {"price[gte]": "5", "fields": ["id"], "limit": 20}
    assert task_tools()["quote_order"].request({})["query"]["dry_run"] is True
    assert task_tools()["update_customer"].request({"customer_id": 1})["body"] == {}


@pytest.mark.parametrize(
    ("tool", "given", "meant"),
    [
        ("find_orders", {"status": "pending"}, {"status": ["pending"]}),
        ("find_orders", {"status": '["pending", "shipped"]'}, {"status": ["pending", "shipped"]}),
        (
            "find_orders",
            {"number": "1001", "has_suspected_duplicates": "True"},
            {"number": 1001, "has_suspected_duplicates": True},
        ),
        ("find_orders", {"q": None, "limit": 5.0}, {"limit": 5}),
        ("find_products", {"sku": 4711, "price_min": 19.9}, {"sku": ["4711"], "price_min": "19.9"}),
        (
            "change_price",
            {"product_id": 1, "price": 7, "compare_at_price": None},
            {"product_id": 1, "price": "7", "compare_at_price": None},
        ),
        ("create_order", {"line_items": {"sku": "A", "quantity": "2"}}, {"line_items": [{"sku": "A", "quantity": 2}]}),
        ("create_order", {"line_items": '{"sku": "A", "quantity": 2}'}, {"line_items": [{"sku": "A", "quantity": 2}]}),
        ("find_orders", {"number": "NaN", "limit": "1e3"}, {"number": "NaN", "limit": "1e3"}),
        ("find_orders", {"number": True}, {"number": True}),
        ("find_orders", {"number": "9" * 400}, {"number": int("9" * 400)}),
    ],
)
def test_what_a_model_meant_is_accepted(tool: str, given: dict[str, Any], meant: dict[str, Any]) -> None:
    assert meant_arguments(task_tools()[tool], given) == meant


@pytest.mark.parametrize("text", ["[" * 100_000, '["\ud800"]'])
def test_a_text_that_is_no_list_stays_a_text(text: str) -> None:
    assert meant_arguments(task_tools()["find_products"], {"tag": text, "status": text})["status"] == [text]


def test_wrong_arguments_are_explained() -> None:
    given = {"stauts": "pending", "xyzzy": 1, "limit": "many", "payment_status": ["owed"]}
    tool = task_tools()["find_orders"]
    found = {each["pointer"]: each["detail"] for each in faults(tool, meant_arguments(tool, given))}
    assert found["/stauts"] == "There is no such argument; did you mean `status`?"
    assert "known are `q`, `number`" in found["/xyzzy"]
    assert found["/limit"] == "It must be a whole number, not 'many'."
    assert found["/payment_status/0"].startswith("It must be one of `unpaid`")
    missing = faults(task_tools()["ship_order"], {"line_items": [{"id": 1}]})
    assert [each["pointer"] for each in missing] == ["/idempotency_key", "/order_id", "/line_items/0/quantity"]
    assert missing[0]["detail"].startswith("It is required. A new UUID")


@pytest.mark.parametrize("text", ["K\u00f6ln-1", "a key", "a\nb"])
def test_a_text_that_no_header_can_have_is_a_wrong_argument(text: str) -> None:
    creating, changing = task_tools()["create_product"], operation_tools()["update_product"]
    change: dict[str, Any] = {"product_id": 1, "body": {}}
    for tool, name, others in (
        (creating, "idempotency_key", {"name": "Mug", "price": "1"}),
        (changing, "idempotency_key", change),
        (changing, "if_match", change),
    ):
        assert [each["pointer"] for each in faults(tool, {**others, name: text})] == [f"/{name}"]
        assert not faults(tool, {**others, name: "Ko-1"})


@pytest.mark.parametrize(
    ("tool", "pointer", "argument"),
    [
        ("ship_order", "/tracking/number", "/tracking_number"),
        ("ship_order", "/line_items/0/quantity", "/line_items/0/quantity"),
        ("refund_order", "/refund/line_items/1/restock", "/line_items/1/restock"),
        ("set_stock", "/items/0/compare_quantity", "/expected"),
        ("find_products", "price[gte]", "/price_min"),
        ("cancel_order", "/status", "/status"),
    ],
)
def test_a_fault_of_the_api_names_the_argument(tool: str, pointer: str, argument: str) -> None:
    assert task_tools()[tool].pointer(pointer) == argument
