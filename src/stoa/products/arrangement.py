"""The order of a product's variants, and which of them is the default."""

from collections.abc import Sequence

import msgspec

from stoa.products.working_copy import ProductCopy, VariantCopy
from stoa.rest.problems import Fault


class WantedPosition(msgspec.Struct, frozen=True):
    """The position that a request gives to a variant, if any, and whether the variant becomes the default."""

    variant: VariantCopy
    position: int | None
    is_default: bool


def arrange(product: ProductCopy, wanted: Sequence[WantedPosition]) -> bool:
    """Move variants to their positions, and make one the default. Returns whether anything changed.

    Lower positions are filled first, so that a whole new order gives each variant exactly its position.
    """
    moved = sorted(
        ((each.position, each.variant) for each in wanted if each.position is not None), key=lambda each: each[0]
    )
    defaults = [each.variant for each in wanted if each.is_default]
    if not moved and not defaults:
        return False
    before = [variant.fields for variant in product.live]
    moving = {id(variant) for _, variant in moved}
    order = [variant for variant in in_order(product) if id(variant) not in moving]
    for position, variant in moved:
        order.insert(position - 1, variant)
    for position, variant in enumerate(order, 1):
        variant.moved |= id(variant) in moving and variant.fields.position != position
        variant.set_fields(position=position)
    for default in defaults:
        for variant in product.live:
            variant.set_fields(is_default=variant is default)
    changed = any(old is not variant.fields for old, variant in zip(before, product.live, strict=True))
    product.touched |= changed
    return changed


def position_faults(wanted: Sequence[tuple[int | None, bool]]) -> list[Fault]:
    """Faults unless the variants of a request have different positions and at most one of them is the default."""
    positions, defaults = [each[0] for each in wanted], [each[1] for each in wanted]
    return [
        *(
            Fault(f"/variants/{index}/position", "invalid_format", "is also the position of another variant")
            for index, position in enumerate(positions)
            if position is not None and position in positions[:index]
        ),
        *(
            Fault(f"/variants/{index}/is_default", "invalid_format", "is also set on another variant")
            for index, is_default in enumerate(defaults)
            if is_default and True in defaults[:index]
        ),
    ]


def in_order(product: ProductCopy) -> list[VariantCopy]:
    return sorted(product.live, key=lambda variant: variant.fields.position)
