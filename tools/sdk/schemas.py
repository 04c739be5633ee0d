"""Converts JSON Schema to Python types: structs for responses, typed dictionaries for requests."""

import keyword
from collections.abc import Iterator, Mapping
from typing import Any, cast

Schema = Mapping[str, Any]
HAND_WRITTEN = {"Problem", "Fault"}  # in errors.py
_TEXT = {"str", "datetime", "Decimal"}
_SCALARS = {"integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def named(schema: Schema) -> str | None:
    """The component that a schema refers to."""
    reference: Any = schema.get("$ref")
    return reference.rsplit("/", 1)[1] if isinstance(reference, str) else None


def identifier(name: str) -> str:
    plain = name.replace("-", "_")
    return plain + "_" if keyword.iskeyword(plain) else plain


def response_type(schema: Schema) -> str:
    """The type of a value in a response; enums become str, because later releases may add values."""
    if name := named(schema):
        return "Fault" if name == "Fault" else name
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return _response_union([response_type(each) for each in options])
    if "allOf" in schema:
        return response_type(schema["allOf"][0])
    kind: Any = schema.get("type")
    if isinstance(kind, list):
        kinds = cast("list[str]", kind)
        return _response_union([response_type({**schema, "type": each}) for each in kinds])
    if "enum" in schema or "const" in schema:
        return "str"
    match kind:
        case "string":
            return {"date-time": "datetime", "decimal": "Decimal"}.get(schema.get("format", ""), "str")
        case "array":
            return f"list[{response_type(_items(schema))}]"
        case "object":
            return f"dict[str, {response_type(_values(schema))}]"
        case _:
            return _SCALARS.get(kind, "Any")


def _response_union(parts: list[str]) -> str:
    kinds = list(dict.fromkeys(parts))
    if "Any" in kinds:
        return "Any"
    if len(_TEXT.intersection(kinds)) > 1:
        kinds = ["str", *(each for each in kinds if each not in _TEXT)]
    composed = [each for each in kinds if each not in _TEXT | {"int", "float", "bool", "None"}]
    if len([each for each in composed if not each.startswith("list[")]) > 1:
        return "Any"
    return " | ".join(kinds)


def request_type(schema: Schema, models: set[str], *, where: str = "") -> str:
    """The type of a value in a request; `models` are components of responses, which a caller may send back unchanged."""
    if name := named(schema):
        return f"{where}{name}" + (f" | models.{name}" if name in models else "")
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(request_type(each, models, where=where) for each in options))
    kind: Any = schema.get("type")
    if isinstance(kind, list):
        kinds = cast("list[str]", kind)
        parts = [request_type({**schema, "type": each}, models, where=where) for each in kinds]
        return " | ".join(dict.fromkeys(parts))
    if values := schema.get("enum", [schema["const"]] if "const" in schema else None):
        return f"Literal[{', '.join(repr(value) for value in values)}]".replace("'", '"')
    match kind:
        case "string":
            return {"date-time": "datetime | str", "decimal": "Amount"}.get(schema.get("format", ""), "str")
        case "array":
            return f"Sequence[{request_type(_items(schema), models, where=where)}]"
        case "object":
            return f"Mapping[str, {request_type(_values(schema), models, where=where)}]"
        case _:
            return _SCALARS.get(kind, "Any")


def parameter_type(schema: Schema, alias: str | None = None) -> str:
    """The type of a query parameter; a list may also be given as a single value."""
    if schema.get("type") == "array":
        return f"OneOrMore[{alias or request_type(_items(schema), set())}]"
    return request_type(schema, set())


def reached(schema: Any, components: Mapping[str, Schema], found: set[str] | None = None) -> set[str]:
    """The components that a schema refers to, directly or indirectly."""
    found = set() if found is None else found
    for name in _references(schema):
        if name not in found and name not in HAND_WRITTEN:
            found.add(name)
            reached(components[name], components, found)
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        members = cast("Schema", schema)
        if name := named(members):
            yield name
        for value in members.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in cast("list[Any]", schema):
            yield from _references(value)


def _values(schema: Schema) -> Schema:
    """The schema of a mapping's values; empty if unspecified."""
    values: Any = schema.get("additionalProperties")
    return cast("Schema", values) if isinstance(values, dict) else {}


def _items(schema: Schema) -> Schema:
    """The schema of a list's items; empty if unspecified or different for each index."""
    items: Any = schema.get("items")
    return cast("Schema", items) if isinstance(items, dict) else {}
