"""Connections: the budget is checked at startup, and a server without further connections does not stop the service."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoa.app import Application
from stoa.db.connection import Connection, connect
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.migrate import migrate
from stoa.db.pool import Database
from stoa.operations.connection_budget import LIMITS, service_budget, worker_budget
from stoa.settings import Settings
from tests.support.service import Service, sibling
from tests.support.shops import open_shop

ROLE = "limited"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server on which the tests may create roles."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("limits") / "postgres", durable=False) as running:
        yield running


@pytest.fixture(scope="module")
async def template(server: EmbeddedPostgres) -> str:
    """The name of a migrated database, whose owner is a role without a limit."""
    db = await connect(server.dsn.replace("stoa@", "postgres@"))
    await db.execute(f"CREATE ROLE {ROLE} LOGIN")
    await db.execute(f"CREATE DATABASE template_of_{ROLE} OWNER {ROLE}")
    await db.close()
    await migrate(sibling(server.dsn, f"template_of_{ROLE}").replace("stoa@", f"{ROLE}@"))
    return f"template_of_{ROLE}"


@pytest.fixture
async def admin(server: EmbeddedPostgres, template: str) -> AsyncIterator[Connection]:
    """A superuser of a new database, whose owner is a role without a limit."""
    as_superuser = server.dsn.replace("stoa@", "postgres@")
    db = await connect(as_superuser)
    await db.execute(f"DROP DATABASE IF EXISTS {ROLE} WITH (FORCE)")
    await db.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT -1")
    await db.execute(f"CREATE DATABASE {ROLE} OWNER {ROLE} TEMPLATE {template}")
    await db.close()
    db = await connect(sibling(as_superuser, ROLE))
    yield db
    await db.close()


@pytest.fixture
def url(server: EmbeddedPostgres, admin: Connection) -> str:
    """The database as a role whose connections can be limited."""
    _ = admin
    return sibling(server.dsn, ROLE).replace("stoa@", f"{ROLE}@")


@pytest.mark.parametrize("limit", [20, 2])
@pytest.mark.long
async def test_orders_go_on_when_the_role_has_no_further_connection(
    url: str, admin: Connection, settings: Settings, limit: int
) -> None:
    settings = msgspec.structs.replace(settings, database_url=url, database_pool=10)
    opener = Database(url, size=1)
    applications = [Application(settings) for _ in range(3)]
    shops = [await open_shop(each, opener) for each in applications]
    variants = [{"name": "Mug", "price": "1.00", "sku": "MUG", "stock": {"on_hand": 1000}}]
    for shop in shops:
        await shop.add(*variants)
    await opener.close()
    # Each application has one connection already, so that none is left.
    others = [await connect(url) for _ in range(max(0, limit - 3))]
    await admin.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT {limit}")

    async def place(shop: Any) -> int:
        body = {"line_items": [{"sku": "MUG", "quantity": 1}]}
        return (await shop.client.post("/orders", json=body)).status_code

    for application, shop in zip(applications, shops, strict=True):
        assert set(await asyncio.gather(*(place(shop) for _ in range(20)))) == {201}
        [[numbers]] = await admin.fetch(
            "SELECT array_agg(number ORDER BY number) FROM orders WHERE store_id = $1", shop.store_id
        )
        assert len(numbers) == len(set(numbers)) == 20
        await shop.client.aclose()
        await application.close()
    for each in others:
        await each.close()


async def test_a_pool_works_with_fewer_connections_and_grows_again(
    url: str, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await admin.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT 2")
    pool = Database(url, size=5)
    rows = await asyncio.gather(*(pool.fetch("SELECT pg_sleep(0.05)") for _ in range(15)))
    assert len(rows) == 15
    assert (pool.in_use, len(pool.line)) == (0, 0)
    assert 1 <= pool.idle <= 2, "the server also counts a connection that it is about to refuse"
    assert pool.errors["53"] >= 1
    assert pool.line.waits >= 10
    assert pool.line.wait_s > 0
    await admin.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT -1")
    monkeypatch.setattr(pool, "_full_until", 0.0)
    await asyncio.gather(*(pool.fetch("SELECT pg_sleep(0.05)") for _ in range(15)))
    assert pool.idle == 5
    await pool.close()


async def test_a_budget_that_the_role_does_not_allow_is_refused_with_the_arithmetic(
    url: str, admin: Connection, tmp_path: Path
) -> None:
    await admin.execute(f"ALTER ROLE {ROLE} CONNECTION LIMIT 20")
    done = Service(tmp_path, database_url=url).run("serve")
    assert done.returncode == 2, done.stderr
    [line] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "24 (2 web workers with a pool of 10 and 2 others each) + 12 (one more web worker during a reload)" in line
    assert "+ 13 (deliveries) + 6 (imports) + 3 (commands) = 58" in line
    assert "only 20 are allowed (the role's CONNECTION LIMIT is 20)" in line


async def test_a_service_opens_no_more_connections_than_its_budget(url: str, admin: Connection, tmp_path: Path) -> None:
    with Service(tmp_path, database_url=url, workers=1, database_pool=2) as service:
        account = await service.account("counted")

        async def call(_: int) -> int:
            async with account.client() as client:
                return (await client.post("/products", json={"name": "Mug", "price": "1.00"})).status_code

        await asyncio.gather(*(call(n) for n in range(30)))
        names = "SELECT application_name, count(*) FROM pg_stat_activity WHERE usename = $1 GROUP BY 1"
        counts: dict[str, int] = {}
        while not {"stoa", "stoa imports", "stoa deliveries", "stoa deliveries, listening"} <= set(counts):
            counts = {str(row[0]): int(row[1]) for row in await admin.fetch(names, ROLE)}
    allowed = service_budget(Settings(workers=1, database_pool=2))
    assert counts["stoa"] <= 2 + 2
    assert counts["stoa deliveries"] + counts["stoa deliveries, listening"] <= 12
    assert counts["stoa imports"] <= 6
    assert sum(counts.values()) <= allowed.total


async def test_the_lowest_limit_counts(url: str, admin: Connection) -> None:
    db = Database(url, size=1)
    free = await LIMITS.one(db)
    assert free.available == free.max_connections - free.reserved
    await admin.execute(f"ALTER DATABASE {ROLE} CONNECTION LIMIT 7")
    limited = await LIMITS.one(db)
    assert (limited.available, limited.source) == (7, "the database's CONNECTION LIMIT is 7")
    await db.close()
    assert worker_budget().total == 19
