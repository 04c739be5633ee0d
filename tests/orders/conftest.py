"""The store of the order tests."""

import pytest

from tests.orders.counter import CLASS, POT, TEA, Counter
from tests.support.shops import Shop


@pytest.fixture
async def counter(shop: Shop) -> Counter:
    """Tea (10 units), pots in two colors (3 and 1) and a class with unlimited stock."""
    return await Counter(shop).open(TEA, POT, CLASS)
