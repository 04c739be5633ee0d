"""The examples of answers: each keeps to its schema, adds up, fits the request beside it, and is what the service says."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, cast

import jsonschema
import pytest

from stoa.api import ENDPOINTS
from stoa.description import openapi
from stoa.openapi_examples import collected
from stoa.orders.rules import TRANSITIONS
from stoa.products.examples import NEW_SHIRT, SMALL
from stoa.reference.document import Operation
from stoa.reference.document import read as read_document
from stoa.reference.samples import declared_example, sample_path
from stoa.rest.endpoint import Endpoint, NoContent
from stoa.webhooks import example_responses
from tests.support.shops import Shop

DOCUMENT = read_document(openapi())
RESOURCES = {**collected.resources(), **example_responses.resources()}
RESPONSES = {**collected.responses(), **example_responses.responses()}
ANSWERED = [endpoint for endpoint in ENDPOINTS if endpoint.answer is not NoContent]
each_answer = pytest.mark.parametrize("endpoint", ANSWERED, ids=lambda each: each.name)


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


@each_answer
def test_an_example_keeps_to_its_schema(endpoint: Endpoint) -> None:
    media = operation(endpoint).responses[str(endpoint.status)].content["application/json"]
    whole = {**media.schema, "components": openapi()["components"]}
    kind = jsonschema.Draft202012Validator
    jsonschema.validate(shown(endpoint), whole, cls=kind, format_checker=kind.FORMAT_CHECKER)


@each_answer
def test_every_answer_shows_a_resource_that_was_thought_of(endpoint: Endpoint) -> None:
    assert endpoint.resource is not None
    assert endpoint.name in RESPONSES or endpoint.resource.__name__ in RESOURCES


def test_every_example_belongs_to_something() -> None:
    assert set(RESPONSES) <= {endpoint.name for endpoint in ANSWERED}
    assert set(RESOURCES) <= {"Problem"} | {endpoint.resource.__name__ for endpoint in ANSWERED if endpoint.resource}


def test_every_path_parameter_and_every_request_body_has_an_example() -> None:
    for each in DOCUMENT.operations:
        assert all(parameter.example is not None for parameter in each.path_parameters), each.operation_id
        if each.request_body is not None:
            assert all(media.example is not None for media in each.request_body.content.values()), each.operation_id


@each_answer
def test_what_an_example_sums_up_adds_up(endpoint: Endpoint) -> None:
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


@each_answer
def test_an_example_fits_the_request_beside_it(endpoint: Endpoint) -> None:
    data: Any = shown(endpoint)["data"]
    sent: dict[str, Any] = endpoint.example or {}
    if isinstance(data, list):
        assert len(cast("list[Any]", data)) == len(sent.get("items", [None])) or endpoint.lists is None
        return
    for name, value in sent.items():
        if name in data and isinstance(value, str | int | bool) and name != "phone":
            assert data[name] == value, name


@each_answer
def test_the_address_beside_an_example_names_what_it_shows(endpoint: Endpoint) -> None:
    data: Any = shown(endpoint)["data"]
    if endpoint.method in ("GET", "PATCH") and endpoint.path.endswith("_id}") and isinstance(data, dict):
        named = sample_path(operation(endpoint)).rpartition("/")[2]
        ids = {str(each.get("id")) for each in objects(data)}
        assert named in ids


# --- against the service -------------------------------------------------------------------------------------------

MOVING = {"created_at", "updated_at", "placed_at", "request_id", "source", "secret", "currency"}


def still(node: Any) -> Any:
    """A resource without what differs from store to store: ids, numbers, times and who asked."""
    if isinstance(node, dict):
        members = cast("dict[str, Any]", node)
        kept = {name: each for name, each in members.items() if not name.endswith("id") and name not in MOVING}
        return {name: still(each) for name, each in kept.items() if name != "number"}
    return [still(each) for each in cast("list[Any]", node)] if isinstance(node, list) else node


@pytest.mark.parametrize("name", ["create_product", "create_customer", "create_order", "create_webhook"])
async def test_the_service_answers_an_example_as_is_shown(shop: Shop, name: str) -> None:
    if name == "create_order":
        await shop.add(NEW_SHIRT)
    endpoint = next(each for each in ENDPOINTS if each.name == name)
    answer = await shop.client.post(endpoint.path, json=endpoint.example)
    assert answer.status_code == 201, answer.text
    assert still(answer.json()["data"]) == still(shown(endpoint)["data"])


async def test_the_service_changes_an_order_as_is_shown(shop: Shop) -> None:
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
        found, wanted = still(answer.json()["data"]), still(shown(endpoint)["data"])
        assert {**found, "suspected_duplicates_count": 0, "version": 2} == wanted
