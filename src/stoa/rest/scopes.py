"""Scopes of single body fields, declared on the field; `rest/body.py` checks them."""

import functools
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import inspect

EACH = "*"  # in a path: each item of an array

Path = tuple[str, ...]
FieldScopes = tuple[tuple[Path, str], ...]


def requires(scope: str) -> msgspec.Meta:
    """Declare the scope that an app needs to send a field."""
    return msgspec.Meta(
        description=f"Requires the scope `{scope}`.",
        extra={"scope": scope},
        extra_json_schema={"x-required-scope": scope},
    )


def fields_of(type_: type[msgspec.Struct]) -> msgspec.Meta:
    """Declare that an object, whose schema is open, has the fields of a struct with their scopes."""
    return msgspec.Meta(extra={"fields_of": type_})


@functools.cache
def field_scopes(type_: Any) -> FieldScopes:
    """The paths of all fields in a type that need a scope, each with its scope."""
    return tuple(dict.fromkeys(_declared(inspect.type_info(type_), (), frozenset())))


def _declared(info: inspect.Type, path: Path, outer: frozenset[type]) -> Iterator[tuple[Path, str]]:
    if isinstance(info, inspect.Metadata):
        extra = cast("dict[str, Any]", info.extra or {})  # pyright: ignore[reportUnknownMemberType]
        if "scope" in extra:
            yield path, extra["scope"]
        elif "fields_of" in extra:
            yield from _declared(inspect.type_info(extra["fields_of"]), path, outer)
        else:
            yield from _declared(info.type, path, outer)
    elif isinstance(info, inspect.UnionType):
        for each in info.types:
            yield from _declared(each, path, outer)
    elif isinstance(info, inspect.ListType):
        yield from _declared(info.item_type, (*path, EACH), outer)
    elif isinstance(info, inspect.StructType) and info.cls not in outer:
        for field in info.fields:
            yield from _declared(field.type, (*path, field.encode_name), outer | {info.cls})
