"""Gives one store shards of its own, and moves them to a node of the operator's choice while the store is served."""

from collections.abc import Callable

import msgspec

from stoa.cluster.distribution import Step, connect_to_cluster, no_report, restore_planner_settings
from stoa.cluster.status import STORE_SHARD, StoreShard
from stoa.db.errors import PostgresError
from stoa.db.placement import CITUS_CATALOG, is_distributed
from stoa.db.query import Executor, Query

_OPERATOR = "an operator names the store by its handle"
_STORE = Query(int, "SELECT id FROM stores WHERE handle = $1", unbound=_OPERATOR)


class IsolationRefused(Exception):
    """The store cannot be moved; the message says what is missing."""


class _Node(msgspec.Struct):
    name: str
    worker: bool
    active: bool


_NODES = Query(
    _Node,
    """SELECT n.nodename || ':' || n.nodeport AS name, n.groupid <> 0 AS worker, n.isactive AND r.success AS active
         FROM pg_dist_node n JOIN run_command_on_all_nodes('SELECT 1', give_warning_for_connection_errors => true) r
              ON r.nodeid = n.nodeid
        WHERE n.noderole = 'primary' ORDER BY n.groupid""",
    unbound=CITUS_CATALOG,
)


class Isolation(msgspec.Struct):
    """What is asked: a store, and the node that it moves to; without a node it stays where it is, in shards of its own."""

    store: str
    node: str = ""


async def plan(url: str, asked: Isolation) -> list[Step]:
    """The steps that `isolate` would take now; empty if the store lives where it was asked to."""
    db = await connect_to_cluster(url, "stoa isolate")
    try:
        shard = await _check(db, asked)
        return [step for step, _ in _steps(asked, 0, shard)]
    finally:
        await db.close()


async def isolate(url: str, asked: Isolation, report: Callable[[Step], None] = no_report) -> list[Step]:
    """Take every step that is missing. A step that fails leaves those before it in place, and a new run continues."""
    db = await connect_to_cluster(url, "stoa isolate")
    try:
        shard = await _check(db, asked)
        store_id = await _STORE.one(db, asked.store)
        done: list[Step] = []
        while steps := _steps(asked, store_id, shard):
            step, statement = steps[0]
            try:
                await db.execute(statement)
            except PostgresError as error:
                raise IsolationRefused(
                    f"Citus did not {step.action}: {error}; nothing is lost, run it again"
                ) from error
            done.append(step)
            report(step)
            shard = await STORE_SHARD.one(db, store_id)
        if done:
            await restore_planner_settings(db)
        return done
    finally:
        await db.close()


def _steps(asked: Isolation, store_id: int, shard: StoreShard) -> list[tuple[Step, str]]:
    """The steps that are missing, each with its statement. The shard has another id after the first."""
    subject = f"store {asked.store}"
    steps: list[tuple[Step, str]] = []
    if not shard.own:
        # Citus 13.2 can also split while the rows are written to, but never ends if one of them is updated meanwhile.
        split = f"SELECT isolate_tenant_to_new_shard('row_counts', {store_id}::bigint, 'CASCADE', 'block_writes')"
        steps.append((Step(subject, "give it shards of its own"), split))
    if asked.node and asked.node != shard.node:
        source, target = (_address(node) for node in (shard.node, asked.node))
        move = f"SELECT citus_move_shard_placement({shard.id}, {source}, {target}, 'force_logical')"
        steps.append((Step(subject, f"move it from {shard.node} to {asked.node}"), move))
    return steps


def _address(node: str) -> str:
    """A node as the two arguments that Citus takes; the name is one that its catalog contains."""
    host, _, port = node.rpartition(":")
    return f"'{host}', {int(port)}"


async def _check(db: Executor, asked: Isolation) -> StoreShard:
    """Refuse what cannot work, with what to do; returns where the store lives."""
    if not await is_distributed(db):
        raise IsolationRefused("the database is not distributed; run `stoa db distribute` on the coordinator first")
    store_id = await _STORE.maybe(db, asked.store)
    if store_id is None:
        raise IsolationRefused(f"there is no store with the handle {asked.store}")
    nodes = {node.name: node for node in await _NODES.all(db)}
    workers = [node.name for node in nodes.values() if node.worker]
    if asked.node and asked.node not in workers:
        raise IsolationRefused(f"{asked.node} is no worker of this cluster; choose one of {', '.join(workers)}")
    away = [name for name, node in nodes.items() if not node.active]
    if away:
        raise IsolationRefused(f"{', '.join(away)} cannot be reached; every node must run while a store moves")
    return await STORE_SHARD.one(db, store_id)
