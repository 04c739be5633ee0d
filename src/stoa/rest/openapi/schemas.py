"""OpenAPI's schemas: the declared types as msgspec describes them, mended where the server knows better."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from stoa.rest.checks import LONGEST_MONEY, LONGEST_TIME
from stoa.rest.endpoint import Endpoint
from stoa.rest.openapi.envelopes import PARTS, REFS
from stoa.rest.problems import Problem

_INT64 = {"minimum": -(2**63), "maximum": 2**63 - 1}


def schemas_of(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Every type that an endpoint takes or answers, by its name."""
    types: list[Any] = [Problem]
    for endpoint in endpoints:
        types += [t for t in (endpoint.resource, endpoint.body) if t is not None and t not in types]
    _, found = msgspec.json.schema_components(types, ref_template=REFS)
    components = {**PARTS, **found}
    for endpoint in endpoints:
        if endpoint.body is not None and not is_struct(endpoint.body):
            components[body_name(endpoint)] = msgspec.json.schema(endpoint.body)
        if endpoint.resource is not None and (endpoint.lists or endpoint.shows_fields):
            fields = [field.encode_name for field in msgspec.structs.fields(endpoint.resource)]
            components[field_name(endpoint)] = {"type": "string", "enum": fields}
    _mend(components)
    taken = [REFS.format(name=body_name(each)) for each in endpoints if each.body is not None]
    for name in _reached(taken, components):
        _bound(components[name])
    return components


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def body_name(endpoint: Endpoint) -> str:
    """The name of its body; one whose keys are the caller's own has none by itself."""
    if is_struct(endpoint.body):
        return cast("type", endpoint.body).__name__
    return "".join(word.title() for word in endpoint.name.split("_")) + "Body"


def field_name(endpoint: Endpoint) -> str:
    """What the fields of its resource are called together."""
    return f"{endpoint.resource.__name__ if endpoint.resource else ''}Field"


def _each(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and all within it."""
    if isinstance(schema, dict):
        members = cast("dict[str, Any]", schema)
        yield members
        for each in members.values():
            yield from _each(each)
    elif isinstance(schema, list):
        for each in cast("list[Any]", schema):
            yield from _each(each)


def _mend(schemas: Any) -> None:
    """Put right what msgspec says of pairs, whose length it says twice, and of exact numbers, which it calls strings."""
    for each in _each(schemas):
        if each.get("items") is False:
            each["items"] = {}
        if each.get("format") == "decimal" and "minimum" in each:  # money has a pattern instead
            each["type"] = "number"
            del each["format"]


def _bound(schema: Any) -> None:
    """Say of what is taken how large it may be, where the server's own bounds are the only ones."""
    for each in _each(schema):
        if each.get("type") == "integer":
            each.update({"format": "int64", **_INT64, **each})
        elif each.get("format") == "date-time":
            each["maxLength"] = LONGEST_TIME
        elif each.get("format") == "decimal":
            each["maxLength"] = LONGEST_MONEY


def _reached(references: Iterable[str], components: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    left = list(references)
    while left:
        name = left.pop().rpartition("/")[2]
        if name not in found:
            found.add(name)
            left += [each["$ref"] for each in _each(components[name]) if isinstance(each.get("$ref"), str)]
    return found
