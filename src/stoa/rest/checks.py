"""Checks a value against its declared type and finds all faults at once, each with its pointer."""

import functools
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, cast

import msgspec
from msgspec import inspect

from stoa import money
from stoa.rest.problems import Fault, ValidationFailed, counted, did_you_mean, printable

MOST_FAULTS = 100
LONGEST_MONEY = 22  # with sign and decimal point
LONGEST_TIME = 35  # with nine fraction digits and an offset
# What every amount and every time is; a field says what it means.
MONEY_TEXT, TIME_TEXT = "An amount in the store's currency, as a decimal string.", "An RFC 3339 time in UTC."

Money = Annotated[
    Decimal,
    msgspec.Meta(
        description=MONEY_TEXT,
        examples=["19.99"],
        extra={"money": True},
        extra_json_schema={
            "type": "string",
            "format": "decimal",
            "pattern": r"^-?[0-9]{1,16}(\.[0-9]{1,4})?$",
        },
    ),
]


Time = Annotated[datetime, msgspec.Meta(tz=True, description=TIME_TEXT)]


def validation_failed(faults: Sequence[Fault]) -> ValidationFailed:
    return ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults[:MOST_FAULTS])


@contextmanager
def together_with(faults: list[Fault]) -> Generator[None]:
    """Report faults that were found before, or are added meanwhile, together with those that the block finds."""
    try:
        yield
    except ValidationFailed as refusal:
        if not faults:
            raise
        raise validation_failed([*faults, *refusal.faults]) from refusal
    if faults:
        raise validation_failed(faults)


def decimal_within(least: int, most: int) -> msgspec.Meta:
    """Bounds of a decimal number, such as a weight; msgspec bounds only integers and floats."""
    schema = {"type": "number", "minimum": least, "maximum": most}
    return msgspec.Meta(extra={"bounds": (least, most)}, extra_json_schema=schema)


def decimal_text(most: int, pattern: str) -> msgspec.Meta:
    """A decimal string from 0 to `most` with at most four fraction digits, such as a percentage."""
    schema = {"type": "string", "format": "decimal", "pattern": pattern}
    return msgspec.Meta(extra={"most": most}, extra_json_schema=schema)


Percent = Annotated[
    Decimal,
    msgspec.Meta(description="A percentage from 0 to 100, as a decimal string.", examples=["19.00"]),
    decimal_text(100, r"^(100(\.0{1,4})?|[0-9]{1,2}(\.[0-9]{1,4})?)$"),
]


def worded(message: str, pattern: str | None = None) -> msgspec.Meta:
    """The message of a fault when a text does not match its pattern. Patterns are for programs, not for people."""
    return msgspec.Meta(pattern=pattern, extra={"words": message}, extra_json_schema={"x-rule": message})


def accepted_by(rule: Callable[[str], bool]) -> msgspec.Meta:
    """A rule for texts that a pattern cannot express, such as a check digit. `worded` describes it to people."""
    return msgspec.Meta(extra={"rule": rule})


Check = Callable[[Any, str, list[Fault], int], None]


@functools.lru_cache(maxsize=1024)
def checker(type_: Any) -> Check:
    return _build(inspect.type_info(type_), {})


def _build(info: inspect.Type, extra: dict[str, Any]) -> Check:
    if isinstance(info, inspect.Metadata):
        more = cast("dict[str, Any]", info.extra or {})  # pyright: ignore[reportUnknownMemberType]
        return _build(info.type, {**extra, **more})
    if isinstance(info, inspect.StructType):
        return _struct(info)
    if isinstance(info, inspect.UnionType):
        return _union(info, extra)
    if isinstance(info, (inspect.ListType, inspect.SetType, inspect.FrozenSetType)):
        return _list(info)
    if isinstance(info, inspect.DictType):
        return _dict(info)
    if isinstance(info, inspect.StrType):
        return _str(info, extra.get("words"), extra.get("rule"))
    if isinstance(info, inspect.IntType):
        return _int(info)
    if isinstance(info, inspect.DecimalType):
        if "most" in extra:
            return _decimal(extra["most"])
        return _money if extra.get("money") else _number(*extra.get("bounds", _INT64))
    if isinstance(info, inspect.FloatType):
        return _number(*_bounds(info))
    if isinstance(info, inspect.LiteralType):
        return _literal(info.values)
    if isinstance(info, inspect.BoolType):
        return _only(bool, "true or false")
    if isinstance(info, inspect.NoneType):
        return _only(type(None), "null")
    if isinstance(info, inspect.DateTimeType):
        return _datetime
    if isinstance(info, inspect.AnyType):
        return lambda _value, _at, _faults, _digits: None
    raise TypeError(f"request bodies cannot contain {info!r}")


def _only(kind: type, expected: str) -> Check:
    def check(value: Any, at: str, faults: list[Fault], digits: int) -> None:
        if type(value) is not kind:
            faults.append(Fault(at, "invalid_type", f"must be {expected}"))

    return check


def _struct(info: inspect.StructType) -> Check:
    # Fields are built on first use, so that a type can contain itself.
    @functools.cache
    def fields() -> dict[str, Check]:
        return {field.encode_name: _build(field.type, {}) for field in info.fields}

    required = [field.encode_name for field in info.fields if field.required]

    def check(value: Any, at: str, faults: list[Fault], digits: int) -> None:
        if type(value) is not dict:
            faults.append(Fault(at, "invalid_type", "must be an object"))
            return
        known = fields()
        members = cast("dict[str, Any]", value)
        refused = False
        for name, member in members.items():
            field = known.get(name)
            if field is not None:
                field(member, f"{at}/{name}", faults, digits)
            # Each object with an unknown field has a fault, so that each such item of a batch is refused.
            elif len(faults) < MOST_FAULTS or not refused:
                faults.append(unknown_field(name, at, known, faults))
                refused = True
        for name in required:
            if name not in members:
                faults.append(Fault(f"{at}/{name}", "required", "is required"))

    return check


def unknown_field(name: str, at: str, known: Iterable[str], before: Sequence[Fault]) -> Fault:
    pointer = _member(at, name)
    detail = "is not a known field" if pointer != at else f'has the unknown field "{printable(name)}"'
    return Fault(pointer, "unknown_field", detail, did_you_mean(name, known, before))


def _member(at: str, name: str) -> str:
    """The pointer to a member whose name comes from the caller; to its object if the name is too long to repeat."""
    if printable(name) != name:
        return at
    return f"{at}/{name.replace('~', '~0').replace('/', '~1')}"


def _union(info: inspect.UnionType, extra: dict[str, Any]) -> Check:
    nullable = any(isinstance(t, inspect.NoneType) for t in info.types)
    members = [t for t in info.types if not isinstance(t, inspect.NoneType)]
    checks = [_build(t, extra) for t in members]

    def optional(value: Any, at: str, faults: list[Fault], digits: int) -> None:
        if value is not None:
            checks[0](value, at, faults, digits)

    if nullable and len(checks) == 1:
        return optional

    def check(value: Any, at: str, faults: list[Fault], digits: int) -> None:
        if value is None:
            if not nullable:
                faults.append(Fault(at, "invalid_type", "must not be null"))
            return
        attempts: list[list[Fault]] = []
        for each in checks:
            found: list[Fault] = []
            each(value, at, found, digits)
            if not found:
                return
            attempts.append(found)
        # An alternative of the right type explains more than one of the wrong type.
        best = max(attempts, key=lambda found: found[0].code != "invalid_type")
        if all(found[0].code == "invalid_type" and found[0].pointer == at for found in attempts):
            expected = " or ".join(dict.fromkeys(found[0].detail.removeprefix("must be ") for found in attempts))
            best = [Fault(at, "invalid_type", f"must be {expected}")]
        faults.extend(best)

    return check


def _list(info: inspect.ListType | inspect.SetType | inspect.FrozenSetType) -> Check:
    item = _build(info.item_type, {})
    most = info.max_length

    def check(value: Any, at: str, faults: list[Fault], digits: int) -> None:
        if type(value) is not list:
            faults.append(Fault(at, "invalid_type", "must be an array"))
            return
        members = cast("list[Any]", value)
        if most is not None and len(members) > most:
            faults.append(Fault(at, "too_long", f"may have at most {most} items", {"max_items": most}))
            return
        if info.min_length and len(members) < info.min_length:
            message = "must not be empty" if info.min_length == 1 else f"must have at least {info.min_length} items"
            faults.append(Fault(at, "out_of_range", message))
        for index, member in enumerate(members):
            item(member, f"{at}/{index}", faults, digits)

    return check


def _dict(info: inspect.DictType) -> Check:
    key, member = _build(info.key_type, {}), _build(info.value_type, {})
    most = info.max_length

    def check(value: Any, at: str, faults: list[Fault], digits: int) -> None:
        if type(value) is not dict:
            faults.append(Fault(at, "invalid_type", "must be an object"))
            return
        members = cast("dict[str, Any]", value)
        if most is not None and len(members) > most:
            faults.append(Fault(at, "too_long", f"may have at most {most} keys"))
            return
        for name, each in members.items():
            pointer = _member(at, name)
            key(name, pointer, faults, digits)
            member(each, pointer, faults, digits)

    return check


def _str(info: inspect.StrType, pattern_message: str | None, rule: Callable[[str], bool] | None) -> Check:
    # `$` also matches before a trailing newline; `\Z` does not.
    pattern = re.compile(re.sub(r"\$\Z", r"\\Z", info.pattern)) if info.pattern else None
    least, most = info.min_length or 0, info.max_length

    def check(value: Any, at: str, faults: list[Fault], digits: int) -> None:
        if type(value) is not str:
            faults.append(Fault(at, "invalid_type", "must be a string"))
        elif most is not None and len(value) > most:
            faults.append(Fault(at, "too_long", f"may have at most {most} characters", {"max_length": most}))
        elif len(value) < least:
            message = "must not be empty" if least == 1 else f"must have at least {least} characters"
            faults.append(Fault(at, "invalid_format", message))
        elif (pattern and not pattern.search(value)) or (rule and not rule(value)):
            faults.append(Fault(at, "invalid_format", pattern_message or "has an invalid format"))

    return check


_INT64 = (-(2**63), 2**63 - 1)


def _bounds(info: inspect.IntType | inspect.FloatType) -> tuple[Any, Any]:
    least, most = _INT64
    return (least if info.ge is None else info.ge), (most if info.le is None else info.le)


def _within(value: Any, least: Any, most: Any, at: str, faults: list[Fault]) -> None:
    if not least <= value <= most:
        limit = f"at least {least}" if value < least else f"at most {most}"
        range_ = limit if most == _INT64[1] else f"between {least} and {most}"
        faults.append(Fault(at, "out_of_range", f"must be {range_}", {"minimum": least, "maximum": most}))


def _int(info: inspect.IntType) -> Check:
    least, most = _bounds(info)

    def check(value: Any, at: str, faults: list[Fault], digits: int) -> None:
        if type(value) is not int:
            faults.append(Fault(at, "invalid_type", "must be an integer"))
        else:
            _within(value, least, most, at, faults)

    return check


def _number(least: Any, most: Any) -> Check:
    def check(value: Any, at: str, faults: list[Fault], digits: int) -> None:
        if type(value) is not int and type(value) is not Decimal:
            faults.append(Fault(at, "invalid_type", "must be a number"))
        else:
            _within(value, least, most, at, faults)

    return check


def _literal(values: tuple[Any, ...]) -> Check:
    allowed = set(values)
    message = "must be one of " + ", ".join(str(v) for v in values)

    def check(value: Any, at: str, faults: list[Fault], digits: int) -> None:
        if type(value) not in (str, int):
            faults.append(Fault(at, "invalid_type", message))
        elif value not in allowed:
            faults.append(Fault(at, "invalid_format", message, {"allowed": list(values)}))

    return check


_AMOUNT = re.compile(r"-?[0-9]{1,16}(\.[0-9]{1,16})?\Z")
_HUGE = re.compile(r"-?[0-9]{17,}(\.[0-9]+)?\Z")


def _money(value: Any, at: str, faults: list[Fault], digits: int) -> None:
    if type(value) is str:
        if not _AMOUNT.match(value):
            expected = f'must be an amount such as "{money.to_text(1999, digits)}"'
            faults.append(Fault(at, "invalid_money", money.too_large(digits) if _HUGE.match(value) else expected))
            return
        amount = Decimal(value)
    elif type(value) is int or type(value) is Decimal:
        amount = Decimal(value)
    else:
        faults.append(Fault(at, "invalid_type", "must be an amount, as a string or a number"))
        return
    try:
        money.to_minor(amount, digits)
    except (money.InvalidMoney, InvalidOperation) as error:
        faults.append(Fault(at, "invalid_money", str(error)))


_DECIMAL = re.compile(r"-?[0-9]{1,16}(\.[0-9]{1,4})?\Z")


def _decimal(most: int) -> Check:
    def check(value: Any, at: str, faults: list[Fault], digits: int) -> None:
        if type(value) is not str and type(value) is not int and type(value) is not Decimal:
            faults.append(Fault(at, "invalid_type", "must be a decimal number, as a string or a number"))
        elif not _DECIMAL.match(str(value)):
            words = 'must be a decimal number with at most four fraction digits, such as "19.00"'
            faults.append(Fault(at, "invalid_format", words))
        else:
            _within(Decimal(value), 0, most, at, faults)

    return check


_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)\Z")


def parse_time(text: str) -> datetime | None:
    """Parse an RFC 3339 time with an offset; None if the text is not one."""
    if not _RFC3339.match(text):
        return None
    try:
        # As a body is converted. In UTC, because the first and last hours of the calendar are out of range in some offsets.
        return msgspec.convert(text, datetime).astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        return None


def _datetime(value: Any, at: str, faults: list[Fault], digits: int) -> None:
    if type(value) is not str:
        faults.append(Fault(at, "invalid_type", "must be an RFC 3339 time, as a string"))
    elif parse_time(value) is None:
        faults.append(
            Fault(at, "invalid_format", "must be an RFC 3339 time with an offset, such as 2026-01-31T12:00:00Z")
        )
