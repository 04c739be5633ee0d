"""The examples in the OpenAPI document: each matches its schema, its request, and the response of the service."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, cast

import jsonschema
import pytest

from stoa.api import ENDPOINTS
from stoa.description import openapi
from stoa.openapi_examples import collected
from stoa.orders.contract import TRANSITIONS
from stoa.products.examples import NEW_SHIRT, SMALL
from stoa.reference import page
from stoa.reference.openapi_types import Operation
from stoa.reference.samples import declared_example, sample_path
from stoa.rest.endpoint import Endpoint, NoContent
from stoa.webhooks.api import example_responses
from tests.support.shops import Shop

DOCUMENT = page.document()
RESOURCES = {**collected.resources(), **example_responses.resources()}
RESPONSES = {**collected.responses(), **example_responses.responses()}
WITH_RESPONSE = [endpoint for endpoint in ENDPOINTS if endpoint.returns is not NoContent]
each_response = pytest.mark.parametrize("endpoint", WITH_RESPONSE, ids=lambda each: each.name)


def operation(endpoint: Endpoint) -> Operation:
    return next(each for each in DOCUMENT.operations if each.operation_id == endpoint.name)


def shown(endpoint: Endpoint) -> dict[str, Any]:
    media = operation(endpoint).responses[str(endpoint.status)].content["application/json"]
    return media.example if media.example is not None else declared_example(media.schema, DOCUMENT)


def objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        members = cast("dict[str, Any]", node)
        yield members
        for each in members.values():
            yield from objects(each)
    elif isinstance(node, list):
        for each in cast("list[Any]", node):
            yield from objects(each)


@each_response
def test_an_example_matches_its_schema(endpoint: Endpoint) -> None:
    media = operation(endpoint).responses[str(endpoint.status)].content["application/json"]
    schema = {**media.schema, "components": openapi()["components"]}
    kind = jsonschema.Draft202012Validator
    jsonschema.validate(shown(endpoint), schema, cls=kind, format_checker=kind.FORMAT_CHECKER)


@each_response
def test_every_response_has_an_example(endpoint: Endpoint) -> None:
    assert endpoint.resource is not None
    assert endpoint.name in RESPONSES or endpoint.resource.__name__ in RESOURCES


def test_every_example_belongs_to_an_operation_or_a_resource() -> None:
    tasks = {task.name for endpoint in WITH_RESPONSE for task in endpoint.tasks}
    assert set(RESPONSES) <= {endpoint.name for endpoint in WITH_RESPONSE} | tasks
    assert set(RESOURCES) <= {"Problem"} | {
        endpoint.resource.__name__ for endpoint in WITH_RESPONSE if endpoint.resource
    }


def test_every_path_parameter_and_every_request_body_has_an_example() -> None:
    for each in DOCUMENT.operations:
        assert all(parameter.example is not None for parameter in each.path_parameters), each.operation_id
        if each.request_body is not None:
            assert all(media.example is not None for media in each.request_body.content.values()), each.operation_id


@each_response
def test_the_totals_of_an_example_add_up(endpoint: Endpoint) -> None:
    for each in objects(shown(endpoint)):
        if "line_items" in each:
            lines = sum(Decimal(line["total"]) for line in each["line_items"])
            amounts = {name: Decimal(each[name]) for name in each if name.endswith(("total", "_due", "_paid"))}
            assert lines == amounts["subtotal"]
            charged = amounts["shipping_total"] + amounts["tax_total"] - amounts["discount_total"]
            assert amounts["total"] == lines + charged
            assert amounts["amount_due"] == amounts["total"] - amounts["amount_paid"]
            assert each["allowed_transitions"] == list(TRANSITIONS[each["status"]])
        if "unit_price" in each:
            net = Decimal(each["unit_price"]) * each["quantity"]
            assert Decimal(each["total"]) == net - Decimal(each["discount_total"]) + Decimal(each["tax_total"])
        if "available" in each:
            assert each["available"] == each["on_hand"] - each["reserved"]
        if "variants" in each:
            assert each["stock"]["on_hand"] == sum(one["stock"]["on_hand"] for one in each["variants"])
            assert each["variants_count"] == len(each["variants"])
        if "succeeded" in each and "total" in each:
            assert each["total"] == each["succeeded"] + each["failed"]


@each_response
def test_an_example_matches_its_request(endpoint: Endpoint) -> None:
    data: Any = shown(endpoint)["data"]
    sent: dict[str, Any] = endpoint.example or {}
    if isinstance(data, list):
        assert len(cast("list[Any]", data)) == len(sent.get("items", [None])) or endpoint.lists is None
        return
    for name, value in sent.items():
        if name in data and isinstance(value, str | int | bool) and name != "phone":
            assert data[name] == value, name


@each_response
def test_the_example_path_names_the_resource_of_the_response(endpoint: Endpoint) -> None:
    data: Any = shown(endpoint)["data"]
    if endpoint.method in ("GET", "PATCH") and endpoint.path.endswith("_id}") and isinstance(data, dict):
        named = sample_path(operation(endpoint)).rpartition("/")[2]
        ids = {str(each.get("id")) for each in objects(data)}
        assert named in ids


# --- against the service -------------------------------------------------------------------------------------------

VARYING = {"created_at", "updated_at", "placed_at", "request_id", "source", "secret", "currency"}


def comparable(node: Any) -> Any:
    """A resource without the fields that differ between stores: ids, numbers, times and the source."""
    if isinstance(node, dict):
        members = cast("dict[str, Any]", node)
        fixed = {name: each for name, each in members.items() if not name.endswith("id") and name not in VARYING}
        return {name: comparable(each) for name, each in fixed.items() if name != "number"}
    return [comparable(each) for each in cast("list[Any]", node)] if isinstance(node, list) else node


@pytest.mark.parametrize("name", ["create_product", "create_customer", "create_order", "create_webhook"])
async def test_the_service_responds_to_an_example_request_as_documented(shop: Shop, name: str) -> None:
    if name == "create_order":
        await shop.add(NEW_SHIRT)
    endpoint = next(each for each in ENDPOINTS if each.name == name)
    answer = await shop.client.post(endpoint.path, json=endpoint.example)
    assert answer.status_code == 201, answer.text
    assert comparable(answer.json()["data"]) == comparable(shown(endpoint)["data"])


async def test_the_service_changes_an_order_as_documented(shop: Shop) -> None:
    await shop.add(NEW_SHIRT)
    plenty = {"items": [{"sku": SMALL, "op": "set", "quantity": 40}]}
    assert (await shop.client.post("/products/inventory/adjustments", json=plenty)).status_code == 200
    endpoints = {each.name: each for each in ENDPOINTS}
    for name in ("update_order", "update_order_status", "add_order_products", "update_order_product"):
        placed = (await shop.client.post("/orders", json=endpoints["create_order"].example)).json()["data"]
        endpoint = endpoints[name]
        path = endpoint.path.format(order_id=placed["id"], line_item_id=placed["line_items"][0]["id"])
        answer = await shop.client.request(endpoint.method, path, json=endpoint.example)
        assert answer.status_code == endpoint.status, answer.text
        found, wanted = comparable(answer.json()["data"]), comparable(shown(endpoint)["data"])
        assert {**found, "suspected_duplicates_count": 0, "version": 2} == wanted
