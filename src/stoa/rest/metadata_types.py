"""The definition of a metadata key: its type, and the faults of values that it does not accept."""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from stoa.rest.checks import accepted_by, worded
from stoa.rest.fields import MetadataKey
from stoa.rest.problems import Fault, printable

Resource = Literal["product", "variant", "order", "customer"]
Type = Literal["string", "integer", "decimal", "boolean", "date", "url", "choice", "list"]
RESOURCES: tuple[Resource, ...] = get_args(Resource)
TYPES: tuple[Type, ...] = get_args(Type)
ORDERED = frozenset({"integer", "decimal", "date"})  # the types whose values can be compared
SHARED = "shared."  # the start of a customer's key that all apps see
MOST_DEFINITIONS, MOST_CHOICES, LONGEST_VALUE = 100, 100, 1000
LONGEST_LIST = 100  # with its key, a list must fit into one search term
MOST_DIGITS, MOST_DECIMALS = 18, 9
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_URL = re.compile(r"https?://[^\s\x00-\x1f\x7f-\x9f\ufeff]+\Z")
_WHOLE = re.compile(r"-?[0-9]{1,18}\Z")
_BOUNDED = frozenset({"integer", "decimal", "date", "list"})
_TEXTS = frozenset({"string", "url", "list"})


def is_day(text: str) -> bool:
    """Whether a text is a date of the calendar in the form YYYY-MM-DD."""
    if not _DAY.match(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


Bound = Annotated[str, Meta(max_length=40)] | int | float
Day = Annotated[str, accepted_by(is_day), worded("must be a date such as 2026-12-31")]


class Definition(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The definition of one key of metadata."""

    resource: Annotated[Resource, Meta(description="The resource whose metadata has the key.")]
    key: MetadataKey
    type: Annotated[Type, Meta(description="The type of the values.")]
    min: Annotated[
        Bound | None, Meta(description="The smallest number, the first date, or the fewest values of a list.")
    ] = None
    max: Annotated[
        Bound | None, Meta(description="The largest number, the last date, or the most values of a list.")
    ] = None
    max_length: Annotated[
        Annotated[int, Meta(ge=1, le=LONGEST_VALUE)] | None,
        Meta(description="The most characters of a text or URL, or of each value of a list."),
    ] = None
    choices: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=100)]],
        Meta(max_length=MOST_CHOICES, description="The values of a choice, or those that a list may contain."),
    ] = []
    description: Annotated[str, Meta(max_length=500, description="What the key means, for people.")] = ""
    required_from: Annotated[
        Day | None,
        Meta(description="From this date (UTC), a new resource must have the key, and it cannot be removed."),
    ] = None

    @property
    def name(self) -> str:
        """What identifies the definition among those of its owner."""
        return f"{self.resource}.{self.key}"

    @property
    def is_private(self) -> bool:
        """Whether only the app that writes the key sees it."""
        return self.resource == "customer" and not self.key.startswith(SHARED)

    @property
    def rules(self) -> str:
        """The rules beside the type in words, such as "0 to 120"; empty if there are none."""
        values = " values" if self.type == "list" else ""
        least, most = self.min, self.max
        parts = [f"{least} to {most}{values}"] if least is not None and most is not None else []
        parts += [f"at least {least}{values}"] if least is not None and most is None else []
        parts += [f"at most {most}{values}"] if most is not None and least is None else []
        parts += [f"at most {self.max_length} characters"] if self.max_length is not None else []
        parts += [f"one of {', '.join(self.choices)}"] if self.choices else []
        return "; ".join(parts)

    def requires_now(self) -> bool:
        return self.required_from is not None and self.required_from <= datetime.now(UTC).date().isoformat()

    def faults(self, value: Any, at: str) -> list[Fault]:
        """What is wrong with a value; nothing if it is valid."""
        return list(_CHECKS[self.type](self, value, at))

    def read(self, text: str) -> Any:
        """The value that a person or a file writes as this text; any other text stays as it is, and is refused by `faults`."""
        if self.type == "integer" and _WHOLE.match(text):
            return int(text)
        if self.type == "decimal" and (number := plain_number(text)) is not None:
            return number
        if self.type == "boolean" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        return ",".join(part.strip() for part in text.split(",")) if self.type == "list" else text


# --- values ----------------------------------------------------------------------------------------------------------


def plain_number(text: str) -> Decimal | None:
    """A decimal number in plain notation with at most 18 digits before and 9 after the point; None if the text is none."""
    if not re.match(rf"-?[0-9]{{1,{MOST_DIGITS}}}(\.[0-9]{{1,{MOST_DECIMALS}}})?\Z", text):
        return None
    return Decimal(text)


def _number(value: Any) -> Decimal | None:
    """A JSON number as a decimal with a bounded number of digits; None if it has more."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    if not number.is_finite():
        return None
    return plain_number(f"{number.normalize():f}")


def _string(definition: Definition, value: Any, at: str) -> Iterable[Fault]:
    if not isinstance(value, str):
        yield Fault(at, "invalid_type", "must be a string")
        return
    longest = definition.max_length or LONGEST_VALUE
    if len(value) > longest:
        yield Fault(at, "too_long", f"must have at most {longest} characters", {"max": longest})


def _url(definition: Definition, value: Any, at: str) -> Iterable[Fault]:
    if isinstance(value, str) and not _URL.match(value):
        yield Fault(at, "invalid_format", "must be a URL that starts with http:// or https://")
        return
    yield from _string(definition, value, at)


def _integer(definition: Definition, value: Any, at: str) -> Iterable[Fault]:
    if type(value) is not int:
        yield Fault(at, "invalid_type", "must be an integer")
    elif abs(value) >= 10**MOST_DIGITS:
        yield Fault(at, "out_of_range", f"must have at most {MOST_DIGITS} digits")
    else:
        yield from _bounds(definition, Decimal(value), at)


def _decimal(definition: Definition, value: Any, at: str) -> Iterable[Fault]:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        yield Fault(at, "invalid_type", "must be a number")
    elif (number := _number(value)) is None:
        words = f"must have at most {MOST_DIGITS} digits before and {MOST_DECIMALS} after the decimal point"
        yield Fault(at, "out_of_range", words)
    else:
        yield from _bounds(definition, number, at)


def _boolean(_definition: Definition, value: Any, at: str) -> Iterable[Fault]:
    if type(value) is not bool:
        yield Fault(at, "invalid_type", "must be true or false")


def _date(definition: Definition, value: Any, at: str) -> Iterable[Fault]:
    if not isinstance(value, str):
        yield Fault(at, "invalid_type", "must be a date as a string, such as 2026-12-31")
    elif not is_day(value):
        yield Fault(at, "invalid_format", "must be a date such as 2026-12-31")
    else:
        yield from _bounds(definition, value, at)


def _choice(definition: Definition, value: Any, at: str) -> Iterable[Fault]:
    if not isinstance(value, str):
        yield Fault(at, "invalid_type", "must be a string")
    elif value not in definition.choices:
        yield Fault(at, "invalid_format", f"must be one of {', '.join(definition.choices)}")


def _list(definition: Definition, value: Any, at: str) -> Iterable[Fault]:
    if not isinstance(value, str):
        yield Fault(at, "invalid_type", "must be a string of values separated by commas")
        return
    values = value.split(",")
    if len(value) > LONGEST_LIST:
        yield Fault(at, "too_long", f"must have at most {LONGEST_LIST} characters in all", {"max": LONGEST_LIST})
    elif any(not each or each != each.strip() for each in values):
        yield Fault(at, "invalid_format", "must be values separated by single commas without spaces around them")
    elif len(set(values)) < len(values):
        yield Fault(at, "invalid_format", "must not repeat a value")
    else:
        unknown = [each for each in values if definition.choices and each not in definition.choices]
        if unknown:
            words = f'must contain only {", ".join(definition.choices)}, not "{printable(unknown[0])}"'
            yield Fault(at, "invalid_format", words)
        if definition.max_length is not None and any(len(each) > definition.max_length for each in values):
            words = f"must have values of at most {definition.max_length} characters"
            yield Fault(at, "too_long", words, {"max": definition.max_length})
        yield from _bounds(definition, Decimal(len(values)), at, of="values")


def _bounds(definition: Definition, value: Any, at: str, of: str = "") -> Iterable[Fault]:
    least, most = (_bound(definition, each) for each in (definition.min, definition.max))
    have, unit = ("have", f" {of}") if of else ("be", "")
    if least is not None and value < least:
        words = f"must {have} at least {definition.min}{unit}"
        yield Fault(at, "out_of_range", words, {"min": definition.min})
    if most is not None and value > most:
        words = f"must {have} at most {definition.max}{unit}"
        yield Fault(at, "out_of_range", words, {"max": definition.max})


def _bound(definition: Definition, bound: Any) -> Any:
    """A bound in the form in which values are compared: dates as texts, all others as numbers."""
    return bound if bound is None or definition.type == "date" else Decimal(str(bound))


_CHECKS = {
    "string": _string,
    "integer": _integer,
    "decimal": _decimal,
    "boolean": _boolean,
    "date": _date,
    "url": _url,
    "choice": _choice,
    "list": _list,
}


# --- definitions -----------------------------------------------------------------------------------------------------


def definition_faults(definition: Definition, *, of_app: bool, at: str = "") -> list[Fault]:
    """What contradicts itself in a definition whose members are valid one by one."""
    return list(_contradictions(definition, of_app=of_app, at=at))


def _contradictions(definition: Definition, *, of_app: bool, at: str) -> Iterable[Fault]:
    kind = definition.type
    if definition.is_private and not of_app:
        yield Fault(
            f"{at}/key", "invalid_format", f"must start with {SHARED}, because only apps have keys of their own"
        )
    if kind == "choice" and not definition.choices:
        yield Fault(f"{at}/choices", "required", "is required for a choice")
    for name, given, allowed in (
        ("min", definition.min is not None, _BOUNDED),
        ("max", definition.max is not None, _BOUNDED),
        ("max_length", definition.max_length is not None, _TEXTS),
        ("choices", bool(definition.choices), frozenset({"choice", "list"})),
    ):
        if given and kind not in allowed:
            yield Fault(f"{at}/{name}", "invalid_format", f"must be omitted for the type {kind}")
    if len(set(definition.choices)) < len(definition.choices):
        yield Fault(f"{at}/choices", "invalid_format", "must not repeat a value")
    if kind == "list" and any("," in each or each != each.strip() for each in definition.choices):
        yield Fault(f"{at}/choices", "invalid_format", "must not contain commas or spaces at their ends")
    if kind in _BOUNDED:
        yield from _bound_faults(definition, at)


def _bound_faults(definition: Definition, at: str) -> Iterable[Fault]:
    kind, valid = definition.type, True
    for name, bound in (("min", definition.min), ("max", definition.max)):
        if bound is None:
            continue
        if kind == "date":
            fits, words = isinstance(bound, str) and is_day(bound), "must be a date such as 2026-12-31"
        elif kind == "decimal":
            fits, words = not isinstance(bound, str) and _number(bound) is not None, "must be a number"
        else:
            fits = type(bound) is int and abs(bound) < 10**MOST_DIGITS and (kind == "integer" or bound >= 0)
            words = "must be an integer" if kind == "integer" else "must be the number of values"
        if not fits:
            valid = False
            yield Fault(f"{at}/{name}", "invalid_format", words)
    if valid and definition.min is not None and definition.max is not None:
        least, most = _bound(definition, definition.min), _bound(definition, definition.max)
        if least > most:
            yield Fault(f"{at}/max", "out_of_range", "must be at least min")
