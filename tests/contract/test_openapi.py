"""The OpenAPI document: shared parts are components, every reference resolves, and every component is used."""

from collections.abc import Iterator
from typing import Any, cast

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
    assert openapi()["components"]["schemas"]["Problem"]["properties"]["code"] == {"type": "string"}


def test_each_error_status_lists_its_codes() -> None:
    for endpoint in ENDPOINTS:
        answers = operations()[endpoint.name]["responses"]
        for status, answer in answers.items():
            if status >= "400":
                wanted = {error.code for error in errors_of(endpoint) if error.status == int(status)}
                assert set(answer["x-problem-codes"]) == wanted
                assert all(f"`{code}`" in answer["description"] for code in wanted)


def test_the_document_stays_small_enough_to_read() -> None:
    assert len(openapi_bytes()) < 650_000
