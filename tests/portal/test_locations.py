"""The locations of a store: added, changed, deactivated and activated by its owner, and shown beside stock."""

import pytest

from stoa.access import audit
from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.support.locations import open_locations, spread
from tests.support.people import User, as_operator
from tests.support.shops import Shop


async def test_an_owner_manages_the_locations_of_a_store(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    await maria.open(f"{store_url}/locations")
    assert "Default" in maria.text
    await maria.submit(f"{store_url}/locations", name="East & co", code="east", address="4 Dock Road", priority="20")
    assert maria.notice == "East & co was added."
    await maria.open(f"{store_url}/locations/east")
    await maria.submit(f"{store_url}/locations/east", name="East", address="", priority="3")
    assert maria.notice == "Saved. The change takes effect within a second."
    await maria.open(f"{store_url}/locations/east")
    await maria.submit(f"{store_url}/locations/east/deactivate")
    assert (maria.notice, "Inactive" in maria.text) == ("East is inactive.", True)
    await maria.open(f"{store_url}/locations/east")
    await maria.submit(f"{store_url}/locations/east/activate")
    assert maria.notice == "East is active."
    entries = await audit.page(db, shop.store_id, 0, 100)
    actions = [(entry.action, entry.actor) for entry in entries if entry.action.startswith("location.")]
    actor = f"account:{maria.account.id}"
    assert actions == [
        ("location.added", actor),
        ("location.changed", actor),
        ("location.deactivated", actor),
        ("location.activated", actor),
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 81),
        ("code", "No code"),
        ("code", "default"),
        ("code", "x" * 33),
        ("address", "x" * 501),
        ("priority", "-1"),
        ("priority", "first"),
        ("priority", "1000001"),
    ],
)
async def test_a_fault_of_a_location_is_shown_beside_its_field(
    maria: User, store_url: str, field: str, value: str
) -> None:
    await maria.open(f"{store_url}/locations")
    good = {"name": "East", "code": "east", "address": "", "priority": "20"}
    await maria.submit(f"{store_url}/locations", {**good, field: value})
    assert (maria.response.status_code, set(maria.faults)) == (422, {field})


async def test_a_location_with_stock_stays_active(shop: Shop, maria: User, store_url: str) -> None:
    await open_locations(shop, east=20)
    await shop.add({"name": "Tea", "price": "8.00", "sku": "TEA", "stock": {"on_hand": 10}})
    await spread(shop, "TEA", east=4)
    await maria.open(f"{store_url}/locations/east")
    await maria.submit(f"{store_url}/locations/east/deactivate")
    assert maria.response.status_code == 422
    assert "holds 4 units" in maria.text


async def test_the_page_of_a_product_shows_stock_by_location(shop: Shop, maria: User, store_url: str) -> None:
    await open_locations(shop, east=20)
    await shop.add({"name": "Tea", "price": "8.00", "sku": "TEA", "stock": {"on_hand": 10}})
    [product] = (await shop.client.get("/products")).json()["data"]
    await maria.open(f"{store_url}/products/{product['id']}")
    assert "at <code>" not in maria.text
    await spread(shop, "TEA", east=4)
    await maria.open(f"{store_url}/products/{product['id']}")
    for expected in ("at <code>default</code>", "at <code>east</code>", "Transferred"):
        assert expected in maria.text, expected


async def test_a_viewer_cannot_change_locations(
    shop: Shop, zeno: User, store_url: str, db: Database, settings: Settings
) -> None:
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    await zeno.open(f"{store_url}/locations")
    assert "Default" in zeno.text
    assert "Add a location" not in zeno.text
    await zeno.open(f"{store_url}/locations/nowhere")
    assert zeno.response.status_code == 404
