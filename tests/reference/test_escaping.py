"""Text from the document is always escaped; only `code` and *emphasis* in it become markup."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from stoa.guides.library import read as read_guide
from stoa.reference import page
from stoa.reference.document import read as read_document
from stoa.reference.rendering import inline, prose
from stoa.reference.samples import pretty
from tests.reference.reading import Element, read

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>"


def hostile_document() -> dict[str, Any]:
    problem = {"$ref": "#/components/schemas/Problem"}
    body = {
        "type": "object",
        "additionalProperties": False,
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": HOSTILE, "pattern": HOSTILE, "examples": [HOSTILE]},
            "kind": {"enum": [HOSTILE, "b"], "default": HOSTILE},
            "inner": {"type": "object", "properties": {"deep": {"type": ["string", "null"], "maxLength": 7}}},
        },
    }
    operation = {
        "operationId": "create_thing",
        "tags": [HOSTILE],
        "summary": HOSTILE,
        "description": f"First {HOSTILE}.\n\nSecond `a*b*c` and *this* {HOSTILE}.",
        "security": [{"app": [HOSTILE]}],
        "deprecated": True,
        "parameters": [{"$ref": "#/components/parameters/Thing"}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/New"}}}},
        "x-codeSamples": [
            {"lang": "Shell", "label": "curl", "source": f"curl {HOSTILE}"},
            {"lang": HOSTILE, "source": HOSTILE},
        ],
        "responses": {
            "200": {"description": HOSTILE, "content": {"application/json": {"schema": body}}},
            "409": {
                "description": f"`no_luck`: {HOSTILE}",
                "content": {"application/problem+json": {"schema": problem}},
                "x-problem-codes": ["no_luck"],
            },
        },
    }  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {"title": HOSTILE, "version": HOSTILE, "summary": HOSTILE, "description": HOSTILE},
        "servers": [{"url": "{base}", "variables": {"base": {"default": "https://x.test/stores/demo/"}}}],
        "tags": [{"name": HOSTILE, "description": HOSTILE}],
        "paths": {"/api/v3/app/things/{thing_id}": {"post": operation}},
        "components": {
            "parameters": {
                "Thing": {
                    "name": "thing_id",
                    "in": "path",
                    "required": True,
                    "schema": {"type": "integer"},
                    "example": 1,
                }
            },
            "schemas": {"Problem": {"type": "object", "description": HOSTILE}, "New": body},
            "securitySchemes": {"app": {"description": HOSTILE, "flows": {}}},
        },
    }


@pytest.fixture(scope="module")
def hostile() -> Element:
    (render,) = [render for address, render in hostile_pages().items() if address.endswith("/create_thing")]
    return read(render())


def hostile_pages() -> dict[str, Callable[[], str]]:
    guide = read_guide("hostile", f"# {HOSTILE}\n\n{HOSTILE}\n\n## `x` {HOSTILE}\n\n```{HOSTILE}\n{HOSTILE}\n```\n")
    return page.pages(read_document(hostile_document()), {"hostile": guide})


@pytest.mark.parametrize("address", hostile_pages())
def test_hostile_text_is_escaped(address: str) -> None:
    root = read(hostile_pages()[address]())
    assert all(each.attributes["src"].startswith("/docs/assets/") for each in root.all("script"))
    assert not root.all("img")
    assert root.text.count("<script>alert(1)</script>") > 3


def test_descriptions_become_paragraphs_with_code_and_emphasis(hostile: Element) -> None:
    section = hostile.by_id("create_thing")
    second = next(each for each in section.all("p") if each.text.startswith("Second"))
    assert [each.text for each in second.all("code")] == ["a*b*c"]
    assert [each.text for each in second.all("em")] == ["this"]
    assert next(each for each in section.all("p") if each.text.startswith("First"))


def test_shared_parameters_are_resolved(hostile: Element) -> None:
    assert "thing_id" in hostile.by_id("create_thing").text


def test_a_deprecated_operation_has_a_notice(hostile: Element) -> None:
    assert hostile.by_id("create_thing").all("p", "notice")


def test_a_body_marks_required_fields_and_unfolds_nested_ones(hostile: Element) -> None:
    section = hostile.by_id("create_thing")
    (rows,) = [each for each in section.all("dl") if each.attributes.get("data-in") == "body"]
    by_name = {row.all("code")[0].text: row.text for row in rows.children}
    assert list(by_name) == ["name", "kind", "inner", "inner.deep"]
    assert "required" in by_name["name"]
    assert "required" not in by_name["kind"]
    assert "string or null" in by_name["inner.deep"]
    assert "at most 7 characters" in by_name["inner.deep"]


def test_the_samples_and_the_body_of_the_console_are_those_of_the_document(hostile: Element) -> None:
    section = hostile.by_id("create_thing")
    (request,) = section.all("figure", "request")
    assert request.all("pre")[0].text == f"curl {HOSTILE}"
    (other,) = section.all("details", "alternative")
    assert (other.all("summary")[0].text, other.all("pre")[0].text) == (HOSTILE, HOSTILE)
    assert json.loads(section.attributes["data-body"])["name"] == HOSTILE


def test_a_hostile_problem_is_escaped() -> None:
    root = read(page.problem("not_found", 404, HOSTILE, f"{HOSTILE} `x`", retryable=False))
    assert [each.attributes["src"] for each in root.all("script")] == ["/docs/assets/search.js"]
    assert not root.all("img")


def test_descriptions_are_escaped() -> None:
    assert inline('a<b & "`<i>`"') == "a&lt;b &amp; &#34;<code>&lt;i&gt;</code>&#34;"
    assert inline("*<b>*") == "<em>&lt;b&gt;</em>"
    assert inline("2 * 3 * 4 and `*`") == "2 * 3 * 4 and <code>*</code>"
    assert prose(" one\ntwo \n\n three ") == "<p>one\ntwo</p>\n<p>three</p>"


def test_json_that_fits_on_a_line_stays_on_a_line() -> None:
    assert pretty({"a": [1, 2], "b": {}}) == '{\n  "a": [1, 2],\n  "b": {}\n}'
    value = {"long": ["x" * 40, "y" * 40], "none": None}
    assert json.loads(pretty(value)) == value
