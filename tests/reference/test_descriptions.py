"""Every field and parameter is explained, and a field of a request body is explained as its resource explains it."""

from collections.abc import Iterator, Mapping
from typing import Any

from stoa.description import openapi
from stoa.reference import page
from stoa.rest.openapi.envelopes import SPARSE
from stoa.rest.openapi.schemas import described, is_generic


def undescribed(schemas: Mapping[str, Any]) -> Iterator[str]:
    """Fields of request bodies, responses and events, such as `Order.number`, without a description of their own."""
    for name, schema in schemas.items():
        if not name.startswith(SPARSE):  # its fields are those of the resource
            yield from _of(schema, name)


def _of(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name, each in properties.items():
        if is_generic(described(each)):
            yield f"{path}.{name}"
        yield from _of(each, f"{path}.{name}")
    for each in [*schema.get("anyOf", []), *([schema["items"]] if isinstance(schema.get("items"), dict) else [])]:
        yield from _of(each, path)


def test_every_field_has_a_description() -> None:
    found = list(undescribed(openapi()["components"]["schemas"]))
    assert found == [], "describe these fields: Annotated[..., Meta(description=...)]"


def test_a_field_without_a_description_is_found_at_any_depth() -> None:
    inner = {"properties": {"a": {"type": "string"}, "b": {"type": "string", "description": "B."}}}
    listed = {
        "properties": {"c": {"description": "C.", "anyOf": [{"type": "array", "items": inner}, {"type": "null"}]}}
    }
    assert list(undescribed({"Flat": inner, "Deep": listed})) == ["Flat.a", "Deep.c.a"]


def test_a_body_describes_a_field_as_its_resource_does() -> None:
    schemas = openapi()["components"]["schemas"]
    shown = schemas["Product"]["properties"]["compare_at_price"]["description"]
    assert schemas["NewProduct"]["properties"]["compare_at_price"]["description"] == shown
    assert schemas["ProductChanges"]["properties"]["compare_at_price"]["description"] == shown


def test_a_change_of_a_line_item_describes_amounts_of_the_line_item_and_not_of_its_order() -> None:
    schemas = openapi()["components"]["schemas"]
    for name in ("discount_total", "tax_total"):
        described_as = schemas["LineItem"]["properties"][name]["description"]
        assert schemas["LineChanges"]["properties"][name]["description"] == described_as


def test_every_parameter_has_a_description() -> None:
    for operation in page.document().operations:
        assert [each.name for each in operation.parameters if not each.description] == [], operation.operation_id
