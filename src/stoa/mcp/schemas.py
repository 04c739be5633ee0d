"""The schemas of tool arguments: those of the OpenAPI document without references, reduced to what a model uses."""

from typing import Any, cast

from stoa.reference.document import Document, reference
from stoa.reference.openapi_types import Schema

_DROPPED = frozenset({"title", "examples", "example", "pattern", "style", "explode", "discriminator", "deprecated"})
_WIDTHS = frozenset({"int32", "int64"})
_HUGE = 10**15  # a bound of this size only means that the value fits into 64 bits
_BOUNDS = frozenset({"minItems", "maxItems", "uniqueItems", "minLength", "maxLength", "minimum", "maximum"})
_CHECKED_BY_THE_API = _BOUNDS | {"format", "default", "propertyNames"}


def inlined(schema: Schema, document: Document, within: tuple[str, ...] = ()) -> Schema:
    """The schema with its references replaced; a schema inside itself becomes any object."""
    name = reference(schema)
    if name is not None:
        if name in within:
            return {"type": "object"}
        found = inlined(document.components.schemas[name], document, (*within, name))
        own = {key: value for key, value in schema.items() if key == "description"}
        return {**found, **own}
    return _nullable({key: _member(key, value, document, within) for key, value in schema.items() if _kept(key, value)})


def brief(schema: Schema) -> Schema:
    """The schema of an argument without the bounds that the API names in its refusal, and without nested descriptions."""
    found = {key: value for key, value in schema.items() if key not in _CHECKED_BY_THE_API}
    if isinstance(found.get("items"), dict):
        found["items"] = _bare(found["items"])
    return found


def _bare(schema: Schema) -> Schema:
    found = {key: value for key, value in brief(schema).items() if key != "description"}
    if "properties" in found:
        found["properties"] = {name: _bare(each) for name, each in found["properties"].items()}
    return found


def _kept(key: str, value: Any) -> bool:
    if key.startswith("x-") or key in _DROPPED or (key == "default" and value in (None, [], {})):
        return False
    if key in ("minimum", "maximum"):
        return abs(value) < _HUGE
    return not (key == "format" and value in _WIDTHS)


def _member(key: str, value: Any, document: Document, within: tuple[str, ...]) -> Any:
    if key in ("properties", "patternProperties"):
        properties = cast("dict[str, Schema]", value)
        return {name: inlined(each, document, within) for name, each in properties.items()}
    if key in ("enum", "const", "default", "required"):
        return value
    if isinstance(value, dict):
        return inlined(cast("Schema", value), document, within)
    if isinstance(value, list) and key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return [inlined(each, document, within) for each in cast("list[Schema]", value)]
    return cast("Any", value)


def _nullable(schema: Schema) -> Schema:
    """Write an optional value as one type with null instead of as two alternatives."""
    choices: list[Schema] = schema.get("anyOf", [])
    others = [each for each in choices if each != {"type": "null"}]
    if len(choices) != 2 or len(others) != 1 or not (isinstance(others[0].get("type"), str) or "enum" in others[0]):
        return schema
    found = {**others[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
    if "type" in found:
        found["type"] = [found["type"], "null"]
    if "enum" in found:
        found["enum"] = [*found["enum"], None]
    return found
