"""Rows of fields: parameters, request bodies, responses and schemas, all in one form."""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from stoa.reference.document import Document
from stoa.reference.openapi_types import Parameter, Schema
from stoa.reference.schema_text import (
    Constraints,
    Word,
    Words,
    constraints,
    description,
    items_of,
    kind,
    nullable,
    plain,
)

_PAGING = ("limit", "per_page", "page", "cursor", "sort", "fields", "include", "include_deleted")
_ORDER = ("Path", "Query", "Filters", "Pagination and fields", "Headers", "Other")
_RANGE = re.compile(r"(.+)\[(\w+)\]")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A field as the page shows it; the console reads the last three."""

    name: str
    type: Words
    description: str
    constraints: Constraints
    flag: str = ""  # required or optional
    input: str | None = None  # the kind of input, where a line of text is not the best
    sample: str | None = None
    operators: list[str] = []


class ParameterGroup(msgspec.Struct, frozen=True):
    title: str
    where: str
    rows: list[Row]


def parameter_groups(parameters: Iterable[Parameter], document: Document) -> list[ParameterGroup]:
    """Parameters by purpose: filters of a list come before its paging."""
    found: dict[str, list[Parameter]] = {}
    listed = list(parameters)
    lists = any(parameter.name == "cursor" for parameter in listed)
    for parameter in sorted(listed, key=lambda each: _ORDER.index(_title(each, lists=lists))):
        found.setdefault(_title(parameter, lists=lists), []).append(parameter)
    return [
        ParameterGroup(title, members[0].where, list(_parameter_rows(members, document)))
        for title, members in found.items()
    ]


def _title(parameter: Parameter, *, lists: bool) -> str:
    if parameter.where == "query" and lists:
        return "Pagination and fields" if parameter.name in _PAGING else "Filters"
    return {"path": "Path", "query": "Query", "header": "Headers"}.get(parameter.where, "Other")


def _parameter_rows(parameters: list[Parameter], document: Document) -> Iterator[Row]:
    operators: dict[str, list[str]] = {}
    for parameter in parameters:
        if found := _RANGE.fullmatch(parameter.name):
            operators.setdefault(found[1], []).append(found[2])
    for parameter in parameters:
        found = _RANGE.fullmatch(parameter.name)
        # `price[gte]` and its like are part of the row of `price`.
        if not (found and any(each.name == found[1] for each in parameters)):
            yield _parameter_row(parameter, operators.get(parameter.name, []), document)


def _parameter_row(parameter: Parameter, operators: list[str], document: Document) -> Row:
    ranges: Words = [Word("also with")] if operators else []
    for operator in operators:
        ranges += [Word(" "), Word(f"[{operator}]", "code")]
    return Row(
        name=parameter.name,
        type=kind(plain(parameter.schema)),
        description=parameter.description,
        constraints=constraints(parameter.schema, document, ranges),
        flag="required" if parameter.required else "",
        input=_input(parameter.schema),
        sample=str(parameter.example) if parameter.required else None,
        operators=operators,
    )


def _input(schema: Schema) -> str | None:
    given = schema.get("type")
    return given if given in ("boolean", "array", "object", "integer") else "choice" if "enum" in schema else None


def schema_rows(schema: Schema, document: Document, prefix: str = "") -> Iterator[Row]:
    """The fields of an object; nested objects without a name unfold in place."""
    # A request body marks what it requires; a response has every field, and marks what may be missing.
    sent = schema.get("additionalProperties") is False
    properties: Mapping[str, Schema] = schema.get("properties", {})
    for name, each in properties.items():
        required = name in schema.get("required", [])
        inner = plain(each)
        is_array = inner.get("type") == "array"
        nested: Schema = plain(items_of(inner)) if is_array else inner
        unfolds = nested.get("type") == "object" and bool(nested.get("properties"))
        type_ = [Word("array of object" if is_array else "object")] if unfolds else kind(inner)
        yield Row(
            name=prefix + name,
            type=[*type_, Word(" or null")] if nullable(each) else type_,
            description=description(each),
            constraints=constraints(each, document),
            flag="required" if required and sent else "" if required or sent else "optional",
        )
        if unfolds:
            yield from schema_rows(nested, document, f"{prefix}{name}{'[]' if is_array else ''}.")
