"""The store of the order tests."""

import pytest

from tests.orders.sample_store import CLASS, POT, TEA, SampleStore
from tests.support.shops import Shop


@pytest.fixture
async def store(shop: Shop) -> SampleStore:
    """Tea (10 units), pots in two colors (3 and 1) and a class with unlimited stock."""
    return await SampleStore(shop).add_products(TEA, POT, CLASS)
