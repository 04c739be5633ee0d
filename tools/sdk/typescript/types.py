"""Converts JSON Schema to TypeScript types. Enums of responses are open, because later releases may add values."""

import json
from collections.abc import Callable
from typing import Any, cast

from tools.sdk.schemas import Schema, named
from tools.sdk.typescript.text import alternatives, key

Convert = Callable[[Schema], str]
_SCALARS = {"integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def response_type(schema: Schema) -> str:
    """The type of a value in a response."""
    if name := named(schema):
        return name
    if values := _values(schema):
        return f"Open<{alternatives(map(json.dumps, values))}>"
    return _composed(schema, response_type, "")


def request_type(schema: Schema, models: set[str]) -> str:
    """The type of a value in a request; components of responses, `models`, may be sent back as they are."""
    if name := named(schema):
        return f"{name} | models.{name}" if name in models else name
    if values := _values(schema):
        return alternatives(map(json.dumps, values))
    if schema.get("type") == "string" and schema.get("format") == "date-time":
        return "Time"
    return _composed(schema, lambda each: request_type(each, models), "readonly ")


def _values(schema: Schema) -> list[Any]:
    return schema.get("enum", [schema["const"]] if "const" in schema else [])


def _composed(schema: Schema, convert: Convert, readonly: str) -> str:
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return alternatives(convert(each) for each in options)
    if "allOf" in schema:
        return " & ".join(convert(each) for each in schema["allOf"])
    kind: Any = schema.get("type")
    if isinstance(kind, list):
        return alternatives(convert({**schema, "type": each}) for each in cast("list[str]", kind))
    match kind:
        case "string":
            return "string"
        case "array":
            items: Any = schema.get("items")
            inner = convert(cast("Schema", items)) if isinstance(items, dict) and items else "unknown"
            return f"{readonly}({inner})[]" if " " in inner and not inner.endswith(">") else f"{readonly}{inner}[]"
        case "object" if "properties" in schema:
            return f"{{ {'; '.join(_member(schema, name, convert) for name in schema['properties'])} }}"
        case "object":
            values: Any = schema.get("additionalProperties")
            inner = convert(cast("Schema", values)) if isinstance(values, dict) and values else "unknown"
            return f"{'Readonly<' if readonly else ''}Record<string, {inner}>{'>' if readonly else ''}"
        case _:
            return _SCALARS.get(kind, "unknown")


def _member(schema: Schema, name: str, convert: Convert) -> str:
    optional = "" if name in schema.get("required", []) else "?"
    return f"{key(name)}{optional}: {convert(schema['properties'][name])}"
