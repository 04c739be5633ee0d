"""A distributed database for a figure, and the stores on it."""

import os
from collections.abc import Sequence

import click

from stoa.cluster.distribution import distribute
from stoa.db.connection import connect
from stoa.db.migrate import migrate
from tests.support.databases import CLUSTER, new_database, on_cluster

SHARDS = 16


async def distributed_database(name: str, *, spare: Sequence[tuple[str, int]] = ()) -> str:
    """A migrated and distributed database on the cluster that TEST_CITUS_URL names."""
    if not on_cluster():
        raise click.ClickException(f"set {CLUSTER} to a database on the coordinator whose workers are registered")
    url = await new_database(f"figure_{name}_{os.getpid()}", spare=spare)
    await migrate(url)
    await distribute(url, shards=SHARDS)
    return url


async def shards_by_node(url: str) -> dict[str, int]:
    """The number of shards of the table of orders on each worker."""
    db = await connect(url)
    try:
        rows = await db.fetch(
            """SELECT n.nodename || ':' || n.nodeport, count(p.shardid)
                 FROM pg_dist_node n LEFT JOIN pg_dist_shard_placement p ON p.nodename = n.nodename AND p.nodeport = n.nodeport
                  AND p.shardid IN (SELECT shardid FROM pg_dist_shard WHERE logicalrelid = 'orders'::regclass)
                WHERE n.groupid <> 0 GROUP BY n.groupid, 1 ORDER BY n.groupid"""
        )
        return {row[0]: row[1] for row in rows}
    finally:
        await db.close()
