"""A JSON Schema in words: what type a value has, and what is asked of it."""

import json
from collections.abc import Iterable
from typing import Any, cast

from stoa.reference.document import Document, Schema, reference
from stoa.reference.markup import Html, code, inline, join, link, tag

_HUGE = 10**15  # a bound of this size only says that it fits into 64 bits
_FEW = 12
_FORMATS = {
    "decimal": "decimal string",
    "date-time": "date-time",
    "date": "date",
    "uuid": "UUID",
    "uri": "URL",
}


def kind(schema: Schema) -> Html:
    """The type in a few words; a named schema becomes a link to it."""
    name = reference(schema)
    if name is not None:
        return link(f"#schema-{name}", name, class_="ref")
    choices = alternatives(schema)
    if choices:
        return join((kind(choice) for choice in choices), " or ")
    if "enum" in schema or "const" in schema:
        return join(["string" if isinstance(value, str) else "value" for value in values(schema)[:1]])
    given: Any = schema.get("type")
    if isinstance(given, list):
        return join((kind({**schema, "type": each}) for each in cast("list[str]", given)), " or ")
    match given:
        case "array":
            fixed: list[Schema] = schema.get("prefixItems", [])
            return join(["array of ", join(map(kind, fixed), ", ") if fixed else kind(items_of(schema))])
        case "object":
            return _object(schema)
        case None:
            return join(["anything"])
        case _:
            return join([_FORMATS.get(schema.get("format", ""), given)])


def _object(schema: Schema) -> Html:
    if schema.get("properties"):
        return tag("code", "{", ", ".join(schema["properties"]), "}", title=schema.get("description"))
    of = schema.get("additionalProperties")
    return join(["map of ", kind(cast("Schema", of))]) if isinstance(of, dict) and of else join(["object"])


def items_of(schema: Schema) -> Schema:
    """What an array holds; of one whose places differ, what stands at the first."""
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
    """The schema without its "or null"."""
    if isinstance(schema.get("type"), list):
        rest = [each for each in schema["type"] if each != "null"]
        return {**schema, "type": rest[0] if len(rest) == 1 else rest}
    choices = [each for each in alternatives(schema) if each.get("type") != "null"]
    if not choices or len(choices) == len(alternatives(schema)):
        return schema
    others = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
    return {**choices[0], **others} if len(choices) == 1 else {**others, "anyOf": choices}


def values(schema: Schema) -> list[Any]:
    """The values that it allows, where it lists them."""
    return schema.get("enum") or ([schema["const"]] if "const" in schema else [])


def demands(schema: Schema, document: Document, *more: Html) -> Html:
    """What is asked of a value beyond its type, in small print; nothing when nothing is."""
    schema = plain(schema)
    items = items_of(schema)
    chosen = values(schema) or values(items)
    found = [
        _bounds(schema.get("minimum"), schema.get("maximum"), ""),
        _bounds(schema.get("minLength"), schema.get("maxLength"), " characters"),
        None if chosen else _bounds(schema.get("minItems"), schema.get("maxItems"), " items"),
        _bounds(schema.get("minProperties"), schema.get("maxProperties"), " entries"),
        _bounds(items.get("minLength"), items.get("maxLength"), " characters each"),
        _pattern(schema),
        _default(schema),
        *more,
    ]
    words = join((_choices([str(value) for value in chosen], document), join(found, ", ")), " ")
    return tag("small", words) if words else Html()


def _choices(names: list[str], document: Document) -> Html | None:
    if not names:
        return None
    for schema_name, schema in document.components.schemas.items():
        # A parameter that takes the fields of a resource says so, instead of repeating them all.
        if len(names) > _FEW and set(names) <= set(schema.get("properties", {})):
            return join(["fields of ", link(f"#schema-{schema_name}", schema_name, class_="ref")])
    upwards = [name for name in names if not name.startswith("-")]
    if upwards and set(names) == {*upwards, *(f"-{name}" for name in upwards)}:
        return tag("span", _codes(upwards), ", or with ", code("-"), " before it", class_="values")
    listed = tag("span", _codes(names), class_="values")
    return listed if len(names) <= _FEW else tag("details", tag("summary", f"{len(names)} values"), listed)


def _codes(names: Iterable[str]) -> Html:
    return join((code(name) for name in names), " ")


def _bounds(least: Any, most: Any, unit: str) -> str | None:
    least = None if unit and least == 0 else least
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


def _pattern(schema: Schema) -> Html | None:
    # The type names the format already, and a format tells people more than its pattern.
    pattern = None if "format" in schema else schema.get("pattern")
    return join(["matches ", code(pattern)]) if pattern else None


def _default(schema: Schema) -> Html | None:
    default = schema.get("default")
    # An empty or composed default only repeats what the fields within say.
    plainly = isinstance(default, str | int | float) and default != ""
    return join(["default ", code(json.dumps(default))]) if plainly else None


def said(schema: Schema) -> Html:
    """The schema's own description, wherever it stands."""
    text = str(schema.get("description") or plain(schema).get("description") or "")
    return inline(text)
