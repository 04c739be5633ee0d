"""Decodes JSON into types. msgspec describes a type at its first use, and crashes if two threads do so at the same time."""

import threading
from typing import Any

import msgspec

_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_building = threading.Lock()


def decode(text: bytes, kind: Any) -> Any:
    return _decoder(kind).decode(text)


def convert(value: Any, kind: Any) -> Any:
    _decoder(kind)
    return msgspec.convert(value, kind)


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """The decoder of a type, which is complete before any other thread sees it."""
    found = _decoders.get(kind)
    if found is None:
        with _building:
            found = _decoders.get(kind) or msgspec.json.Decoder(kind)
            _decoders[kind] = found
    return found
