"""The rule that decides whether a variant can be bought is the same in the database and in working copies."""

import itertools

from stoa.db.pool import Database
from stoa.products.bodies import VariantFields
from stoa.products.working_copy import VariantCopy

FLAGS = (False, True)
LEVELS = ((0, 0), (1, 0), (1, 1), (0, 1), (-1, 0))


async def test_a_working_copy_is_sellable_if_its_row_is(db: Database) -> None:
    for track_inventory, allow_backorder, (on_hand, reserved) in itertools.product(FLAGS, FLAGS, LEVELS):
        fields = VariantFields(track_inventory=track_inventory, allow_backorder=allow_backorder)
        variant = VariantCopy(None, fields, on_hand, reserved)
        [row] = await db.fetch(
            "SELECT has_unlimited_stock($1, $2), is_sellable($1, $2, $3, $4)",
            track_inventory,
            allow_backorder,
            on_hand,
            reserved,
        )
        assert (variant.has_unlimited_stock, variant.is_sellable) == tuple(row), variant
