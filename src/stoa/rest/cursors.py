"""Cursors: where a list is to go on, with the query that it belongs to, in a text that callers need not understand."""

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from stoa.rest.problems import Fault, InvalidParameter


class Cursor(msgspec.Struct, array_like=True):
    query: dict[str, str]
    backwards: bool
    keys: list[Any]


_FAULT = Fault("cursor", "invalid_parameter", "must be a cursor that a page gave")


def encode_cursor(query: dict[str, str], keys: list[Any], *, backwards: bool) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(Cursor(query, backwards, keys))).rstrip(b"=").decode()


def decode_cursor(text: str) -> Cursor:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        cursor = msgspec.json.decode(raw, type=Cursor)
        raw.decode()
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidParameter("The cursor is not one of ours.", faults=[_FAULT]) from error
    return cursor


def keys_after(cursor: Cursor, kinds: Sequence[type]) -> list[Any]:
    """The sort keys behind which the list goes on; each must be of its kind."""
    try:
        return [_key(key, kind) for kind, key in zip(kinds, cursor.keys, strict=True)]
    except (ValueError, OverflowError, msgspec.ValidationError) as error:
        raise InvalidParameter("The cursor is not one of ours.", faults=[_FAULT]) from error


def _key(key: Any, kind: type[Any]) -> Any:
    """A sort key as a cursor carries it; what the database could not take is none of ours."""
    value: Any = msgspec.convert(key, kind, strict=True)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(value)
    if isinstance(value, str) and "\x00" in value:
        raise ValueError(value)
    return value.astimezone(UTC) if isinstance(value, datetime) else value
