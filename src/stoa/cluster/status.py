"""What lives where: the nodes of the cluster with their shards and sizes, the largest tables and the largest stores."""

import msgspec

from stoa.db.migrate import version
from stoa.db.placement import CITUS_CATALOG, is_distributed
from stoa.db.query import Executor, Query

_OVERVIEW = "an operator looks at the whole database"
_LARGEST = 10


class StatusRefused(Exception):
    """The database has nothing to show."""


class Node(msgspec.Struct):
    """A node; `shards` and `bytes` count what it holds of distributed and reference tables."""

    node: str
    role: str
    active: bool
    shards: int
    bytes: int


class TableSize(msgspec.Struct):
    table: str
    placement: str
    shards: int
    bytes: int


class StoreSize(msgspec.Struct):
    """A store by the exact totals of its lists, the node that holds it, and whether it has shards of its own there."""

    store: str
    node: str
    own_shards: bool
    products: int
    orders: int
    customers: int


class Status(msgspec.Struct):
    distributed: bool
    nodes: list[Node]
    tables: list[TableSize]
    stores: list[StoreSize]


_NODES = Query(
    Node,
    """SELECT n.nodename || ':' || n.nodeport AS node,
              CASE WHEN n.groupid = 0 THEN 'coordinator' WHEN n.shouldhaveshards THEN 'worker' ELSE 'worker, draining' END AS role,
              n.isactive AS active, coalesce(s.shards, 0) AS shards, coalesce(s.bytes, 0)::bigint AS bytes
         FROM pg_dist_node n LEFT JOIN (
              SELECT nodename, nodeport, count(*) AS shards, sum(shard_size) AS bytes FROM citus_shards GROUP BY 1, 2) s
              ON s.nodename = n.nodename AND s.nodeport = n.nodeport
        WHERE n.noderole = 'primary' ORDER BY n.groupid""",
    unbound=CITUS_CATALOG,
)
_ONE_NODE = Query(
    Node,
    """SELECT coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'local socket') AS node, 'single server' AS role,
              true AS active, 0::bigint AS shards, pg_database_size(current_database()) AS bytes""",
    unbound=_OVERVIEW,
)
_DISTRIBUTED_TABLES = Query(
    TableSize,
    """SELECT coalesce(p.inhparent, s.table_name)::regclass::text AS table,
              CASE s.citus_table_type WHEN 'distributed' THEN 'store' WHEN 'reference' THEN 'global' ELSE 'local' END AS placement,
              count(DISTINCT s.shardid) AS shards, sum(s.shard_size)::bigint AS bytes
         FROM citus_shards s LEFT JOIN pg_inherits p ON p.inhrelid = s.table_name
        GROUP BY 1, 2 ORDER BY bytes DESC, 1 LIMIT $1""",
    unbound=CITUS_CATALOG,
)
_TABLES = Query(
    TableSize,
    """SELECT t.name AS table, coalesce(obj_description(t.id, 'pg_class'), '') AS placement, 0::bigint AS shards,
              sum(pg_total_relation_size(t.part))::bigint AS bytes
         FROM (SELECT coalesce(i.inhparent, c.oid) AS id, coalesce(i.inhparent, c.oid)::regclass::text AS name, c.oid AS part
                 FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
                WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace) t
        GROUP BY t.id, t.name ORDER BY bytes DESC, 1 LIMIT $1""",
    unbound=_OVERVIEW,
)


class _Totals(msgspec.Struct):
    store_id: int
    products: int
    orders: int
    customers: int


_TOTALS = Query(
    _Totals,
    """SELECT store_id, coalesce(sum(delta) FILTER (WHERE resource = 'products'), 0)::bigint AS products,
              coalesce(sum(delta) FILTER (WHERE resource = 'orders'), 0)::bigint AS orders,
              coalesce(sum(delta) FILTER (WHERE resource = 'customers'), 0)::bigint AS customers
         FROM row_counts GROUP BY store_id ORDER BY sum(delta) DESC, store_id LIMIT $1""",
    unbound=_OVERVIEW,
    over="shard",
)
_HANDLE = Query(str, "SELECT handle FROM stores WHERE id = $1", unbound=_OVERVIEW)


class StoreShard(msgspec.Struct):
    """The shard that holds a store, and its node; all tables of the store are in shards beside it."""

    id: int
    node: str
    own: bool


STORE_SHARD = Query(
    StoreShard,
    """SELECT s.shardid AS id, p.nodename || ':' || p.nodeport AS node, s.shardminvalue = s.shardmaxvalue AS own
         FROM pg_dist_shard s JOIN pg_dist_shard_placement p ON p.shardid = s.shardid
        WHERE s.shardid = get_shard_id_for_distribution_column('row_counts', $1::bigint)""",
    unbound=CITUS_CATALOG,
)


async def read_status(db: Executor) -> Status:
    """Read the state of the database; on a single server there is one node without shards."""
    if not await version(db):
        raise StatusRefused("the database has no schema; run `stoa migrate` first")
    distributed = await is_distributed(db)
    stores: list[StoreSize] = []
    for totals in await _TOTALS.all(db, _LARGEST):
        handle = await _HANDLE.maybe(db, totals.store_id)
        shard = await STORE_SHARD.one(db, totals.store_id) if distributed else StoreShard(0, "", own=False)
        counts = (totals.products, totals.orders, totals.customers)
        stores.append(StoreSize(handle or "", shard.node, shard.own, *counts))
    return Status(
        distributed,
        await (_NODES if distributed else _ONE_NODE).all(db),
        await (_DISTRIBUTED_TABLES if distributed else _TABLES).all(db, _LARGEST),
        stores,
    )
