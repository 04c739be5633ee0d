"""Stores are spread by their rows and requests: few moves, no store twice, and a drained shard is empty."""

from hypothesis import given
from hypothesis import strategies as st

from stoa.shards.balance import Placed, StoreInShard, StoreLoad, plan_balance, plan_drain, weigh, weights_of

SHARDS = ["", "east", "west"]
PLACED = st.lists(st.tuples(st.sampled_from(SHARDS), st.floats(0.001, 1.0)), max_size=30).map(
    lambda stores: [Placed(f"s{n}", shard, weight) for n, (shard, weight) in enumerate(stores)]
)


def after(placed: list[Placed], moves: list[tuple[str, str]]) -> dict[str, float]:
    where = {store.store: store.shard for store in placed} | dict(moves)
    return weights_of([Placed(store.store, where[store.store], store.weight) for store in placed], SHARDS)


def test_a_store_weighs_its_share_of_rows_and_of_requests() -> None:
    stores = [StoreInShard(1, "large", ""), StoreInShard(2, "busy", "east"), StoreInShard(3, "new", "east")]
    loads = {"": {1: StoreLoad(1, 900, 0), 2: StoreLoad(2, 5_000, 5_000)}, "east": {2: StoreLoad(2, 100, 50)}}
    weights = {store.store: round(store.weight, 1) for store in weigh(stores, loads)}
    assert weights == {"large": 0.9, "busy": 1.1, "new": 0.0}  # rows that a move left behind count for nobody


def test_the_stores_of_one_database_are_spread_over_new_shards() -> None:
    placed = [Placed(f"s{n}", "", 1.0) for n in range(9)]
    moves = plan_balance(placed, SHARDS)
    assert len(moves) == 6
    assert set(after(placed, [(move.store, move.target) for move in moves]).values()) == {3.0}


def test_one_large_store_does_not_wander() -> None:
    assert plan_balance([Placed("large", "", 5.0), Placed("small", "east", 0.1)], SHARDS) == []


@given(PLACED)
def test_a_balance_never_makes_it_worse(placed: list[Placed]) -> None:
    moves = plan_balance(placed, SHARDS)
    assert len({move.store for move in moves}) == len(moves)
    before, balanced = weights_of(placed, SHARDS), after(placed, [(move.store, move.target) for move in moves])
    assert max(balanced.values()) <= max(before.values()) + 1e-9
    assert min(balanced.values()) >= min(before.values()) - 1e-9


@given(PLACED)
def test_a_drained_shard_has_no_stores(placed: list[Placed]) -> None:
    moves = plan_drain(placed, "east", ["", "west"])
    assert {move.store for move in moves} == {store.store for store in placed if store.shard == "east"}
    assert {move.target for move in moves} <= {"", "west"}
