"""Working copies of products and variants, which a request edits before it saves anything."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from stoa.events.outbox import Cause
from stoa.products.bodies import ProductFields, VariantFields


class Level(msgspec.Struct, frozen=True):
    """The stock of a variant at one location other than the default, and what was on hand there when it was loaded."""

    on_hand: int = 0
    reserved: int = 0
    before: int = 0


def has_unlimited_stock(track_inventory: bool, allow_backorder: bool) -> bool:
    """Whether orders may reserve more units than a variant has; the stored function of this name is the same rule."""
    return allow_backorder or not track_inventory


class VariantCopy(msgspec.Struct):
    """A working copy of a variant; `id` is None until it is saved."""

    id: int | None
    fields: VariantFields
    on_hand: int = 0
    reserved: int = 0
    version: int = 0
    touched: bool = False
    deleted: bool = False
    moved: bool = False  # whether a request moved it; the positions of the others follow
    before: VariantFields | None = None  # as stored; None: new
    unknown: dict[str, Any] = {}  # members that a later release added; they are kept
    on_hand_before: int = 0
    other_on_hand: int = 0  # at locations other than the default
    other_reserved: int = 0
    # At the locations that a request names. `on_hand` and `other_on_hand` do not contain what the request changes there.
    levels: Mapping[str, Level] = {}

    @property
    def stored_id(self) -> int:
        return _stored_id(self.id)

    def set_fields(self, **members: Any) -> None:
        """Set members that differ."""
        if _differ(self.fields, members):
            self.fields = msgspec.structs.replace(self.fields, **members)
            self.touched = True

    @property
    def changed_levels(self) -> dict[str, Level]:
        return {location: level for location, level in self.levels.items() if level.on_hand != level.before}

    @property
    def total(self) -> int:
        """The units on hand at all locations, with those that the request adds to `levels`."""
        return self.on_hand + sum(level.on_hand - level.before for level in self.levels.values())

    def level(self, location: str) -> int:
        """The units on hand at a location other than the default."""
        return self.levels[location].on_hand if location in self.levels else 0

    @property
    def owed(self) -> bool:
        """Whether the default location has less than is reserved there. Other locations never owe units."""
        return self.on_hand - self.other_on_hand < self.reserved - self.other_reserved

    @property
    def has_unlimited_stock(self) -> bool:
        return has_unlimited_stock(self.fields.track_inventory, self.fields.allow_backorder)

    @property
    def is_sellable(self) -> bool:
        """Whether the variant can be bought now; the stored function `is_sellable` is the same rule."""
        return self.has_unlimited_stock or self.on_hand > self.reserved


class ProductCopy(msgspec.Struct):
    """A working copy of a product with its variants; its row is locked until the transaction ends."""

    id: int | None
    fields: ProductFields
    variants: list[VariantCopy]
    version: int = 0
    touched: bool = False
    deleted: bool = False
    before: ProductFields | None = None
    unknown: dict[str, Any] = {}
    created_at: datetime | None = None  # of a new product that was created elsewhere; None: now
    cause: Cause | None = None  # if several requests are saved together: that of this product
    derives_slug: bool = False  # from the name, since it was stored; saving makes it unique

    @property
    def stored_id(self) -> int:
        return _stored_id(self.id)

    def set_fields(self, **members: Any) -> None:
        """Set members that differ."""
        if _differ(self.fields, members):
            self.fields = msgspec.structs.replace(self.fields, **members)
            self.touched = True

    @property
    def live(self) -> list[VariantCopy]:
        return [variant for variant in self.variants if not variant.deleted]

    def copy(self) -> "ProductCopy":
        """A copy on which to try an edit. Edits replace the fields and never modify them."""
        variants = [msgspec.structs.replace(variant) for variant in self.variants]
        return msgspec.structs.replace(self, variants=variants)

    def become(self, tried: "ProductCopy") -> None:
        """Adopt a successful edit in place, so that existing references to this copy and its variants see it."""
        for mine, theirs in zip(self.variants, tried.variants, strict=False):
            _adopt(mine, theirs)
        self.variants += tried.variants[len(self.variants) :]
        variants = self.variants
        _adopt(self, tried)
        self.variants = variants

    def variant(self, variant_id: int) -> VariantCopy | None:
        return next((variant for variant in self.live if variant.id == variant_id), None)


def _differ(fields: msgspec.Struct, members: Mapping[str, Any]) -> bool:
    return any(getattr(fields, name) != value for name, value in members.items())


def _adopt(mine: msgspec.Struct, theirs: msgspec.Struct) -> None:
    for field in mine.__struct_fields__:
        setattr(mine, field, getattr(theirs, field))


def _stored_id(known: int | None) -> int:
    if known is None:
        raise ValueError("the copy is not saved yet")
    return known
