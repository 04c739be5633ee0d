"""Reading pages during concurrent writes: a row that exists throughout is seen exactly once, in any sort order."""

import asyncio
import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.shops import Shop

SORTS = st.sampled_from(
    ["id", "-id", "title", "-title", "price,title", "-price,-title", "price,-title", "-price,title"]
)
# Concurrent writes between two pages: create a note, delete one, or change its price.
DEEDS = st.lists(st.tuples(st.sampled_from(["write", "drop", "none"]), st.integers(0, 999)), max_size=3)
_runs = itertools.count()


@given(sort=SORTS, limit=st.integers(1, 7), first=st.integers(0, 14), deeds=st.lists(DEEDS, max_size=12))
async def test_each_row_is_seen_exactly_once_while_others_write(
    shop: Shop, sort: str, limit: int, first: int, deeds: list[list[tuple[str, int]]]
) -> None:
    run = next(_runs)
    await clear(shop)
    stays = [await write(shop, f"{n * 37 % 100:02}-stays-{run}-{n}", n * 31 % 5) for n in range(first)]
    comes_and_goes: list[int] = []
    seen: list[int] = []
    params: dict[str, Any] = {"sort": sort, "limit": limit}
    for step in itertools.count():
        page = (await shop.client.get("/notes", params=params)).json()
        seen += [note["id"] for note in page["data"]]
        for deed, number in deeds[step] if step < len(deeds) else []:
            if deed == "write":
                title = f"{number % 100:02}-new-{run}-{step}-{len(comes_and_goes)}"
                comes_and_goes.append(await write(shop, title, number % 5))
            elif deed == "drop" and comes_and_goes:
                await shop.client.delete(f"/notes/{comes_and_goes.pop(number % len(comes_and_goes))}")
        if page["meta"]["next_cursor"] is None:
            break
        assert page["data"], "a page that leads on is not empty"
        params = {"cursor": page["meta"]["next_cursor"]}
    assert len(seen) == len(set(seen)), "no row comes twice"
    assert set(stays) <= set(seen), "no row that stayed is missed"
    total = (await shop.client.get("/notes")).json()["meta"]["total"]
    assert total == len(stays) + len(comes_and_goes)


async def clear(shop: Shop) -> None:
    await shop.db.execute("DELETE FROM notes WHERE store_id = $1", shop.store_id)
    await shop.db.execute("DELETE FROM row_counts WHERE store_id = $1 AND resource = 'notes'", shop.store_id)


async def write(shop: Shop, title: str, price: int) -> int:
    answer = await shop.client.post("/notes", json={"title": title, "price": price})
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]["id"]


async def test_totals_stay_exact_under_concurrent_writes_and_folding(shop: Shop) -> None:
    from stoa.operations.maintenance import maintain

    async def writer(name: int) -> None:
        for n in range(15):
            note = await write(shop, f"{name}-{n}", 1)
            if n % 3 == 0:
                await shop.client.delete(f"/notes/{note}")

    async def folder() -> None:
        for _ in range(6):
            await maintain(shop.db)
            await asyncio.sleep(0.02)

    await asyncio.gather(*(writer(n) for n in range(5)), folder())
    await maintain(shop.db)
    page = (await shop.client.get("/notes", params={"limit": 250})).json()
    assert page["meta"]["total"] == len(page["data"]) == 50
    rows = await shop.db.fetch("SELECT count(*) FROM row_counts WHERE store_id = $1", shop.store_id)
    assert rows[0][0] <= 16


async def test_writes_fold_the_differences_before_them(shop: Shop) -> None:
    """Without maintenance, the rows of a total stay few, and every difference counts once."""
    deltas = [1 if n % 3 else -1 for n in range(400)]
    count = "SELECT count_rows($1, 'notes', $2)"
    await asyncio.gather(*(shop.db.fetch(count, shop.store_id, delta) for delta in deltas))
    total, rows = (
        await shop.db.fetch("SELECT sum(delta)::bigint, count(*) FROM row_counts WHERE store_id = $1", shop.store_id)
    )[0]
    assert total == sum(deltas)
    assert rows < 200
