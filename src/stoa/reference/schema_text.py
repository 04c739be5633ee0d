"""A JSON Schema in words: the type of a value, and the constraints on it."""

import json
from typing import Any, Literal, cast

import msgspec

from stoa.reference.document import Document, reference
from stoa.reference.openapi_types import Schema

RULE = "x-rule"
_HUGE = 10**15  # a bound of this size only means that the value fits into 64 bits
_FEW = 12
_FORMATS = {
    "decimal": "decimal string",
    "date-time": "date-time",
    "date": "date",
    "uuid": "UUID",
    "uri": "URL",
}


class Word(msgspec.Struct, frozen=True):
    """A piece of text with its look: plain, code, or a link to the schema of that name."""

    text: str
    look: Literal["plain", "code", "schema"] = "plain"
    title: str | None = None


Words = list[Word]


class Constraints(msgspec.Struct, frozen=True):
    """What a value must satisfy beyond its type."""

    choices: list[str] = []
    fields_of: str = ""  # the schema whose fields the choices are
    signed: bool = False  # whether each choice is also allowed with a minus before it
    notes: list[Words] = []

    @property
    def folded(self) -> bool:
        return len(self.choices) > _FEW


def kind(schema: Schema) -> Words:
    """The type in a few words; a named schema becomes a link to it."""
    name = reference(schema)
    if name is not None:
        return [Word(name, "schema")]
    choices = alternatives(schema)
    if choices:
        return _joined([kind(choice) for choice in choices], " or ")
    if "enum" in schema or "const" in schema:
        return [Word("string" if isinstance(value, str) else "value") for value in values(schema)[:1]]
    given: Any = schema.get("type")
    if isinstance(given, list):
        return _joined([kind({**schema, "type": each}) for each in cast("list[str]", given)], " or ")
    match given:
        case "array":
            fixed: list[Schema] = schema.get("prefixItems", [])
            items = _joined([kind(each) for each in fixed], ", ") if fixed else kind(items_of(schema))
            return [Word("array of "), *items]
        case "object":
            return _object(schema)
        case None:
            return [Word("anything")]
        case _:
            return [Word(_FORMATS.get(schema.get("format", ""), str(given)))]


def _object(schema: Schema) -> Words:
    if schema.get("properties"):
        return [Word(f"{{{', '.join(schema['properties'])}}}", "code", schema.get("description"))]
    of = schema.get("additionalProperties")
    return [Word("map of "), *kind(cast("Schema", of))] if isinstance(of, dict) and of else [Word("object")]


def _joined(parts: list[Words], between: str) -> Words:
    joined: Words = []
    for part in parts:
        joined += [Word(between), *part] if joined else part
    return joined


def items_of(schema: Schema) -> Schema:
    """The schema of the items of an array; of a tuple, that of the first item."""
    first: Any = (schema.get("prefixItems") or [schema.get("items")])[0]
    return cast("Schema", first) if isinstance(first, dict) else {}


def alternatives(schema: Schema) -> list[Schema]:
    found: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or []
    numbers = any(each.get("type") == "number" for each in found)
    return [each for each in found if not (numbers and each.get("type") == "integer")]


def nullable(schema: Schema) -> bool:
    given: Any = schema.get("type")
    stated = given == "null" or (isinstance(given, list) and "null" in given)
    return stated or any(nullable(each) for each in alternatives(schema))


def plain(schema: Schema) -> Schema:
    """The schema without null as an alternative."""
    if isinstance(schema.get("type"), list):
        rest = [each for each in schema["type"] if each != "null"]
        return {**schema, "type": rest[0] if len(rest) == 1 else rest}
    choices = [each for each in alternatives(schema) if each.get("type") != "null"]
    if not choices or len(choices) == len(alternatives(schema)):
        return schema
    others = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
    return {**choices[0], **others} if len(choices) == 1 else {**others, "anyOf": choices}


def values(schema: Schema) -> list[Any]:
    """The values of an enum or a constant."""
    return schema.get("enum") or ([schema["const"]] if "const" in schema else [])


def constraints(schema: Schema, document: Document, *more: Words) -> Constraints:
    schema = plain(schema)
    items = items_of(schema)
    chosen = [str(value) for value in values(schema) or values(items)]
    notes = [
        _bounds(schema.get("minimum"), schema.get("maximum"), ""),
        []
        if schema.get("format") in ("decimal", "date-time")
        else _bounds(schema.get("minLength"), schema.get("maxLength"), " characters"),
        [] if chosen else _bounds(schema.get("minItems"), schema.get("maxItems"), " items"),
        _bounds(schema.get("minProperties"), schema.get("maxProperties"), " entries"),
        _bounds(items.get("minLength"), items.get("maxLength"), " characters each"),
        _form(schema),
        _default(schema),
        *more,
    ]
    ascending = [name for name in chosen if not name.startswith("-")]
    signed = bool(ascending) and set(chosen) == {*ascending, *(f"-{name}" for name in ascending)}
    return Constraints(
        choices=ascending if signed else chosen,
        fields_of=_schema_with(chosen, document),
        signed=signed,
        notes=[note for note in notes if note],
    )


def _schema_with(names: list[str], document: Document) -> str:
    """The schema that has all these fields; a few names are listed instead."""
    schemas = document.components.schemas if len(names) > _FEW else {}
    return next((name for name, each in schemas.items() if set(names) <= set(each.get("properties", {}))), "")


def _bounds(least: Any, most: Any, unit: str) -> Words:
    words = _bounds_text(None if unit and least == 0 else least, most, unit)
    return [Word(words)] if words else []


def _bounds_text(least: Any, most: Any, unit: str) -> str | None:
    if most is not None and most >= _HUGE:
        return None
    if least is not None and most is not None:
        return f"{_figure(least)} to {_figure(most)}{unit}" if least != most else f"{_figure(least)}{unit}"
    if most is not None:
        return f"at most {_figure(most)}{unit}"
    if least == 1 and unit:
        return "not empty"
    return f"at least {_figure(least)}{unit}" if least is not None else None


def _figure(number: Any) -> str:
    return f"{number:,}" if isinstance(number, int) else str(number)


def _form(schema: Schema) -> Words:
    # People read the rule in words; the pattern is for programs.
    words = schema.get(RULE) or items_of(schema).get(RULE)
    return [Word(str(words))] if words else []


def _default(schema: Schema) -> Words:
    default = schema.get("default")
    # An empty or composite default adds nothing to the description of the nested fields.
    is_scalar = isinstance(default, str | int | float) and default != ""
    return [Word("default "), Word(json.dumps(default), "code")] if is_scalar else []


def description(schema: Schema) -> str:
    return str(schema.get("description") or plain(schema).get("description") or "")
