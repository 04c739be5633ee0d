"""The shop of the inventory tests."""

import pytest

from tests.inventory.shelves import CARD, LAMP, SOCKS, Shelves
from tests.support.shops import Shop


@pytest.fixture
async def shelves(shop: Shop) -> Shelves:
    """Socks (tracked, two sizes), a lamp on backorder and a gift card that is not tracked."""
    return await Shelves(shop).open(SOCKS, LAMP, CARD)
