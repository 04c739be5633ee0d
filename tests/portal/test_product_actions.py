"""Products edited by a person: prices, status and stock, with the events and the ledger of the API."""

from typing import Any

from stoa.access import audit
from stoa.db.pool import Database
from tests.portal.store_pages import hidden, place_order
from tests.portal.test_product_forms import shown
from tests.support.locations import open_locations
from tests.support.people import User
from tests.support.shops import SHIRT, Shop


async def stored(shop: Shop, product_id: int) -> dict[str, Any]:
    return (await shop.client.get(f"/products/{product_id}")).json()["data"]


async def test_prices_and_status_change_unless_they_changed_meanwhile(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    [product_id] = await shop.add(SHIRT)
    url, first = f"{store_url}/products/{product_id}/edit", (await stored(shop, product_id))["variants"][0]["id"]
    form = await shown(maria, url)
    await maria.submit(url, {**form, "price": "a lot", f"prices[{first}]": "-1"})
    assert maria.faults.keys() == {"price"}, "the product is checked before its variants"
    await maria.submit(url, {**form, "price": "61.00", f"prices[{first}]": "-1"})
    assert maria.faults.keys() == {f"prices[{first}]"}
    await place_order(shop)  # a sale is a new version, but changes nothing that the form shows
    await maria.submit(url, {**form, "price": "61.00", f"prices[{first}]": "65.00", "status": "draft"})
    assert maria.notice == "Saved."
    now = await stored(shop, product_id)
    assert (now["price"], now["status"], now["variants"][0]["price"]) == ("61.00", "draft", "65.00")
    [entry] = await audit.newest(db, shop.store_id, 1)
    assert (entry.action, entry.actor) == ("product.changed", f"account:{maria.account.id}")
    form = {**await shown(maria, url), "price": "70.00", "status": "active"}
    await shop.client.patch(f"/products/{product_id}", json={"price": "1.00"})
    await maria.submit(url, form)
    assert (maria.response.status_code, maria.faults[""][:8]) == (409, "Somebody")
    assert (await stored(shop, product_id))["price"] == "1.00"


async def test_stock_is_set_or_adjusted_at_a_location_with_its_ledger(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    [product_id] = await shop.add(SHIRT)
    await open_locations(shop, cellar=20)
    first = (await stored(shop, product_id))["variants"][0]
    url, units = f"{store_url}/products/{product_id}", f"quantities[{first['id']}]"
    await maria.open(f"{url}/edit?location=cellar")
    form = {name: value for name, value in hidden(maria.text).items() if name != "seen"}
    assert (form["location"], form[f"on_hand[{first['id']}]"]) == ("cellar", "0")
    await maria.submit(f"{url}/stock", {**form, "op": "set"})
    assert maria.faults == {"quantities": "Enter a quantity."}
    await maria.submit(f"{url}/stock", {**form, "op": "set", "quantities[1]": "5"})
    assert "belongs to another product" in maria.faults["quantities"]
    stocktake = {**form, "op": "set", units: "5", "reason": "stocktake", "reference": "S-1"}
    for _ in range(2):
        await maria.submit(f"{url}/stock", stocktake)
    assert maria.notice == "This form was already submitted. Nothing was done twice."
    await maria.open(f"{url}/edit?location=cellar")
    await maria.submit(f"{url}/stock", {**stocktake, "key": "second", units: "9"})
    assert maria.faults == {units: "The stock on hand is 5 now. Check it, and submit again."}
    await maria.submit(f"{url}/stock", {**stocktake, "key": "third", "op": "adjust", units: "-6"})
    assert maria.faults.keys() == {units}
    await maria.submit(f"{url}/stock", {**stocktake, "key": "fourth", "op": "adjust", units: "-2", "reason": "damaged"})
    ledger = (await shop.client.get("/products/inventory/adjustments")).json()["data"]
    kept = ("kind", "location", "delta_on_hand", "reason", "reference", "actor")
    assert [[each[name] for name in kept] for each in ledger[:2]] == [
        ["adjust", "cellar", -2, "damaged", "S-1", {"type": "account"}],
        ["set", "cellar", 5, "stocktake", "S-1", {"type": "account"}],
    ]
    assert [each.action for each in await audit.newest(db, shop.store_id, 2)] == ["stock.changed"] * 2
