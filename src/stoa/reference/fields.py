"""Rows of names and what they stand for: parameters, body fields, answers and schemas, all in one form."""

import re
from collections.abc import Iterable, Mapping

from stoa.reference.document import Document, Parameter, Schema
from stoa.reference.markup import Html, code, inline, join, tag
from stoa.reference.wording import demands, items_of, kind, nullable, plain, said

_PAGING = ("limit", "per_page", "page", "cursor", "sort", "fields", "include", "include_deleted")
_ORDER = ("Path", "Query", "Filters", "Paging and shape", "Headers", "Other")
_RANGE = re.compile(r"(.+)\[(\w+)\]")


def label(*words: str | None) -> Html:
    """The heading of one part of an operation."""
    return tag("h2", *words, class_="label")


def row(name: Html, type_: Html | None, *about: Html, flag: str | None = None, **data: str | None) -> Html:
    term = tag("dt", name, tag("span", type_, class_="type") if type_ else None, _flag(flag))
    # A blank between the parts keeps them apart for those who copy or listen.
    return tag("div", term, tag("dd", join((part for part in about if part), " ")), **data)


def _flag(word: str | None) -> Html | None:
    return tag("span", word, class_=f"flag {word}") if word else None


def rows(found: Iterable[Html], *, look: str = "rows", **data: str | None) -> Html:
    return tag("dl", "\n", join(found, "\n"), class_=look, **data)


def parameter_groups(parameters: Iterable[Parameter], body: Html | None, document: Document) -> Html:
    """Parameters by what they are for, each group with its heading, and the body among them."""
    by_title: dict[str, tuple[str, list[Parameter]]] = {}
    listed = list(parameters)
    lists = any(parameter.name == "cursor" for parameter in listed)
    # What a list is filtered by comes before how its pages are cut.
    for parameter in sorted(listed, key=lambda each: _ORDER.index(_title(each, lists=lists))):
        title = _title(parameter, lists=lists)
        by_title.setdefault(title, (parameter.where, []))[1].append(parameter)
    parts = {
        title: join([label(title), rows(_parameters(members, document), data_in=where)])
        for title, (where, members) in by_title.items()
    }
    # The path and the body say what is done; the rest says how.
    return join([parts.pop("Path", None), body, *parts.values()], "\n")


def _title(parameter: Parameter, *, lists: bool) -> str:
    if parameter.where == "query" and lists:
        return "Paging and shape" if parameter.name in _PAGING else "Filters"
    return {"path": "Path", "query": "Query", "header": "Headers"}.get(parameter.where, "Other")


def _parameters(parameters: list[Parameter], document: Document) -> Iterable[Html]:
    operators: dict[str, list[str]] = {}
    for parameter in parameters:
        if found := _RANGE.fullmatch(parameter.name):
            operators.setdefault(found[1], []).append(found[2])
    for parameter in parameters:
        found = _RANGE.fullmatch(parameter.name)
        # `price[gte]` and its like stand in the row of `price`.
        if not (found and any(each.name == found[1] for each in parameters)):
            yield _parameter(parameter, operators.get(parameter.name, []), document)


def _parameter(parameter: Parameter, operators: list[str], document: Document) -> Html:
    ranges = [join(["also ", join((code(f"[{operator}]") for operator in operators), " ")])] if operators else []
    return row(
        code(parameter.name),
        kind(plain(parameter.schema)),
        inline(parameter.description),
        demands(parameter.schema, document, *ranges),
        flag="required" if parameter.required else None,
        data_kind=_input(parameter.schema),
        data_sample=str(parameter.example) if parameter.required else None,
        data_operators=" ".join(operators) or None,
    )


def _input(schema: Schema) -> str | None:
    """Which field the script offers for it, where a line of text is not the best."""
    given = schema.get("type")
    return given if given in ("boolean", "array", "object", "integer") else "choice" if "enum" in schema else None


def schema_rows(schema: Schema, document: Document, prefix: str = "") -> Iterable[Html]:
    """The fields of an object; objects without a name of their own unfold in place."""
    # A body says what it needs; an answer holds everything, and says what may be missing.
    sent = schema.get("additionalProperties") is False
    properties: Mapping[str, Schema] = schema.get("properties", {})
    for name, each in properties.items():
        required = name in schema.get("required", [])
        inner = plain(each)
        listed = inner.get("type") == "array"
        nested: Schema = plain(items_of(inner)) if listed else inner
        unfolds = nested.get("type") == "object" and bool(nested.get("properties"))
        type_ = ("array of object" if listed else "object") if unfolds else kind(inner)
        yield row(
            code(prefix + name),
            join([type_, " or null" if nullable(each) else None]),
            said(each),
            demands(each, document),
            flag="required" if required and sent else None if required or sent else "optional",
        )
        if unfolds:
            yield from schema_rows(nested, document, f"{prefix}{name}{'[]' if listed else ''}.")
