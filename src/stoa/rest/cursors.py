"""Cursors: a position in a list, and the list and query that it belongs to, encoded as opaque text."""

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from stoa.rest.problems import CursorMismatch, Fault, InvalidParameter

LONGEST_CURSOR = 32_000  # as long as a URL allows, with room for a path and for parameters that may differ
_LONGEST_TEXT_KEY = 1_000
_NEVER = frozenset({"cursor", "page", "per_page"})  # parameters that a cursor does not store


class Cursor(msgspec.Struct, array_like=True):
    query: dict[str, str]
    backwards: bool
    keys: list[Any]
    of_list: str | None = None  # null in cursors of release 0.2.0, which did not name their list


def invalid_cursor() -> InvalidParameter:
    fault = Fault("cursor", "invalid_parameter", "must be the next_cursor or prev_cursor of an earlier page")
    return InvalidParameter("The cursor is invalid. Start again without `cursor`.", faults=[fault])


def encode_cursor(of_list: str, query: dict[str, str], keys: list[Any], *, backwards: bool) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(Cursor(query, backwards, keys, of_list))).rstrip(b"=").decode()


def decode_cursor(text: str, of_list: str) -> Cursor:
    """Decode a cursor of a list; one of another list is refused."""
    if len(text) > LONGEST_CURSOR:
        raise invalid_cursor()
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        cursor = msgspec.json.decode(raw, type=Cursor)
        raw.decode()
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError) as error:
        raise invalid_cursor() from error
    query = cursor.query
    if any("\x00" in name or "\x00" in value for name, value in query.items()) or not _NEVER.isdisjoint(query):
        raise invalid_cursor()
    if cursor.of_list not in (None, of_list):
        raise CursorMismatch("The cursor belongs to another list. Start again without `cursor`.")
    return cursor


def keys_after(cursor: Cursor, types: Sequence[type]) -> list[Any]:
    """The sort keys after which the list continues, checked against the types of the sort."""
    try:
        return [_key(key, type_) for type_, key in zip(types, cursor.keys, strict=True)]
    except (ValueError, OverflowError, msgspec.ValidationError) as error:
        raise invalid_cursor() from error


def _key(key: Any, type_: type[Any]) -> Any:
    """Convert one sort key, and reject values that the database cannot store."""
    value: Any = msgspec.convert(key, type_, strict=True)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(value)
    if isinstance(value, str) and ("\x00" in value or len(value) > _LONGEST_TEXT_KEY):
        raise ValueError(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(value)
        return value.astimezone(UTC)
    return value
