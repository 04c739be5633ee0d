"""Concurrent calls with idempotency keys: each key has one effect under any interleaving."""

import asyncio
import itertools

from hypothesis import given
from hypothesis import strategies as st
from tests.support.shops import Shop

_runs = itertools.count()


@given(calls=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=14))
async def test_concurrent_calls_have_one_effect_for_each_key(shop: Shop, calls: list[tuple[int, int]]) -> None:
    """Each call chooses a key and one of two bodies; a key belongs to the first body."""
    run = next(_runs)
    before = (await shop.client.get("/notes")).json()["meta"]["total"]

    async def call(key: int, body: int) -> tuple[int, int, int, str]:
        note = {"title": f"{run}-{key}-{body}", "price": "1.00"}
        while True:
            answer = await shop.client.post("/notes", json=note, headers={"idempotency-key": f"{run}-{key}"})
            if answer.status_code == 409 and answer.json()["code"] == "idempotency_in_progress":
                await asyncio.sleep(0.005)
                continue
            return key, body, answer.status_code, answer.text

    answers = await asyncio.gather(*(call(key, body) for key, body in calls))
    keys = {key for key, _ in calls}
    for key in keys:
        mine = [(body, status, text) for k, body, status, text in answers if k == key]
        won = {(body, text) for body, status, text in mine if status == 201}
        assert len(won) == 1, "one body won, and all who sent it got the same answer"
        winner = next(iter(won))[0]
        assert all(status == (201 if body == winner else 422) for body, status, _ in mine)
    after = (await shop.client.get("/notes")).json()["meta"]["total"]
    assert after - before == len(keys)
