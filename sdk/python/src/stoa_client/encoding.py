"""Encodes bodies and rows as JSON."""

import math
from decimal import Decimal
from typing import Any, cast

import msgspec


def encode(value: Any) -> bytes:
    """The JSON of a value. Decimals have no exponent, and a number that JSON cannot express is refused: msgspec writes null, which
    clears a field."""
    return msgspec.json.encode(_plain(msgspec.to_builtins(value, builtin_types=(Decimal,))))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a value of a field; pass None to clear the field, or leave it out")
    return format(value, "f") if isinstance(value, Decimal) else value
