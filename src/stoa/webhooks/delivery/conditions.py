"""The conditions of a filter, compiled once, and the values of a document, read once for all filters of a store.

A condition compares sets, so its cost does not grow with the words of the filter times the values of the document.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cached_property, lru_cache
from operator import ge, gt, le, lt
from typing import Any, cast

import msgspec

from stoa import terms
from stoa.rest.checks import parse_time

# The values that all filters of an app may read from one document; an order of 500 lines has some 20,000 in all fields.
MAX_VALUES = 20_000
RANGES = {"gte": ge, "gt": gt, "lte": le, "lt": lt}
NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?", re.ASCII)
_CASELESS = frozenset({"tag", "tags", "brand", "category"})  # compared without case, as in lists
_KEY = re.compile(r"([a-z0-9_]{1,64}(?:\.[a-z0-9_]{1,64}){0,3})(?:\[([^\[\]]{1,64})\])?", re.ASCII)
_PLAIN: dict[object, str] = {None: "null", True: "true", False: "false"}
_NO_PATH: tuple[str, ...] = ()


class TooManyValues(Exception):
    """The filters of an app read more values of a document than they may."""


def parse_key(key: str) -> tuple[tuple[str, ...], str | None] | None:
    """The path of a filter key and the text in its brackets: an operator, or a member as in `metadata[tier]`."""
    found = _KEY.fullmatch(key)
    return (tuple(found[1].split(".")), found[2]) if found else None


def plural(name: str) -> str:
    return f"{name}s"


class Values:
    """The distinct values at one path of a document, in the forms in which conditions compare them."""

    def __init__(self, values: Sequence[Any], *, caseless: bool = False) -> None:
        texts = (value for value in values if isinstance(value, str))
        self.texts = {terms.caseless(text) for text in texts} if caseless else set(texts)
        self.texts |= {_PLAIN[value] for value in values if value is None or isinstance(value, bool)}
        self.numbers = {Decimal(str(value)) for value in values if _is_number(value)}
        self.objects = [cast("dict[str, Any]", value) for value in values if isinstance(value, dict)]

    @cached_property
    def moments(self) -> set[datetime]:
        return {moment for text in self.texts if (moment := parse_time(text)) is not None}

    @cached_property
    def bounds(self) -> dict[type, tuple[Any, Any]]:
        """The least and the greatest number, and time, of the values that can be compared."""
        numbers = self.numbers | {Decimal(text) for text in self.texts if NUMBER.fullmatch(text)}
        return {
            kind: (min(found), max(found)) for kind, found in ((Decimal, numbers), (datetime, self.moments)) if found
        }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


class Document:
    """A document that is decoded when a filter first needs it, and whose paths are read once."""

    def __init__(self, data: str | dict[str, Any]) -> None:
        self._data = data
        self._members: dict[str, Any] | None = None
        self._found: dict[tuple[tuple[str, ...], str | None], Values] = {}
        self._left = MAX_VALUES

    def at(self, path: tuple[str, ...], member: str | None = None) -> Values:
        """The values at a path; with a member, those of that member of each object there."""
        found = self._found.get((path, member))
        if found is None:
            found = self._found[path, member] = self._read(path, member)
        return found

    def _read(self, path: tuple[str, ...], member: str | None) -> Values:
        if member is not None:
            return Values([each[member] for each in self.at(path).objects if member in each])
        if self._members is None:
            data = self._data
            self._members = msgspec.json.decode(data, type=dict[str, Any]) if isinstance(data, str) else data
        values: list[Any] = []
        for value in _values(self._members, path):
            self._left -= 1
            if self._left < 0:
                raise TooManyValues
            values.append(value)
        return Values(values, caseless=path[-1] in _CASELESS)


def _values(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """Every value at a path. A list yields each of its items, and `tag` also finds each of `tags`."""
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _values(item, path)
    elif not path:
        yield value
    elif isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        name = path[0] if path[0] in members else plural(path[0])
        if name in members:
            yield from _values(members[name], path[1:])


class Condition:
    """One condition: equal to one of its words, or within a range."""

    def __init__(self, key: str, text: str) -> None:
        self._path, self._bracket = parse_key(key) or (_NO_PATH, None)
        if self._path and self._path[-1] in _CASELESS:
            text = terms.caseless(text)
        self._words = frozenset({text, *text.split(",")})
        self._bound: Decimal | datetime | None = Decimal(text) if NUMBER.fullmatch(text) else parse_time(text)

    @cached_property
    def _numbers(self) -> frozenset[Decimal]:
        return frozenset(Decimal(word) for word in self._words if NUMBER.fullmatch(word))

    @cached_property
    def _moments(self) -> frozenset[datetime]:
        return frozenset(moment for word in self._words if (moment := parse_time(word)) is not None)

    def meets(self, document: Document) -> bool:
        if not self._path:
            return False
        if self._bracket is None:
            return self._equals(document.at(self._path))
        return self._equals(document.at(self._path, self._bracket)) or self._compares(document.at(self._path))

    def _equals(self, values: Values) -> bool:
        return (
            not self._words.isdisjoint(values.texts)
            or (bool(values.numbers) and not self._numbers.isdisjoint(values.numbers))
            or (bool(values.moments) and not self._moments.isdisjoint(values.moments))
        )

    def _compares(self, values: Values) -> bool:
        """Whether any value is within the range: the greatest decides if the bound is a lower one, else the least."""
        operator = self._bracket or ""
        if operator not in RANGES or self._bound is None:
            return False
        least, greatest = values.bounds.get(type(self._bound), (None, None))
        return least is not None and RANGES[operator](greatest if operator.startswith("g") else least, self._bound)


class CompiledFilter:
    """All conditions of a filter. A missing field meets none."""

    __slots__ = ("_conditions",)

    def __init__(self, filter: dict[str, str]) -> None:
        self._conditions = [Condition(key, text) for key, text in filter.items()]

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def matches(self, document: Document) -> bool:
        return all(condition.meets(document) for condition in self._conditions)


@lru_cache(maxsize=1024)
def compiled(text: str) -> CompiledFilter:
    """The filter of a subscription, from its stored JSON."""
    return CompiledFilter(msgspec.json.decode(text, type=dict[str, str]))
