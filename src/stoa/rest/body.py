"""Request bodies: hostile JSON refused, then turned into the declared type or refused with all its faults."""

import json
import re
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from stoa.rest.checks import MOST_FAULTS, checker
from stoa.rest.problems import Fault, MalformedJson, ValidationFailed, counted, shown

T = TypeVar("T")

_DEPTH, _KEYS, _ITEMS = 32, 1_000, 1_000
_SMALL = 1_000


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise MalformedJson(f'The key "{shown(twice)}" stands twice in one object.')
    if len(members) > _KEYS:
        raise MalformedJson(f"An object may have at most {_KEYS} keys.")
    return members


def _integer(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= (number := int(text)) < 2**63:
        raise MalformedJson("A number is beyond 64 bits.")
    return number


def _fraction(text: str) -> Decimal | int:
    """A number with a point or an exponent; 97.0 is the integer 97, as JSON Schema has it."""
    number = Decimal(text) if len(text) <= 64 else None
    if number is None or abs(number.adjusted()) > 30:
        raise MalformedJson("A number has too many digits.")
    whole = abs(number) < 2**63 and number == number.to_integral_value()
    return int(number) if whole else number


def _constant(text: str) -> None:
    raise MalformedJson(f"{text} is not JSON.")


_decoder = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)


def parse(raw: bytes) -> Any:
    """Read JSON into plain values; fractions become Decimal, and what is ambiguous or hostile is refused."""
    try:
        text = raw.decode()
        value = _decoder.decode(text)
    except UnicodeDecodeError as error:
        raise MalformedJson("The body is not valid UTF-8.") from error
    except json.JSONDecodeError as error:
        raise MalformedJson(f"{error.msg} at line {error.lineno}, column {error.colno}.") from error
    except RecursionError as error:
        raise MalformedJson(f"JSON may be at most {_DEPTH} levels deep.") from error
    if len(raw) > _SMALL or b"\\u" in raw or raw.count(b"[") + raw.count(b"{") > _DEPTH:
        _inspect(value, 1)
    return value


def _inspect(value: Any, depth: int) -> None:
    """Look through a large or escaped body for depth, length, NUL and lone surrogates."""
    if depth > _DEPTH:
        raise MalformedJson(f"JSON may be at most {_DEPTH} levels deep.")
    if isinstance(value, str):
        _plain_text(value)
    elif isinstance(value, dict):
        for key, member in value.items():  # pyright: ignore[reportUnknownVariableType]
            _plain_text(key)  # pyright: ignore[reportUnknownArgumentType]
            _inspect(member, depth + 1)
    elif isinstance(value, list):
        if len(value) > _ITEMS:  # pyright: ignore[reportUnknownArgumentType]
            raise MalformedJson(f"An array may have at most {_ITEMS} items.")
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            _inspect(item, depth + 1)


_FORBIDDEN = re.compile("[\x00\ud800-\udfff]")


def _plain_text(text: str) -> None:
    if _FORBIDDEN.search(text):
        raise MalformedJson("Text may hold neither NUL nor half of a surrogate pair.")


def convert(
    value: Any,
    type_: type[T],
    *,
    digits: int,
    read_only: frozenset[str] = frozenset(),
    answered: frozenset[str] = frozenset(),
) -> T:
    """Turn plain values into the declared type, or refuse naming all faults.

    Of fields that are no part of the type, `read_only` ones are left out, and `answered` ones refused as what they are.
    """
    faults: list[Fault] = []
    checker(type_)(value, "", faults, digits)
    if faults:
        kept = [f for f in faults if not (f.code == "unknown_field" and f.pointer[1:] in read_only)]
        if kept:
            kept = [_not_yours(f) if f.code == "unknown_field" and f.pointer[1:] in answered else f for f in kept]
            raise ValidationFailed(f"{counted(len(kept), 'fault')} found.", faults=kept[:MOST_FAULTS])
        value = {key: member for key, member in value.items() if key not in read_only}
    return msgspec.convert(value, type_, strict=False)


def _not_yours(fault: Fault) -> Fault:
    return Fault(fault.pointer, "read_only_field", "stands in answers and cannot be set here; leave it out")
