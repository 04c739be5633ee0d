"""The tools as they are made from the declarations, without a service."""

import json
import re
from typing import Any

import jsonschema
import pytest

from stoa.api import ENDPOINTS
from stoa.description import openapi
from stoa.mcp.operation_tools import operation_tools as tools
from stoa.mcp.resources import TEMPLATES, listed, resources
from stoa.mcp.responses import cut, text
from stoa.mcp.tools import DEFAULT_LIMIT

_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")  # what model providers accept as the name of an argument
DRY_RUNS = {"create_order_dry_run", "create_product_import_dry_run", "create_customer_import_dry_run"}


def test_every_operation_is_a_tool_and_every_dry_run_another() -> None:
    operations = {op["operationId"] for methods in openapi()["paths"].values() for op in methods.values()}
    assert len(operations) == len(ENDPOINTS)
    assert set(tools()) == operations | DRY_RUNS


def test_schemas_are_valid_complete_and_small() -> None:
    for tool in tools().values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        written = json.dumps(tool.input_schema)
        assert "$ref" not in written
        assert len(written) < 20_000, tool.name
        assert all(_KEY.match(name) for name in tool.input_schema["properties"]), tool.name
        assert tool.operation.scopes, tool.name
        assert not {"client_secret", "client_id", "base_url", "token"} & set(tool.input_schema["properties"])


def test_hints_follow_from_the_declaration() -> None:
    hints = {name: (tool.writes, tool.destructive, tool.idempotent) for name, tool in tools().items()}
    assert hints["list_products"] == (False, False, True)
    assert hints["create_order"] == (True, False, True)
    assert hints["create_order_dry_run"] == (False, False, True)
    assert hints["update_product"] == (True, True, True)
    assert hints["erase_customer"] == (True, True, True)
    assert hints["batch_products"] == (True, True, True)


def test_a_write_that_a_repetition_would_do_twice_needs_a_key() -> None:
    needing = {name for name, tool in tools().items() if "idempotency_key" in tool.input_schema["required"]}
    posts = {name for name, tool in tools().items() if tool.operation.method == "POST" and tool.writes}
    assert needing == posts | {"update_order_status", "update_webhook"}  # a refund or payment; a resumption
    assert not any("idempotency_key" in tools()[name].input_schema["properties"] for name in DRY_RUNS)


def test_arguments_become_the_request() -> None:
    listing = tools()["list_products"].request({"price_gte": "10", "status": ["active"]})
    assert listing["query"] == {"price[gte]": "10", "status": ["active"], "limit": DEFAULT_LIMIT}
    update = tools()["update_product"].request({"product_id": 7, "body": {"price": "1"}, "if_match": 3})
    assert (update["path"], update["body"], update["if_match"]) == ("/products/7", {"price": "1"}, 3)
    trial = tools()["create_order_dry_run"].request({"body": {}})
    assert trial["query"] == {"dry_run": True}


def test_a_path_argument_cannot_leave_its_place() -> None:
    checker: Any = jsonschema.Draft202012Validator(tools()["get_product_import"].input_schema)
    for hostile in ("..", "../products", "a/b", "%2e%2e", "", "imp_1?fields=id"):
        assert not checker.is_valid({"import_id": hostile}), hostile
    assert checker.is_valid({"import_id": "imp_2c7w4m9k1v6x3q8t5n0b"})


def test_resources_are_the_guides_the_events_and_by_name_everything_else() -> None:
    uris = {each.uri for each in listed()}
    assert {"stoa://guides/quickstart", "stoa://guides/agents", "stoa://events"} <= uris
    assert "(stoa://guides/authentication)" in resources()["stoa://guides/quickstart"].read()
    assert "`order.created`" in resources()["stoa://events"].read()
    for template, name in zip(TEMPLATES, ("create_order", "order.created", "Product"), strict=True):
        assert resources()[re.sub(r"{\w+}", name, template.uri)].media == template.media
    assert all(each.read() for each in resources().values())


@pytest.mark.parametrize("rows", [1, 3, 40, 250])
def test_an_answer_is_cut_to_its_size_and_says_so(rows: int) -> None:
    row = {"id": 1, "lines": [{"sku": f"SKU-{n}", "note": "x" * 40} for n in range(60)], "text": "y" * 3_000}
    answer = {"data": [row] * rows, "meta": {"total": 900, "next_cursor": "abc"}}
    read = cut(answer, 6_000)
    assert len(text(read)) <= 6_000
    assert "`fields`" in read["cut"]
    assert "`limit`" in read["cut"]
    assert read["meta"]["total"] == 900
    if rows > 1:
        # The cursor would skip the rows that are missing.
        assert f"/data: {len(read['data'])} of {rows}" in read["cut"]
        assert "next_cursor" not in read["meta"]


def test_a_small_answer_is_left_alone() -> None:
    answer = {"data": [{"id": 1, "name": "Mug"}], "meta": {"next_cursor": "abc"}}
    assert cut(answer) == answer


def test_an_answer_that_cannot_be_cut_is_replaced_by_the_note() -> None:
    read = cut({"data": {f"key{n}": "v" * 900 for n in range(90)}}, 4_000)
    assert list(read) == ["cut"]
