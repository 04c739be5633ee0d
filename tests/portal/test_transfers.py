"""Stock that a person transfers between locations: all rows in one transaction, with a ledger, or none."""

import asyncio
import re

from stoa.access import audit
from stoa.db.pool import Database
from tests.portal.store_pages import hidden
from tests.support.locations import assert_books_balance, levels, open_locations
from tests.support.people import User
from tests.support.shops import SHIRT, Shop

STOCKED = {**SHIRT, "variants": [{**each, "stock": {"on_hand": 4}} for each in SHIRT["variants"]]}


async def opened(shop: Shop, user: User, url: str) -> list[str]:
    """Open the page with two variants in stock; return the fields of their units."""
    await shop.add(STOCKED)
    await open_locations(shop, east=20)
    await user.open(url)
    return re.findall(r'name="(units\[\d+\])"', user.text)


async def test_all_rows_of_a_transfer_move_in_one_transaction(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    url = f"{store_url}/transfer"
    small, medium = await opened(shop, maria, url)
    await maria.submit(url, {**hidden(maria.text), small: "3", medium: "1", "reference": "Van 7"})
    assert maria.notice == "The stock was transferred."
    assert await levels(shop, "LS-S") == {"default": (1, 0), "east": (3, 0)}
    assert await levels(shop, "LS-M") == {"default": (3, 0), "east": (1, 0)}
    ledger = (await shop.client.get("/products/inventory/adjustments", params={"kind": "transfer"})).json()["data"]
    assert len(ledger) == 4, "two entries for each row"
    assert {(each["reference"], each["actor"]["type"]) for each in ledger} == {("Van 7", "account")}
    assert len({each["request_id"] for each in ledger}) == 1
    await assert_books_balance(shop)
    [entry] = await audit.newest(db, shop.store_id, 1)
    assert (entry.action, entry.subject, entry.actor) == (
        "stock.transferred",
        "location:default",
        f"account:{maria.account.id}",
    )
    await maria.open(f"{url}?source=east&target=default&q=linen")
    assert re.search(
        r'<td data-label="Available" class="num">3</td><td data-label="Target" class="num">1</td>', maria.text
    )


async def test_too_few_units_refuse_the_whole_transfer(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    url = f"{store_url}/transfer"
    small, medium = await opened(shop, maria, url)
    before = await audit.head(db, shop.store_id)
    await maria.submit(url, {**hidden(maria.text), small: "1", medium: "5"})
    assert maria.response.status_code == 422
    assert maria.faults == {medium: "Available is 4 and cannot fall below 0."}
    assert await levels(shop, "LS-S") == {"default": (4, 0)}
    assert await audit.head(db, shop.store_id) == before
    for sent, fault in (
        ({}, "units"),
        ({small: "0"}, "units"),
        ({small: "-1"}, small),
        ({small: "one"}, small),
        ({small: "1", "target": "attic"}, "target"),
        ({small: "1", "target": "default"}, "target"),
    ):
        await maria.open(url)
        await maria.submit(url, {**hidden(maria.text), **sent})
        assert maria.faults.keys() == {fault}, (sent, maria.faults)
    assert await levels(shop, "LS-S") == {"default": (4, 0)}


async def test_a_transfer_that_is_submitted_twice_is_made_once(shop: Shop, maria: User, store_url: str) -> None:
    url = f"{store_url}/transfer"
    small, _ = await opened(shop, maria, url)
    form = {"_token": maria.token, **hidden(maria.text), small: "1"}
    answers = await asyncio.gather(*(maria.client.post(url, data=form) for _ in range(3)))
    assert {each.status_code for each in answers} == {303}
    assert await levels(shop, "LS-S") == {"default": (3, 0), "east": (1, 0)}


async def test_a_store_with_one_location_has_nothing_to_transfer(maria: User, store_url: str) -> None:
    await maria.open(f"{store_url}/transfer")
    assert "Only one location" in maria.text
