"""The types of query parameters: how each is parsed, and how OpenAPI describes it."""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Literal, Protocol, cast

import msgspec

from stoa import money, terms
from stoa.rest.checks import LONGEST_TIME, parse_time
from stoa.rest.metadata import Definitions
from stoa.rest.metadata_types import ORDERED, Resource, Type, is_day, plain_number
from stoa.rest.problems import printable

LARGEST_SET, LARGEST_TEXT_SET = 250, 100
_LONGEST_ENTRY = 1000
_OPERATORS = ("gte", "gt", "lte", "lt")


class InvalidValue(ValueError):
    """The value of a parameter is invalid; the message says what is valid."""


class StoreContext(Protocol):
    """The properties of a store that parsing a filter depends on."""

    @property
    def store_id(self) -> int: ...
    @property
    def digits(self) -> int: ...
    @property
    def definitions(self) -> Definitions: ...


class _Kind(msgspec.StructMeta, ABCMeta):
    """The metaclass of structs with abstract methods."""


class Filter(msgspec.Struct, frozen=True, kw_only=True, metaclass=_Kind):
    """One query parameter. `operators` are the operators that it accepts in brackets, as in `price[gte]`."""

    description: str = ""
    operators: ClassVar[tuple[str, ...]] = ()
    several: ClassVar[bool] = False  # whether it accepts several values

    @abstractmethod
    def read(self, text: str, store: StoreContext) -> Any:
        """Parse the text, or raise InvalidValue."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the parameter."""


class Text(Filter, frozen=True, kw_only=True):
    """An exact value."""

    longest: int = 255

    def read(self, text: str, store: StoreContext) -> str:
        if not 0 < len(text) <= self.longest:
            raise InvalidValue(f"must have 1 to {self.longest} characters")
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": self.longest}


class Texts(Filter, frozen=True, kw_only=True):
    """Exact values, separated by commas. A single value that contains a comma is found too."""

    longest: int = 255
    several = True

    def read(self, text: str, store: StoreContext) -> list[str]:
        given = text.split(",")
        if len(given) > LARGEST_TEXT_SET:
            raise InvalidValue(f"may have at most {LARGEST_TEXT_SET} values")
        values = list(dict.fromkeys(given))
        if not all(0 < len(value) <= self.longest for value in values):
            raise InvalidValue(f"must have values of 1 to {self.longest} characters, separated by commas")
        return [*values, text] if len(values) > 1 and len(text) <= self.longest else values

    def schema(self) -> dict[str, Any]:
        items = {"type": "string", "minLength": 1, "maxLength": self.longest}
        return {"type": "array", "minItems": 1, "maxItems": LARGEST_TEXT_SET, "items": items}


class Choices(Filter, frozen=True, kw_only=True):
    """One or more of a set of values, separated by commas."""

    values: tuple[str, ...]
    several = True

    def read(self, text: str, store: StoreContext) -> list[str]:
        chosen = text.split(",")
        if len(chosen) > LARGEST_SET:
            raise InvalidValue(f"may have at most {LARGEST_SET} values")
        for each in chosen:
            if each not in self.values:
                raise InvalidValue(f'must be one of {", ".join(self.values)}, not "{printable(each)}"')
        return chosen

    def schema(self) -> dict[str, Any]:
        items = {"type": "string", "enum": list(self.values)}
        return {"type": "array", "minItems": 1, "maxItems": LARGEST_SET, "items": items}


_LARGEST_INTEGER = 10**18 - 1


def _integer(text: str, most: int = _LARGEST_INTEGER) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) <= most):
        raise InvalidValue(f"must be an integer from 0 to {most}")
    return int(text)


class Number(Filter, frozen=True, kw_only=True):
    """A non-negative integer."""

    most: int = _LARGEST_INTEGER

    def read(self, text: str, store: StoreContext) -> int:
        return _integer(text, self.most)

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "format": "int64", "minimum": 0, "maximum": self.most}


class Ids(Filter, frozen=True, kw_only=True):
    """Ids, separated by commas."""

    several = True

    def read(self, text: str, store: StoreContext) -> list[int]:
        parts = text.split(",")
        if len(parts) > LARGEST_SET:
            raise InvalidValue(f"may have at most {LARGEST_SET} ids")
        return [_integer(part) for part in parts]

    def schema(self) -> dict[str, Any]:
        item = {"type": "integer", "format": "int64", "minimum": 0, "maximum": _LARGEST_INTEGER}
        return {"type": "array", "minItems": 1, "maxItems": LARGEST_SET, "items": item}


class Flag(Filter, frozen=True, kw_only=True):
    """`true` or `false`."""

    def read(self, text: str, store: StoreContext) -> bool:
        if text not in ("true", "false"):
            raise InvalidValue("must be true or false")
        return text == "true"

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Moment(Filter, frozen=True, kw_only=True):
    """A time."""

    def read(self, text: str, store: StoreContext) -> Any:
        # An unescaped plus sign in the offset arrives as a space.
        value = parse_time(text.replace(" ", "+"))
        if value is None:
            raise InvalidValue("must be an RFC 3339 time such as 2026-01-31T12:00:00Z")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "date-time", "maxLength": LONGEST_TIME}


class MomentRange(Moment, frozen=True, kw_only=True):
    """A time, or with operators a range of times."""

    operators = ("gte", "gt", "lte", "lt")


class MoneyRange(Filter, frozen=True, kw_only=True):
    """An amount, or with operators a range of amounts."""

    operators = ("gte", "gt", "lte", "lt")

    def read(self, text: str, store: StoreContext) -> int:
        try:
            amount = Decimal(text if len(text) < 32 else "NaN")
            if not amount.is_finite():
                raise InvalidValue("must be an amount such as 19.99")
            return money.to_minor(amount, store.digits)
        except money.InvalidMoney as error:
            raise InvalidValue(str(error)) from error
        except InvalidOperation as error:
            raise InvalidValue("must be an amount such as 19.99") from error

    def schema(self) -> dict[str, Any]:
        pattern = r"^[0-9]{1,16}(\.[0-9]{1,4})?$"
        return {"type": "string", "format": "decimal", "maxLength": 21, "pattern": pattern}


class Term(Filter, frozen=True, kw_only=True):
    """A value that is stored as a search term and compared without case."""

    kind: Literal["tag", "brand", "category"]

    def read(self, text: str, store: StoreContext) -> str:
        if not 0 < len(text) <= 255:
            raise InvalidValue("must have 1 to 255 characters")
        return terms.exactly([terms.lexeme(store.store_id, self.kind, text)])

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": 255}


class Words(Filter, frozen=True, kw_only=True):
    """Text search by prefix: every word must be the start of a word in the row."""

    def read(self, text: str, store: StoreContext) -> str:
        if len(text) > 200 or not (query := terms.beginning(store.store_id, text)):
            raise InvalidValue("must contain a word and have at most 200 characters")
        return query

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": 200}


class Entry(msgspec.Struct, frozen=True):
    """One condition on a key, as in `metadata[key][gte]=value`; a key without a definition has no type."""

    key: str
    text: str
    operator: terms.Operator | None = None
    type: Type | None = None


class Entries(Filter, frozen=True, kw_only=True):
    """`metadata[key]=value`, repeatable with different keys; a row must match all of them.

    Values of keys with a definition are compared by their type, and ordered ones also by ranges.
    """

    operators = ("*",)
    resource: Resource | None = None  # whose definitions apply

    def read(self, text: str, store: StoreContext) -> str:
        raise InvalidValue("requires a key in brackets, as in metadata[tier]=gold")

    def read_entry(self, name: str, text: str, store: StoreContext) -> Entry:
        key, bracket, operator = name.partition("][")
        if "[" in key or "]" in key or (bracket and (self.resource is None or operator not in _OPERATORS)):
            raise InvalidValue(
                "takes one key in brackets, as in metadata[tier]=gold, and for a key with an ordered type an operator, "
                "as in metadata[size][gte]=24"
            )
        if len(text) > _LONGEST_ENTRY:
            raise InvalidValue(f"may have at most {_LONGEST_ENTRY} characters")
        definition = store.definitions.get(self.resource, key) if self.resource else None
        kind = definition.type if definition is not None else None
        if bracket and kind not in ORDERED:
            raise InvalidValue("takes an operator only for a key that is defined as integer, decimal or date")
        if kind in ("integer", "decimal") and plain_number(text) is None:
            raise InvalidValue("must be a number such as 24")
        if kind == "date" and not is_day(text):
            raise InvalidValue("must be a date such as 2026-12-31")
        return Entry(key, text, cast("terms.Operator", operator) if bracket else None, kind)

    def read_entries(self, entries: Sequence[Entry], store: StoreContext) -> dict[str, Any]:
        """The filters of all entries by their names."""
        self.check_lists(entries)
        return entry_conditions(store.store_id, entries)

    def check_lists(self, entries: Sequence[Entry]) -> None:
        if len({each.key for each in entries if each.type == "list"}) > 1:
            raise InvalidValue("may name one key of the type list")

    def schema(self) -> dict[str, Any]:
        value = {"type": "string", "maxLength": _LONGEST_ENTRY}
        if self.resource is None:
            return {"type": "object", "propertyNames": {"minLength": 1}, "additionalProperties": value}
        ranges = {"type": "object", "properties": dict.fromkeys(_OPERATORS, value), "additionalProperties": False}
        values = {"anyOf": [value, ranges]}
        return {"type": "object", "propertyNames": {"minLength": 1}, "additionalProperties": values}


def entry_conditions(
    store_id: int, entries: Sequence[Entry], owned: Callable[[str], str] = lambda key: key
) -> dict[str, str]:
    """The tsqueries of metadata entries, by the names of their filters. `owned` names a key as search terms have it."""
    plain: list[str] = []
    compared: list[str] = []
    listed: list[str] = []
    for each in entries:
        key = owned(each.key)
        if each.type in ("integer", "decimal"):
            number = Decimal(each.text)
            compared.append(
                terms.number_range(store_id, key, each.operator, number)
                if each.operator
                else terms.number_is(store_id, key, number)
            )
        elif each.operator:
            plain.append(terms.date_range(store_id, key, each.operator, each.text))
        elif each.type == "list":
            listed.append(terms.list_contains(store_id, key, each.text))
        else:
            plain.append(terms.exactly([terms.lexeme(store_id, "meta", terms.entry(key, each.text))]))
    found = {"metadata": plain, "metadata compared": compared, "metadata listed": listed}
    return {name: " & ".join(queries) for name, queries in found.items() if queries}
