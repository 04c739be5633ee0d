"""Store pages show data of their own store only, and empty states when there is none."""

import pytest

from tests.portal.store_pages import place_order, rows
from tests.support.people import User
from tests.support.shops import SHIRT, Shop

SECTIONS = ("products", "orders", "customers", "imports", "audit")


@pytest.mark.parametrize("section", ["products", "orders", "customers"])
async def test_data_of_another_store_is_not_shown(
    shop: Shop, other_shop: Shop, maria: User, store_url: str, section: str
) -> None:
    await other_shop.add(SHIRT)
    placed = await place_order(other_shop)
    ids = {
        "products": placed["line_items"][0]["product_id"],
        "orders": placed["id"],
        "customers": placed["customer_id"],
    }
    await maria.open(f"{store_url}/{section}/{ids[section]}")
    assert maria.response.status_code == 404
    await maria.open(f"{store_url}/{section}")
    assert rows(maria.text) == []


@pytest.mark.parametrize("section", SECTIONS)
async def test_an_empty_list_links_to_the_documentation(shop: Shop, maria: User, store_url: str, section: str) -> None:
    await maria.open(f"{store_url}/{section}")
    assert maria.response.status_code == 200
    if section != "audit":  # the creation of a store is an entry
        assert 'class="temple"' in maria.text
        assert "/docs/" in maria.text
