"""Stored documents: the JSON of a resource, whose head the application builds and whose tail the database generates."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from stoa.db.query import json_of

# The document of a deleted row, as SQL.
TOMBSTONE = """'{"id":' || id || ',"deleted_at":"' || rfc3339(deleted_at) || '","updated_at":"' || rfc3339(updated_at)
    || '","version":' || version || '}'"""

_decoder = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)


class Document(msgspec.Struct):
    """A resource as its stored document."""

    doc: bytes
    version: int


def exactly(document: str | bytes) -> dict[str, Any]:
    """A document with every digit of its numbers, so that it can be compared with what a request sent."""
    return _decoder.decode(document)


def head_of(fields: Mapping[str, Any] | msgspec.Struct) -> str:
    """The members of a document without its braces, to follow the id."""
    return "," + json_of(fields)[1:-1]


def fields_of(head: str) -> dict[str, Any]:
    """The members of a stored head."""
    return _decoder.decode("{" + head[1:] + "}")
