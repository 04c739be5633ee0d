"""The arguments of a call: what a model meant is accepted, and what is wrong is explained so that it can be corrected."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

import jsonschema
import msgspec

from stoa.mcp.tools import Tool
from stoa.reference.openapi_types import Schema
from stoa.rest.problems import did_you_mean

MOST_FAULTS = 10
_KINDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def meant(schema: Schema, value: Any) -> Any:
    """The value in the form that the schema wants, if it is clear: a list for a scalar, "19.90" for 19.9, 12 for "12"."""
    kinds = _kinds(schema)
    if not kinds or (value is None and "null" in kinds):
        return value
    if "array" in kinds:
        decoded = _decoded(value, "[")
        items: list[Any] = cast("list[Any]", decoded) if isinstance(decoded, list) else [decoded]
        return [meant(schema.get("items", {}), each) for each in items]
    if "object" in kinds:
        decoded = _decoded(value, "{")
        return _members(schema, cast("dict[str, Any]", decoded)) if isinstance(decoded, dict) else decoded
    if isinstance(value, bool) or kinds & {"string"}:
        return str(value) if _is_number(value) and "integer" not in kinds else value
    if isinstance(value, str):
        return _parsed(kinds, value)
    return int(value) if isinstance(value, float) and value.is_integer() and "integer" in kinds else value


def meant_arguments(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments; null for an argument that cannot be null means that it is omitted."""
    known: dict[str, Schema] = tool.input_schema["properties"]
    kept = {
        name: value
        for name, value in given.items()
        if value is not None or name not in known or "null" in _kinds(known[name])
    }
    return _members(tool.input_schema, kept)


def faults(tool: Tool, arguments: Mapping[str, Any]) -> list[dict[str, str]]:
    """What is wrong with the arguments, each with a JSON Pointer and what would be right."""
    checker: Any = jsonschema.Draft202012Validator(tool.input_schema)
    found: list[Any] = sorted(checker.iter_errors(arguments), key=lambda error: list(map(str, error.absolute_path)))
    # The checker reports each missing argument, and `_explained` all of them at once.
    unique = {(fault["pointer"], fault["detail"]): fault for error in found for fault in _explained(error)}
    return list(unique.values())[:MOST_FAULTS]


def _explained(error: Any) -> Iterator[dict[str, str]]:
    pointer = "".join(f"/{part}" for part in error.absolute_path)
    properties: dict[str, Schema] = error.schema.get("properties", {})
    match error.validator:
        case "additionalProperties":
            for name in sorted(set(error.instance) - set(properties)):
                near = did_you_mean(str(name), properties)
                detail = f"did you mean `{near['did_you_mean']}`?" if near else f"known are {_listed(properties)}."
                yield {"pointer": f"{pointer}/{str(name)[:64]}", "detail": f"There is no such argument; {detail}"}
        case "required":
            for name in sorted(set(error.validator_value) - set(error.instance)):
                about = properties.get(name, {}).get("description", "")
                yield {"pointer": f"{pointer}/{name}", "detail": f"It is required. {about}".strip()}
        case "enum":
            yield {"pointer": pointer, "detail": f"It must be one of {_listed(error.validator_value)}."}
        case "type":
            kinds = " or ".join(_KINDS[each] for each in sorted(_kinds(error.schema)))
            yield {"pointer": pointer, "detail": f"It must be {kinds}, not {error.instance!r:.80}."}
        case _:
            yield {"pointer": pointer, "detail": error.message[:300]}


def _listed(names: Any) -> str:
    return ", ".join(f"`{each}`" for each in names if each is not None)


def _members(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    known: dict[str, Schema] = schema.get("properties", {})
    return {name: meant(known.get(name, {}), each) for name, each in value.items()}


def _kinds(schema: Schema) -> set[str]:
    kind: str | list[str] = schema.get("type", [])
    return {kind} if isinstance(kind, str) else set(kind)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _decoded(value: Any, opening: str) -> Any:
    """A list or an object that a model sent as JSON in a text."""
    if not isinstance(value, str) or not value.lstrip().startswith(opening):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return value


def _parsed(kinds: set[str], value: str) -> Any:
    text = value.strip()
    if "boolean" in kinds:
        return {"true": True, "false": False}.get(text.lower(), value)
    try:
        number = int(text) if "integer" in kinds else float(text)
    except ValueError:
        return value
    return number if isinstance(number, int) or math.isfinite(number) else value
