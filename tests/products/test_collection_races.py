"""Rules that change while products are written, workers that run at once, and workers that die."""

import asyncio
import json

import pytest
from tests.products.test_collections import create, listed, shown
from tests.support.races import rolled_back
from tests.support.shops import MUG, Shop

from stoa.db.query import Executor
from stoa.events.outbox import Cause
from stoa.products import collection_changes as changes
from stoa.products import collection_queries as queries
from stoa.products.collection_rollout import apply_collections
from stoa.products.queries import COLLECTIONS_IN_FORCE
from stoa.products.save import load, save


@pytest.fixture(autouse=True)
async def _no_other_store_waits(shop: Shop) -> None:  # pyright: ignore[reportUnusedFunction]
    """Stores of earlier tests share the database."""
    await apply_collections(shop.db)


async def retag(db: Executor, shop: Shop, product_id: int, tags: list[str]) -> None:
    [product] = await load(db, shop.store_id, ids=[product_id])
    product.set_fields(tags=tags)
    await save(db, shop.store_id, [product], Cause(shop.app_id, "req_tests"))


async def test_a_product_that_was_written_by_earlier_rules_is_corrected_after_its_commit(shop: Shop) -> None:
    [mug] = await shop.add(MUG)
    async with shop.db.transaction() as db:
        await retag(db, shop, mug, ["linen"])  # by the rules of now: none
        await create(shop, "linen", ("tag", "linen"))  # waits for nobody
        assert await apply_collections(shop.db) == 0
        assert not await queries.IS_APPLIED.one(shop.db, shop.store_id), "the scan begins after the writer's commit"
    assert await shown(shop, mug) == []
    assert await apply_collections(shop.db) == 1
    assert await shown(shop, mug) == [("linen", None, True)]


async def test_a_product_that_is_written_after_a_change_of_the_rules_is_in_its_collections_at_once(shop: Shop) -> None:
    await create(shop, "linen", ("tag", "linen"))
    [mug] = await shop.add({**MUG, "tags": ["linen"]})
    assert await shown(shop, mug) == [("linen", None, True)]


async def test_a_change_of_the_rules_in_the_middle_of_a_scan_begins_it_again(shop: Shop) -> None:
    ids = await shop.add(*({**MUG, "sku": f"M-{n}", "tags": ["a"] if n < 3 else ["b"]} for n in range(6)))
    await create(shop, "picks", ("tag", "b"))
    async with rolled_back(shop.db) as db:
        [[_]] = await db.fetch("SELECT applied FROM collection_scans WHERE store_id = $1 FOR UPDATE", shop.store_id)
        assert await apply_collections(shop.db) == 0, "another worker has the store"
    await shop.db.execute(
        "UPDATE collection_scans SET scanning = 1, reached = $2 WHERE store_id = $1", shop.store_id, ids[3]
    )
    await changes.update_collection(shop.local_operator, shop.store.handle, "picks", rules=[("tag", "a")])
    assert await apply_collections(shop.db, batch=2) == 3
    assert await listed(shop, collection="picks") == ids[:3]


async def test_a_scan_continues_behind_the_last_committed_batch(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    await shop.add(*({**MUG, "sku": f"M-{n}", "tags": ["a"]} for n in range(5)))
    await create(shop, "picks", ("tag", "a"))
    turns = 0

    async def die(_: float) -> None:
        nonlocal turns
        turns += 1
        if turns == 2:
            raise asyncio.CancelledError

    monkeypatch.setattr("stoa.products.collection_rollout.asyncio.sleep", die)
    with pytest.raises(asyncio.CancelledError):
        await apply_collections(shop.db, batch=2)
    assert len(await listed(shop, collection="picks")) == 4
    assert await apply_collections(shop.db, batch=2) == 1


async def test_members_fulfill_the_rules_that_change_while_products_are_written(shop: Shop) -> None:
    ids = await shop.add(*({**MUG, "sku": f"M-{n}", "tags": ["a"]} for n in range(8)))
    await create(shop, "picks", ("tag", "a"))
    done = asyncio.Event()

    async def write() -> None:
        for round_ in range(6):
            answers = await asyncio.gather(
                *(
                    shop.client.patch(f"/products/{each}", json={"tags": ["ab"[(n + round_) % 2]]})
                    for n, each in enumerate(ids)
                )
            )
            assert [answer.status_code for answer in answers] == [200] * len(ids)

    async def rule() -> None:
        for round_ in range(8):
            tag = "ab"[round_ % 2]
            await changes.update_collection(shop.local_operator, shop.store.handle, "picks", rules=[("tag", tag)])
            await asyncio.sleep(0)

    async def scan() -> None:
        while not done.is_set():
            await apply_collections(shop.db, batch=3)
            await asyncio.sleep(0)

    scans = [asyncio.create_task(scan()) for _ in range(2)]
    await asyncio.gather(write(), rule())
    done.set()
    await asyncio.gather(*scans)
    await apply_collections(shop.db)
    assert await queries.IS_APPLIED.one(shop.db, shop.store_id)
    products = (await shop.client.get("/products")).json()["data"]
    [collection] = await changes.list_collections(shop.local_operator, shop.store.handle)
    wanted = [each["id"] for each in products if collection.rules[0].value in each["tags"]]
    assert await listed(shop, collection="picks") == wanted


async def test_a_store_with_very_many_products_does_not_delay_another(shop: Shop, other_shop: Shop) -> None:
    for each, count in ((shop, 9), (other_shop, 1)):
        await each.add(*({**MUG, "sku": f"M-{n}", "tags": ["a"]} for n in range(count)))
        await create(each, "picks", ("tag", "a"))
    order: list[int] = []
    rows = "SELECT store_id FROM collection_scans WHERE applied < 1 AND store_id = ANY ($1)"
    both = [shop.store_id, other_shop.store_id]

    async def watch() -> None:
        while waiting := [row[0] for row in await shop.db.fetch(rows, both)]:
            order.append(len(waiting))
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await apply_collections(shop.db, batch=1)
    await watching
    assert len(await listed(shop, collection="picks")) == 9
    assert order[-1] == 1, "the small store was done before the large one"


class Counted:
    """Counts how often the rules are read."""

    def __init__(self) -> None:
        self.times = 0

    async def one(self, db: Executor, store_id: int) -> str:
        self.times += 1
        return await COLLECTIONS_IN_FORCE.one(db, store_id)


async def test_only_stores_with_rules_read_them(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Counted()
    monkeypatch.setattr("stoa.products.save.queries.COLLECTIONS_IN_FORCE", reads)
    await create(shop, "gifts")
    [mug] = await shop.add({**MUG, "tags": ["a"]})

    async def write(name: str) -> int:
        before = reads.times
        assert (await shop.client.patch(f"/products/{mug}", json={"name": name})).status_code == 200
        return reads.times - before

    assert (await write("One"), reads.times) == (0, 0), "the store has no rules"
    await create(shop, "picks", ("tag", "a"))
    assert (await write("Two"), await shown(shop, mug)) == (1, [("picks", None, True)]), "the rule applies at once"
    assert await write("Three") == 1
    await changes.delete_collection(shop.local_operator, shop.store.handle, "picks")
    await apply_collections(shop.db)
    await write("Four")
    assert (await write("Five"), await shown(shop, mug)) == (0, [])


async def test_the_first_rule_is_created_while_products_are_written(shop: Shop) -> None:
    tagged = [{**MUG, "sku": f"M-{n}", "tags": ["a"]} for n in range(12)]
    first = asyncio.gather(*(shop.client.post("/products", json=each) for each in tagged[:6]))
    await asyncio.gather(create(shop, "picks", ("tag", "a")), apply_collections(shop.db))
    later = await asyncio.gather(*(shop.client.post("/products", json=each) for each in tagged[6:]))
    assert {each.status_code for each in [*await first, *later]} == {201}
    while not await queries.IS_APPLIED.one(shop.db, shop.store_id):
        await apply_collections(shop.db)
    assert len(await listed(shop, collection="picks")) == 12


async def test_a_write_of_the_previous_release_is_corrected(shop: Shop) -> None:
    await create(shop, "picks", ("tag", "a"))
    await create(shop, "gifts")
    [mug] = await shop.add({**MUG, "tags": ["a"], "collections": [{"handle": "gifts", "position": 4}]})
    await apply_collections(shop.db)
    [[head]] = await shop.db.fetch("SELECT head FROM products WHERE store_id = $1 AND id = $2", shop.store_id, mug)
    untagged = head.replace('"tags":["a"]', '"tags":[]')
    assert untagged != head
    row = (
        '[{"index":1,"id":%d,"slug":"mug","name":"Mug","status":"active","price":1,"on_hand":0,"reserved":0,'
        '"in_stock":false,"deleted":false,"terms":"","head":%s}]'
    )
    await shop.db.fetch(
        "SELECT product_ids FROM save_products($1, '{}', 'req', $2::json, '[]', '[]', '[]')",
        shop.store_id,
        row % (mug, json.dumps(untagged)),
    )
    assert await listed(shop, collection="gifts", sort="position") == [mug], "the old release keeps the member"
    assert await apply_collections(shop.db) == 1
    assert await shown(shop, mug) == [("gifts", 4, False)]
    assert await listed(shop, collection="picks") == []
