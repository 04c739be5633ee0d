"""Working copies of products and variants, on which a request tries its edits before anything is stored."""

from typing import Any

import msgspec


class VariantCopy(msgspec.Struct):
    """A variant being worked on; `id` is None until it is stored."""

    id: int | None
    fields: dict[str, Any]
    on_hand: int = 0
    reserved: int = 0
    version: int = 0
    touched: bool = False
    deleted: bool = False
    before: dict[str, Any] | None = None  # as stored; None when new
    on_hand_before: int = 0

    @property
    def sellable(self) -> bool:
        free = self.on_hand > self.reserved
        return free or self.fields["allow_backorder"] or not self.fields["track_inventory"]


class ProductCopy(msgspec.Struct):
    """A product being worked on, with its variants; its row is locked while this lives."""

    id: int | None
    fields: dict[str, Any]
    variants: list[VariantCopy]
    version: int = 0
    touched: bool = False
    deleted: bool = False
    before: dict[str, Any] | None = None

    @property
    def live(self) -> list[VariantCopy]:
        return [variant for variant in self.variants if not variant.deleted]

    def copy(self) -> "ProductCopy":
        """A copy to try an edit on; documents are replaced by edits, never changed in place."""
        variants = [msgspec.structs.replace(variant) for variant in self.variants]
        return msgspec.structs.replace(self, variants=variants)

    def become(self, tried: "ProductCopy") -> None:
        """Take over an edit that was found right; whoever holds this copy or its variants sees it."""
        for mine, theirs in zip(self.variants, tried.variants, strict=False):
            _take_over(mine, theirs)
        self.variants += tried.variants[len(self.variants) :]
        variants = self.variants
        _take_over(self, tried)
        self.variants = variants

    def variant(self, variant_id: int) -> VariantCopy | None:
        return next((variant for variant in self.live if variant.id == variant_id), None)


def _take_over(mine: msgspec.Struct, theirs: msgspec.Struct) -> None:
    for field in mine.__struct_fields__:
        setattr(mine, field, getattr(theirs, field))
