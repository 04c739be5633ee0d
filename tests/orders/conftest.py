"""The orders' own shop."""

import pytest

from tests.orders.counter import CLASS, POT, TEA, Counter
from tests.support.shops import Shop


@pytest.fixture
async def counter(shop: Shop) -> Counter:
    """Tea (ten), pots in two colours (three and one) and a class of which there is no end."""
    return await Counter(shop).open(TEA, POT, CLASS)
