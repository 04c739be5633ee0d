"""The OpenAPI document: shared parts are components, every reference resolves, and every component is used."""

import gzip
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import pytest
from tests.support.shops import Shop

from stoa.api import ENDPOINTS
from stoa.description import openapi, openapi_bytes
from stoa.reference.document import inlined
from stoa.rest.openapi.errors import errors_of

PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        members = cast("dict[str, Any]", node)
        if isinstance(members.get("$ref"), str):
            yield members["$ref"]
        for each in members.values():
            yield from references(each)
    elif isinstance(node, list):
        for each in cast("list[Any]", node):
            yield from references(each)


@cache
def operations() -> dict[str, dict[str, Any]]:
    paths = inlined(openapi()["paths"], openapi())
    return {operation["operationId"]: operation for item in paths.values() for operation in item.values()}


def test_every_reference_resolves() -> None:
    for reference in set(references(openapi())):
        found: Any = openapi()
        for key in reference.removeprefix("#/").split("/"):
            found = found[key]


def test_every_component_is_used() -> None:
    used = set(references(openapi()))
    for kind in ("schemas", "parameters", "responses", "headers"):
        for name in openapi()["components"][kind]:
            assert f"#/components/{kind}/{name}" in used


def test_all_errors_have_one_schema_so_that_new_codes_do_not_break_generated_clients() -> None:
    for operation in operations().values():
        for status, answer in operation["responses"].items():
            if status >= "400":
                assert answer["content"] == PROBLEM
    code = openapi()["components"]["schemas"]["Problem"]["properties"]["code"]
    assert code.keys() == {"type", "description"}, "no enum"


def test_each_error_status_lists_its_codes() -> None:
    for endpoint in ENDPOINTS:
        answers = operations()[endpoint.name]["responses"]
        for status, answer in answers.items():
            if status >= "400":
                wanted = {error.code for error in errors_of(endpoint) if error.status == int(status)}
                assert set(answer["x-problem-codes"]) == wanted
                assert all(f"`{code}`" in answer["description"] for code in wanted)


def texts(value: Any, at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of a text, with its place; follows references."""
    if isinstance(value, list):
        for index, each in enumerate(cast("list[Any]", value)):
            yield from texts(each, f"{at}/{index}")
    elif isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if members.get("type") == "string":
            yield at, members
        for name, each in members.items():
            if name not in ("example", "examples", "default", "enum", "const"):
                yield from texts(each, f"{at}/{name}")


NUL = ("\0", "a\0", "\0a", "a\0b", "https://a\0", "a@b.c\0", "a[\0]")


def test_no_text_of_a_request_may_contain_nul() -> None:
    """The server refuses it everywhere, because PostgreSQL does not store it."""
    schemas = openapi()["components"]["schemas"]
    pending = list[tuple[str, Any]]()
    for name, operation in operations().items():
        pending += [(name, each["schema"]) for each in operation.get("parameters", []) if each.get("in") == "query"]
        content = operation.get("requestBody", {}).get("content", {})
        pending += [(name, content[media]["schema"]) for media in content if media.endswith("json")]
    seen, allowing, count = set[str](), list[str](), 0
    while pending:
        at, schema = pending.pop()
        named = {each.rpartition("/")[2] for each in references(schema)} - seen
        seen |= named
        pending += [(each, schemas[each]) for each in named if each in schemas]
        for place, text in texts(schema, at):
            count += 1
            pattern = text.get("pattern")
            closed = text.keys() & {"enum", "const", "format"}
            if not (closed or (pattern and not any(re.search(pattern, each) for each in NUL))):
                allowing.append(place)
    assert count > 200
    assert allowing == []


def test_the_served_document_stays_small_enough_to_load() -> None:
    """Half of the compressed document are descriptions and a fifth are examples, which the reference and the SDKs show. What
    repeats is headers and references of responses, which compress to almost nothing."""
    assert len(openapi_bytes()) < 750_000
    assert len(gzip.compress(openapi_bytes())) < 90_000


def objects(value: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of an object, with its place in the document."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        kinds = members.get("type")
        if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
            yield at, members
        for name, each in members.items():
            if name not in ("example", "examples", "default"):
                yield from objects(each, f"{at}/{name}")
    elif isinstance(value, list):
        for index, each in enumerate(cast("list[Any]", value)):
            yield from objects(each, f"{at}/{index}")


def test_every_object_says_which_members_it_takes() -> None:
    said = {"properties", "additionalProperties", "patternProperties", "propertyNames"}
    found = list(objects(openapi()))
    assert len(found) > 100
    assert not [at for at, schema in found if not said & schema.keys()], (
        "TypeScript reads a bare object as an empty one"
    )


def test_events_have_a_tag_of_their_own() -> None:
    operations = {tag for path in openapi()["paths"].values() for each in path.values() for tag in each["tags"]}
    events = {tag for path in openapi()["webhooks"].values() for each in path.values() for tag in each["tags"]}
    assert events == {"Events"}
    assert not operations & events
    assert {tag["name"] for tag in openapi()["tags"]} == operations | events


@pytest.mark.parametrize("resource", ["product", "customer"])
def test_an_import_declares_the_response_to_prefer_wait(resource: str) -> None:
    operation = operations()[f"create_{resource}_import"]
    content = {status: operation["responses"][status]["content"]["application/json"] for status in ("200", "202")}
    assert content["200"]["schema"] == content["202"]["schema"], "the job, finished or not"
    assert "Prefer" in [each["name"] for each in operation["parameters"]]


async def test_a_number_in_a_body_has_the_limits_that_the_document_declares(shop: Shop) -> None:
    values = openapi()["components"]["schemas"]["NewProduct"]["properties"]["metadata"]["additionalProperties"]["anyOf"]
    [number] = [each for each in values if each["type"] == "number"]
    assert (number["minimum"], number["maximum"]) == (-(2**63), 2**63 - 1)
    for value, detail in (
        (1e23, "must be at most 9223372036854775807"),
        (-1e23, "must be at least -9223372036854775808"),
    ):
        answer = await shop.client.post("/products", json={"name": "Mug", "price": "9.90", "metadata": {"a": value}})
        assert [(each["pointer"], each["detail"]) for each in answer.json()["errors"]] == [("/metadata/a", detail)]
