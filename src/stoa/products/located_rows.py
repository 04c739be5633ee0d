"""Rows of a file whose stock names a location: `location` beside `stock`, on the product or on a variant."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar, cast

import msgspec

from stoa.products.bodies import NewVariant
from stoa.products.documents import options_key
from stoa.products.rows import (
    change_by_row,
    find_variant,
    on_hand_only,
    product_from_row,
    variant_on_product,
    variants_in,
)
from stoa.products.rules import refuse, set_level
from stoa.products.working_copy import ProductCopy
from stoa.rest.body import convert
from stoa.rest.call import Store
from stoa.rest.problems import Fault, Refusal

_VARIANT = re.compile(r"/variants/([0-9]+)")
T = TypeVar("T")


class LocatedStock(msgspec.Struct, frozen=True):
    """Stock at a location. `at` points to the members that contain it: a variant, or the row itself."""

    at: str
    members: dict[str, Any]
    location: str


def names_location(row: Mapping[str, Any]) -> bool:
    """Whether a row has the field `location`, even an empty one."""
    return "location" in row or any("location" in variant for _, variant in variants_in(row))


def stock_at_locations(row: Mapping[str, Any]) -> list[LocatedStock]:
    """The stock of a row that names a location. An empty location stands for the total of all locations."""
    return [
        LocatedStock(at, members, members["location"])
        for at, members in _stocked(row)
        if isinstance(members.get("location"), str) and members["location"] and members.get("stock") is not None
    ]


def location_faults(row: Mapping[str, Any], active: Collection[str]) -> list[Fault]:
    """The faults of a row's locations. `active` has those of them at which the store keeps stock."""
    stocked = dict(_stocked(row))
    faults = [
        Fault(f"{at}/location", "invalid_type", "must be a string")
        for at, members in {"": row, **stocked}.items()
        if not isinstance(members.get("location"), str | None)
    ]
    if row.get("location") and "" not in stocked:
        faults.append(Fault("/location", "invalid_format", "must be beside the stock of each variant"))
    located = stock_at_locations(row)
    seen: set[tuple[str, str]] = set()
    for each in located:
        key = (_identity(each.members), each.location)
        if each.location not in active:
            words = "no active location of this store has this code"
            faults.append(Fault(f"{each.at}/location", "unknown_location", words))
        elif key in seen:
            faults.append(Fault(f"{each.at}/location", "invalid_format", "appears twice for the same variant"))
        seen.add(key)
    # The result would depend on whether the total or the level is set first.
    named = {_identity(each.members) for each in located}
    words = "is required, because this row sets the stock of the same variant at a location"
    faults += [
        Fault(f"{at}/location", "required", words)
        for at, members in stocked.items()
        if members.get("stock") is not None and not members.get("location") and _identity(members) in named
    ]
    return faults


def product_from_located_row(row: Mapping[str, Any], store: Store) -> ProductCopy:
    """A new product from a row whose locations have no faults."""
    plain, origins = _without_locations(row)
    product = _with_pointers(lambda: product_from_row(plain, store), origins)
    # A new product has none of the ids that an export contains.
    _set_levels(product, row, store, named_by=("sku", "option_values"))
    return product


def change_by_located_row(product: ProductCopy, row: Mapping[str, Any], store: Store) -> bool:
    """Apply a row whose locations have no faults to an existing product, and return whether anything changed."""
    plain, origins = _without_locations(row)
    changed = _with_pointers(lambda: change_by_row(product, plain, store), origins)
    return _set_levels(product, row, store, named_by=("id", "sku", "option_values")) or changed


def _stocked(row: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The members of a row that can have stock, with their pointers: its variants, or the row itself without any."""
    if row.get("variants"):
        yield from ((f"/variants/{index}", variant) for index, variant in variants_in(row))
    else:
        yield "", dict(row)


def _set_levels(product: ProductCopy, row: Mapping[str, Any], store: Store, *, named_by: tuple[str, ...]) -> bool:
    changed = False
    for each in stock_at_locations(row):
        try:
            stock = on_hand_only(each.members["stock"])
            on_hand = convert({"stock": stock}, NewVariant, digits=store.digits).stock.on_hand
            variants = [each.members] if each.at else variant_on_product(product, each.members)
            for members in variants:
                variant = find_variant(product, {name: members.get(name) for name in named_by})
                if variant is not None and "on_hand" in stock:
                    changed |= set_level(product, variant, each.location, on_hand)
        except Refusal as refusal:
            for fault in refusal.faults:
                fault.pointer = f"{each.at}{fault.pointer}"
            raise
    return changed


def _without_locations(row: Mapping[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """A row without locations and the stock there, and the original index of each of its variants.

    Variants that repeat another one, with its stock at another location, are merged.
    """
    plain = {name: value for name, value in row.items() if name != "location"}
    located = {stock.at for stock in stock_at_locations(row)}
    if not row.get("variants") or not isinstance(row["variants"], list):
        if located:
            del plain["stock"]
        return plain, []
    merged: list[Any] = []
    origins: list[int] = []
    seen: dict[str, dict[str, Any]] = {}
    faults: list[Fault] = []
    variants = dict(variants_in(row))
    for index, value in enumerate(cast("list[Any]", row["variants"])):
        at, kept = f"/variants/{index}", value
        if index in variants:
            left_out = ("location", "stock") if at in located else ("location",)
            members = kept = {name: each for name, each in variants[index].items() if name not in left_out}
            first = seen.setdefault(_identity(members), members) if at in located else members
            if first is not members:
                words = "must equal the first record of the same variant"
                different = [name for name, each in members.items() if first.setdefault(name, each) != each]
                faults += [Fault(f"{at}/{name}", "invalid_format", words) for name in different]
                continue
        merged.append(kept)
        origins.append(index)
    refuse(faults)
    plain["variants"] = merged
    return plain, origins


def _identity(members: Mapping[str, Any]) -> str:
    """What tells a variant of a row from the others: its id, else its SKU, else its option values."""
    for name in ("id", "sku"):
        if members.get(name) is not None:
            return f"{name} {members[name]}"
    values = members.get("option_values")
    given = cast("dict[str, Any]", values) if isinstance(values, dict) else {}
    return options_key({name: str(value) for name, value in given.items()})


def _with_pointers(step: Callable[[], T], origins: list[int]) -> T:
    """Run a step on a row with merged variants; its refusal points into the row that was sent."""
    try:
        return step()
    except Refusal as refusal:
        for fault in refusal.faults:
            if (found := _VARIANT.match(fault.pointer)) and int(found[1]) < len(origins):
                fault.pointer = f"/variants/{origins[int(found[1])]}{fault.pointer[found.end() :]}"
        raise
