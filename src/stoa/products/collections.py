"""Collections: groups of products that a merchant arranges, by hand or by rules. Membership is decided here, without a database."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from stoa import money
from stoa.products.bodies import Membership, ProductFields
from stoa.rest.problems import Fault, ValidationFailed
from stoa.terms import caseless

MOST_COLLECTIONS, MOST_CONDITIONS = 500, 20
LONGEST_VALUE = 255
Criterion = Literal["tag", "brand", "category", "price"]
Match = Literal["all", "any"]
_RANGE = ".."


class InvalidCondition(ValueError):
    """A condition cannot be used; the message says what is valid."""


class Condition(msgspec.Struct, frozen=True):
    """One condition of a rule: a tag, a brand, a category with those below it, or a range of prices such as `10.00..25.00`."""

    field: Criterion
    value: Annotated[str, Meta(min_length=1, max_length=LONGEST_VALUE)]

    @property
    def bounds(self) -> tuple[Decimal, Decimal | None]:
        """The lowest and the highest price, both inclusive."""
        low, dots, high = self.value.partition(_RANGE)
        return _price(low or "0"), (_price(high) if high else None) if dots else _price(low)


def _price(text: str) -> Decimal:
    try:
        price = Decimal(text)
    except InvalidOperation:
        price = Decimal("NaN")
    if not price.is_finite():
        raise InvalidCondition("must be a price range such as 10.00..25.00, 10.00.. or ..25.00")
    return price


class Rules(msgspec.Struct, frozen=True):
    """The conditions that put a product into a collection: all of them, or any of them."""

    conditions: Annotated[tuple[Condition, ...], Meta(min_length=1, max_length=MOST_CONDITIONS)]
    match: Match = "all"


def checked_condition(field: Criterion, value: str, digits: int) -> Condition:
    """A condition in the form in which it is stored; `digits` are the fraction digits of the store's currency."""
    value = value.strip().strip("/") if field == "category" else value.strip()
    if not 1 <= len(value) <= LONGEST_VALUE or not value.isprintable():
        raise InvalidCondition(f"must have 1 to {LONGEST_VALUE} printable characters")
    if field != "price":
        return Condition(field, value)
    low, high = Condition(field, value.replace(",", ".").replace(" ", "")).bounds
    if high is not None and high < low:
        raise InvalidCondition("must begin with the lower price")
    try:
        ends = [money.to_text(money.to_minor(each, digits), digits) if each is not None else "" for each in (low, high)]
    except money.InvalidMoney as error:
        raise InvalidCondition(str(error)) from error
    return Condition(field, _RANGE.join(ends))


class _Facts(msgspec.Struct, frozen=True):
    """What rules see of a product, in the form in which filters compare it."""

    tag: frozenset[str]
    brand: frozenset[str]
    category: frozenset[str]  # with all parents
    price: Decimal


def _facts(product: ProductFields) -> _Facts:
    parts = caseless(product.category).split("/") if product.category else []
    return _Facts(
        frozenset(caseless(tag) for tag in product.tags),
        frozenset([caseless(product.brand)] if product.brand else []),
        frozenset("/".join(parts[: n + 1]) for n in range(len(parts))),
        Decimal(product.price),
    )


class _Compiled(msgspec.Struct, frozen=True):
    """Rules in the form in which they are compared."""

    words: tuple[tuple[str, str], ...]
    ranges: tuple[tuple[Decimal, Decimal | None], ...]
    every: bool

    def match(self, facts: _Facts) -> bool:
        tests = [value in getattr(facts, field) for field, value in self.words]
        tests += [low <= facts.price and (high is None or facts.price <= high) for low, high in self.ranges]
        return all(tests) if self.every else any(tests)


@lru_cache(maxsize=256)
def _compiled(stored: str) -> dict[str, _Compiled | None]:
    """The collections of a store, by handle, with their rules if they have any."""
    collections = msgspec.json.decode(stored, type=dict[str, Rules | None])
    return {handle: rules and _compile(rules) for handle, rules in collections.items()}


def _compile(rules: Rules) -> _Compiled:
    words = tuple((each.field, caseless(each.value)) for each in rules.conditions if each.field != "price")
    ranges = tuple(each.bounds for each in rules.conditions if each.field == "price")
    return _Compiled(words, ranges, rules.match == "all")


def have_rules(stored: str) -> bool:
    """Whether any of a store's collections, as `collections_in_force` returns them, has rules."""
    return any(_compiled(stored).values())


def memberships(product: ProductFields, stored: str, before: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The collections that a product is in: those chosen by hand, and those whose rules it fulfills.

    `stored` are the collections of the store, as `collections_in_force` returns them. A chosen collection that does not exist is
    refused, unless the product was in it `before`: then it was deleted.
    """
    known = _compiled(stored)
    chosen = {each["handle"]: each for each in product.collections if not each["by_rule"]}
    unknown = [handle for handle in chosen if handle not in known and handle not in before]
    if unknown:
        faults = [
            Fault(f"/collections/{n}/handle", "unknown_collection", "no collection of this store has this handle")
            for n, handle in enumerate(chosen)
            if handle in unknown
        ]
        raise ValidationFailed("A collection does not exist.", faults=faults)
    found = {handle: each for handle, each in chosen.items() if handle in known}
    if any(known.values()):
        facts = _facts(product)
        for handle, rules in known.items():
            if rules is not None and handle not in found and rules.match(facts):
                found[handle] = _entry(handle, None, by_rule=True)
    return _in_order(found)


def choose(stored: Sequence[Mapping[str, Any]], sent: Sequence[Membership]) -> list[dict[str, Any]]:
    """The collections of a product after a change replaced those that are chosen by hand."""
    handles = [each.handle for each in sent]
    faults = [
        Fault(f"/collections/{n}/handle", "invalid_format", "appears twice")
        for n, handle in enumerate(handles)
        if handle in handles[:n]
    ]
    if faults:
        raise ValidationFailed("A product is in a collection once.", faults=faults)
    found: dict[str, dict[str, Any]] = {each["handle"]: dict(each) for each in stored if each["by_rule"]}
    for each in sent:
        if not each.by_rule:
            found[each.handle] = _entry(each.handle, each.position, by_rule=False)
    return _in_order(found)


def _entry(handle: str, position: int | None, *, by_rule: bool) -> dict[str, Any]:
    return {"handle": handle, "position": position, "by_rule": by_rule}


def _in_order(found: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [found[handle] for handle in sorted(found)]
