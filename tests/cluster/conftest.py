"""A cluster whose second worker can be made unreachable."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from tests.fault.proxy import Proxy
from tests.support.databases import SHARDS, at_node, new_database, on_cluster
from tests.support.shops import Shop, open_shop

from stoa.app import Application
from stoa.cluster.distribution import distribute
from stoa.cluster.status import STORE_SHARD
from stoa.db.connection import connect
from stoa.db.migrate import migrate
from stoa.db.pool import Database
from stoa.settings import Settings, load

needs_cluster = pytest.mark.skipif(not on_cluster(), reason="needs a Citus cluster: set TEST_CITUS_URL")


@dataclass
class Cluster:
    """A distributed database whose second worker is reached through a proxy, and an application on it."""

    url: str
    db: Database
    application: Application
    proxy: Proxy
    workers: list[str]

    async def shop_on(self, worker: str) -> Shop:
        """A new store that lives on this worker."""
        while True:
            shop = await open_shop(self.application, self.db)
            if (await STORE_SHARD.one(self.db, shop.store_id)).node == worker:
                return shop
            await shop.client.aclose()


@pytest.fixture
async def cluster(settings: Settings) -> AsyncIterator[Cluster]:
    url = await new_database(f"test_nodes_{os.getpid()}")
    await migrate(url)
    await distribute(url, shards=SHARDS)
    admin = await connect(url, statement_timeout_ms=0)
    nodes = await admin.fetch("SELECT nodeid, nodename, nodeport FROM pg_dist_node WHERE groupid <> 0 ORDER BY groupid")
    (_, first, first_port), (node_id, host, port), *_ = nodes
    async with Proxy(at_node(url, host, port)) as proxy:
        await admin.fetch("SELECT citus_update_node($1, '127.0.0.1', $2)", node_id, proxy.port)
        db = Database(url, size=4)
        application = Application(
            load({}, database_url=url, secret_key=settings.secret_key, log_level="error", metrics="off")
        )
        yield Cluster(url, db, application, proxy, [f"{first}:{first_port}", f"127.0.0.1:{proxy.port}"])
        await application.close()
        await db.close()
        # Otherwise the maintenance of Citus would go on asking the proxy.
        await admin.fetch("SELECT citus_update_node($1, $2, $3)", node_id, host, port)
        await admin.close()
