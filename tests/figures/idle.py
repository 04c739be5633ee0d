"""How often an idle service asks several nodes of a cluster, by the counters of Citus on the coordinator."""

import asyncio
from pathlib import Path

import click

from stoa.db.connection import connect
from tests.figures.cluster import distributed_database
from tests.support.service import Service

MOST_PER_S = 25  # of one service with its delivery and import workers
SETTLE_S = 5
_COUNTERS = """SELECT query_execution_single_shard, query_execution_multi_shard
                 FROM citus_stat_counters((SELECT oid FROM pg_database WHERE datname = current_database()))"""


async def look_for_work(folder: Path, seconds: float) -> bool:
    """Serve nothing for a while; returns whether the service asked all nodes at most at the stated rate."""
    url = await distributed_database("idle")
    db = await connect(url)
    await db.execute("SET citus.enable_stat_counters = on")
    name = (await db.fetch("SELECT current_database()"))[0][0]
    await db.execute(f'ALTER DATABASE "{name}" SET citus.enable_stat_counters = on')
    with Service(folder, database_url=url, workers=2, access_log=False) as service:
        await service.account("idle")
        await asyncio.sleep(SETTLE_S)
        [[one, several]] = await db.fetch(_COUNTERS)
        await asyncio.sleep(seconds)
        [[one_later, several_later]] = await db.fetch(_COUNTERS)
        clean = service.stop() == 0
    await db.close()
    rate = (several_later - several) / seconds
    click.echo(
        f"idle: {rate:.1f} statements a second asked all shards, {(one_later - one) / seconds:.1f} asked one; at most {MOST_PER_S}"
    )
    return clean and rate <= MOST_PER_S
