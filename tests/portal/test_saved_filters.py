"""Filters of the list of orders that a person saves under a name."""

import asyncio

from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.portal.stores.queries import MOST_SAVED
from stoa.settings import Settings
from tests.portal.store_pages import place_order, rows
from tests.support.people import SAME_ORIGIN, User, as_operator
from tests.support.shops import SHIRT, Shop


async def save(user: User, store_url: str, query: str, name: str) -> None:
    await user.open(f"{store_url}/orders?{query}")
    await user.submit(f"{store_url}/orders/filters?{query}", name=name)


async def test_a_saved_filter_is_a_tab_of_the_person_alone(
    shop: Shop, maria: User, zeno: User, store_url: str, db: Database, settings: Settings
) -> None:
    await shop.add(SHIRT)
    placed = await place_order(shop)
    await save(maria, store_url, "status=pending&since=2026-01-01", "Since <January>")
    assert maria.notice == "Saved as “Since <January>”."
    assert 'aria-current="page">Since &lt;January&gt;</a>' in maria.response.text
    assert rows(maria.text) == [f"#{placed['number']}"]
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    await zeno.open(f"{store_url}/orders")
    assert "January" not in zeno.text
    await save(zeno, store_url, "status=on_hold", "Waiting")
    assert zeno.notice == "Saved as “Waiting”.", "it belongs to the person, so that a viewer can do it"
    await maria.open(f"{store_url}/orders?status=pending&since=2026-01-01")
    for _ in range(2):
        await maria.submit(f"{store_url}/orders/filters/remove", name="Since <January>")
        assert maria.notice == "“Since <January>” is removed."
    assert "January&gt;</a>" not in maria.response.text


async def test_a_name_is_saved_once_also_from_two_tabs(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    await shop.add(SHIRT)
    await place_order(shop)
    await maria.open(f"{store_url}/orders?status=pending")
    url, sent = f"{store_url}/orders/filters", {"_token": maria.token, "name": "Mornings"}
    queries = ("status=pending", "status=pending", "status=on_hold")
    answers = await asyncio.gather(
        *(maria.client.post(f"{url}?{query}", data=sent, headers=SAME_ORIGIN) for query in queries)
    )
    assert [each.status_code for each in answers] == [303] * 3
    assert len(await db.fetch("SELECT FROM saved_filters WHERE store_id = $1", shop.store_id)) == 1


async def test_search_words_are_not_saved(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    await shop.add(SHIRT)
    await place_order(shop)
    await save(maria, store_url, "q=ada&status=pending&customer_id=1", "Ada")
    [[filters]] = await db.fetch("SELECT filters FROM saved_filters WHERE store_id = $1", shop.store_id)
    assert filters == '{"status":"pending"}'
    await save(maria, store_url, "q=ada", "Only words")
    assert maria.faults["name"].startswith("Select a status")
    await save(maria, store_url, "status=nothing", "Hostile")
    assert "status" in maria.faults[""]


async def test_filters_are_limited(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    await place_order(shop)
    for number in range(MOST_SAVED):
        await save(maria, store_url, "status=pending", f"Filter {number}")
    await save(maria, store_url, "status=on_hold", "One more")
    assert maria.faults == {"name": f"You have {MOST_SAVED} saved filters. Remove one of them first."}
    await save(maria, store_url, "status=on_hold", "Filter 0")
    assert maria.notice == "Saved as “Filter 0”.", "it replaces the one of this name"
