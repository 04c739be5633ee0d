"""Decides which stores move so that the shards hold and serve about the same: by the size of the stores, and by their requests."""

from collections.abc import Sequence

import msgspec

from stoa.db.query import Executor, Query

_ALL_STORES = "an operator balances all stores"
_TOLERANCE = 0.1  # of the average weight of a shard: what is closer is balanced


class StoreLoad(msgspec.Struct):
    """A store in a shard: the products, orders and customers that it has, and the requests of the last day."""

    store_id: int
    rows: int
    requests: int


class Placed(msgspec.Struct):
    """A store with its shard and its weight: its share of all rows plus its share of all requests."""

    store: str
    shard: str
    weight: float


class PlannedMove(msgspec.Struct):
    store: str
    source: str
    target: str


LOADS = Query(
    StoreLoad,
    """SELECT store_id, coalesce(sum(r.rows), 0)::bigint AS rows, coalesce(sum(r.requests), 0)::bigint AS requests
         FROM (SELECT store_id, delta AS rows, 0::bigint AS requests FROM row_counts
               UNION ALL
               SELECT store_id, 0, requests FROM usage_hours WHERE hour > now() - interval '1 day') r
        GROUP BY store_id""",
    unbound=_ALL_STORES,
    over="shards",
)


class StoreInShard(msgspec.Struct):
    id: int
    handle: str
    shard: str


STORES = Query(StoreInShard, "SELECT id, handle, shard FROM stores ORDER BY id", unbound=_ALL_STORES)


async def loads_of(shard: Executor) -> dict[int, StoreLoad]:
    """What the stores of one database weigh; rows that an earlier move left behind count for nobody."""
    return {load.store_id: load for load in await LOADS.all(shard)}


def weigh(stores: Sequence[StoreInShard], loads: dict[str, dict[int, StoreLoad]]) -> list[Placed]:
    """Every store with its weight. A store without rows and requests weighs a little, because it will not stay empty."""
    found = [(store, loads.get(store.shard, {}).get(store.id, StoreLoad(store.id, 0, 0))) for store in stores]
    rows = sum(load.rows for _, load in found) or 1
    requests = sum(load.requests for _, load in found) or 1
    least = 0.01 / max(len(found), 1)
    return [
        Placed(store.handle, store.shard, load.rows / rows + load.requests / requests + least) for store, load in found
    ]


def emptiest(weights: dict[str, float]) -> str:
    """The shard with the least weight; of several, the first by name."""
    return min(weights, key=lambda name: (weights[name], name))


def weights_of(placed: Sequence[Placed], shards: Sequence[str]) -> dict[str, float]:
    return {name: sum(store.weight for store in placed if store.shard == name) for name in shards}


def plan_balance(placed: Sequence[Placed], shards: Sequence[str]) -> list[PlannedMove]:
    """The moves after which no shard differs much from the others; each takes a store from the fullest to the emptiest."""
    where = {store.store: store for store in placed if store.shard in shards}
    weights = weights_of(placed, shards)
    most = _TOLERANCE * sum(weights.values()) / max(len(shards), 1)
    moves: list[PlannedMove] = []
    while len(moves) < len(where):
        full, empty = max(weights, key=lambda name: (weights[name], name)), emptiest(weights)
        gap = weights[full] - weights[empty]
        moved = {move.store for move in moves}
        # A store that weighs more than the gap would only swap the two shards, and one that has moved does not move again.
        fitting = [s for s in where.values() if s.shard == full and s.weight < gap and s.store not in moved]
        if gap <= most or not fitting:
            break
        best = min(fitting, key=lambda store: (abs(gap / 2 - store.weight), store.store))
        moves.append(PlannedMove(best.store, full, empty))
        weights[full] -= best.weight
        weights[empty] += best.weight
    return moves


def plan_drain(placed: Sequence[Placed], name: str, others: Sequence[str]) -> list[PlannedMove]:
    """The moves that empty a shard: the heaviest store first, each to the shard that is the emptiest by then."""
    weights = weights_of(placed, others)
    moves: list[PlannedMove] = []
    for store in sorted((s for s in placed if s.shard == name), key=lambda store: (-store.weight, store.store)):
        moves.append(PlannedMove(store.store, name, emptiest(weights)))
        weights[moves[-1].target] += store.weight
    return moves
