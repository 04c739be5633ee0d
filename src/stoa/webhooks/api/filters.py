"""Checks the filter of a subscription, which has the grammar of list filters, against the documents of its events."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, cast

from msgspec import inspect

from stoa import money
from stoa.rest.checks import parse_time
from stoa.rest.problems import Fault, did_you_mean, printable
from stoa.webhooks.delivery.conditions import NUMBER, RANGES, parse_key, plural

# A filter is compared with each event of the store: all its words together are bounded.
MAX_WORDS = 250

Kind = Literal["text", "number", "money", "time", "flag", "object", "any"]

_RANGED = ("number", "money", "time", "any")
_MAX_LENGTH, _MAX_VALUES = 1_000, 250
_MOST_DIGITS = 3  # that a currency has
_type_info = functools.cache(inspect.type_info)


def check_size(given: Mapping[str, Any], faults: list[Fault]) -> None:
    if sum(_text(value).count(",") + 1 for value in given.values()) > MAX_WORDS:
        detail = f"must have at most {MAX_WORDS} values in all conditions together"
        faults.append(Fault("/filter", "out_of_range", detail))


def checked(
    given: Mapping[str, Any], documents: Iterable[type[Any]], digits: int | None, faults: list[Fault]
) -> dict[str, str]:
    """The normalized filter, with amounts in the digits of the store, if it is for one store; a condition that no document can meet is a fault."""
    kinds = list(dict.fromkeys(documents))
    normalized: dict[str, str] = {}
    for key, value in given.items():
        at = f"/filter/{printable(key).replace('~', '~0').replace('/', '~1')}"
        text = _text(value)
        parsed = parse_key(key)
        if parsed is None:
            faults.append(Fault(at, "invalid_format", "must be a field such as status, total[gte] or metadata[tier]"))
            continue
        if not 0 < len(text) <= _MAX_LENGTH or text.count(",") >= _MAX_VALUES:
            faults.append(Fault(at, "invalid_format", f"must have 1 to {_MAX_LENGTH} characters"))
            continue
        path, bracket = parsed
        found: set[Kind] = {kind for each in kinds for kind in _kinds(_type_info(each), path)}
        if not found:
            meta = did_you_mean(path[0], _names(kinds), faults)
            faults.append(Fault(at, "unknown_field", "is not a field of any of these events", meta))
            continue
        fault = _fault(found, bracket, text, digits)
        if fault:
            faults.append(Fault(at, *fault))
        else:
            normalized[key] = _normalize(found, text, digits)
    return normalized


def has_path(document: type[Any], path: Sequence[str]) -> bool:
    """Whether documents of this type can have a value at a path."""
    return any(True for _ in _kinds(_type_info(document), path))


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _names(kinds: Sequence[type[Any]]) -> list[str]:
    return list(dict.fromkeys(name for kind in kinds for name in kind.__struct_encode_fields__))


def _kinds(info: inspect.Type, path: Sequence[str], *, money_: bool = False) -> Iterator[Kind]:
    """The kinds of values at a path of a type."""
    if isinstance(info, inspect.Metadata):
        extra = cast("dict[str, Any]", info.extra or {})  # pyright: ignore[reportUnknownMemberType]
        yield from _kinds(info.type, path, money_=bool(extra.get("money")))
    elif isinstance(info, inspect.UnionType):
        for each in info.types:
            if not isinstance(each, inspect.NoneType):
                yield from _kinds(each, path, money_=money_)
    elif isinstance(info, inspect.ListType | inspect.VarTupleType):
        yield from _kinds(info.item_type, path)
    elif isinstance(info, inspect.StructType):
        if not path:
            yield "object"
            return
        fields = {field.encode_name: field.type for field in info.fields}
        name = path[0] if path[0] in fields else plural(path[0])
        if name in fields:
            yield from _kinds(fields[name], path[1:])
    elif isinstance(info, inspect.DictType):
        yield from ("object",) if not path else _kinds(info.value_type, path[1:])
    elif isinstance(info, inspect.AnyType):
        yield "any"
    elif not path:
        yield _plain_kind(info, money_=money_)


def _plain_kind(info: inspect.Type, *, money_: bool) -> Kind:
    if isinstance(info, inspect.DecimalType):
        return "money" if money_ else "number"
    if isinstance(info, inspect.IntType | inspect.FloatType):
        return "number"
    if isinstance(info, inspect.DateTimeType):
        return "time"
    return "flag" if isinstance(info, inspect.BoolType) else "text"


def _fault(kinds: set[Kind], bracket: str | None, text: str, digits: int | None) -> tuple[str, str] | None:
    """The code and the detail of a fault in a condition on a value of these kinds; None if there is none."""
    if kinds == {"object"}:
        return None if bracket else ("invalid_format", "must name a member, as in metadata[tier]")
    if bracket is None:
        if digits is None and kinds == {"money"}:
            return "invalid_format", "must be a range, such as total[gte]: the stores have different currencies"
        words = text.split(",")
    elif "object" in kinds:
        return None
    elif bracket not in RANGES:
        return "invalid_format", f"must have one of {', '.join(RANGES)} in its brackets"
    elif not any(kind in _RANGED for kind in kinds):
        return "invalid_format", "does not support ranges; use one value, or several separated by commas"
    else:
        words = [text]
    if len(kinds) > 1:
        return None
    return next((fault for word in words if (fault := _value_fault(next(iter(kinds)), word, digits))), None)


def _value_fault(kind: Kind, word: str, digits: int | None) -> tuple[str, str] | None:
    if kind == "number" and not NUMBER.fullmatch(word):
        return "invalid_format", "must be a number"
    if kind == "time" and parse_time(word) is None:
        return "invalid_format", "must be an RFC 3339 time with an offset"
    if kind == "flag" and word not in ("true", "false"):
        return "invalid_format", "must be true or false"
    if kind == "money" and word != "null":
        if not NUMBER.fullmatch(word):
            return "invalid_money", 'must be an amount such as "19.99"'
        try:
            money.to_minor(Decimal(word), _MOST_DIGITS if digits is None else digits)
        except money.InvalidMoney as error:
            return "invalid_money", str(error)
    return None


def _normalize(kinds: set[Kind], text: str, digits: int | None) -> str:
    if kinds != {"money"} or digits is None:
        return text
    words = [word if word == "null" else _amount(word, digits) for word in text.split(",")]
    return ",".join(words)


def _amount(word: str, digits: int) -> str:
    return money.to_text(money.to_minor(Decimal(word), digits), digits)
