"""`stoa db distribute`: it places every table as its comment declares, refuses what cannot work, and can be run again."""

import io
import os
import re
from collections.abc import AsyncIterator

import pytest
from tests.cluster.conftest import needs_cluster
from tests.conftest import SECRET_KEY
from tests.support.databases import SHARDS, new_database

from stoa.backup.archive import BackupRefused
from stoa.backup.saving import save
from stoa.cluster import distribution
from stoa.cluster.distribution import DistributionRefused, distribute, plan
from stoa.cluster.status import StatusRefused, read_status
from stoa.db import migrate as migrations
from stoa.db import migration_plan, placement
from stoa.db.connection import Connection, connect
from stoa.db.migrate import Function, Migration, functions, migrate
from stoa.db.placement import PlacementRefused, Table, is_distributed, misplaced, placing
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.db.shards import Shard
from stoa.settings import load

NO_SHARDS = Query(
    Shard, "SELECT 1::bigint AS id, '' AS name, ''::bytea AS url, '' AS state WHERE false", unbound="it reads no table"
)
on_one_server = pytest.mark.not_on_cluster("it concerns a server without Citus")
PROBE = Migration(
    9999,
    "probe",
    """CREATE TABLE probes (store_id bigint NOT NULL, id bigint NOT NULL, CONSTRAINT probes_pkey PRIMARY KEY (store_id, id));
COMMENT ON TABLE probes IS 'store';
ALTER TABLE products ADD COLUMN probe text;
CREATE INDEX products_probe_idx ON products (store_id, probe);""",
)


@pytest.fixture
async def url() -> str:
    return await new_database(f"test_distribution_{os.getpid()}")


@pytest.fixture
async def migrated(url: str) -> AsyncIterator[Connection]:
    await migrate(url)
    db = await connect(url, statement_timeout_ms=60_000, name="the test")
    yield db
    await db.close()


def test_a_table_of_a_store_is_logged_before_it_is_distributed() -> None:
    """An unlogged table cannot be replicated, so its shards could not be moved while they are used."""
    table = Table("buckets", "store", "local", unlogged=True, after=[])
    logged, placed = placing(table, "products")
    assert logged == "ALTER TABLE buckets SET LOGGED"
    assert placed == "SELECT create_distributed_table('buckets', 'store_id', colocate_with => 'products')"


def test_the_rows_of_a_table_without_a_key_identify_themselves() -> None:
    """Otherwise its shards could not be moved while they are written to."""
    table = Table("notes", "store", "local", unlogged=False, after=[], keyless=True)
    assert placing(table, "products")[0] == "ALTER TABLE notes REPLICA IDENTITY FULL"


@pytest.mark.parametrize(("placed", "declared"), [("store", "local"), ("store", "global"), ("global", "store")])
async def test_only_a_global_table_becomes_local(
    monkeypatch: pytest.MonkeyPatch, db: Database, placed: str, declared: str
) -> None:
    class Found:
        async def all(self, _: object) -> list[Table]:
            return [Table("notes", declared, placed, unlogged=False, after=[])]

    monkeypatch.setattr(placement, "TABLES", Found())
    with pytest.raises(PlacementRefused, match=f"placed as {placed}, but declares {declared}"):
        await misplaced(db)


def test_one_function_is_added_on_a_cluster_and_the_others_have_the_names_of_the_plain_ones() -> None:
    on_cluster = {function.name for function in functions(distributed=True)}
    assert on_cluster == {function.name for function in functions()} | {"reached_stores"}


def test_no_function_of_a_cluster_is_planned_without_its_store() -> None:
    assert [each.name for each in functions(distributed=True) if "force_generic_plan" in each.sql] == []


@on_one_server
async def test_a_server_without_citus_is_refused(url: str) -> None:
    await migrate(url)
    for attempt in (plan, distribute):
        with pytest.raises(DistributionRefused, match="CREATE EXTENSION citus"):
            await attempt(url)


async def test_the_status_of_an_empty_database_is_refused(url: str) -> None:
    db = Database(url, size=1)
    with pytest.raises(StatusRefused, match="stoa migrate"):
        await read_status(db)
    await db.close()


@on_one_server
async def test_the_status_of_one_server_has_one_node(db: Database) -> None:
    found = await read_status(db)
    assert not found.distributed
    assert [node.role for node in found.nodes] == ["single server"]
    assert {table.placement for table in found.tables} <= {"store", "global", "local"}


@needs_cluster
async def test_a_database_that_was_not_migrated_is_refused(url: str) -> None:
    with pytest.raises(DistributionRefused, match="stoa migrate"):
        await distribute(url)


@needs_cluster
async def test_a_cluster_without_workers_is_refused(url: str, migrated: Connection) -> None:
    for host, port in await migrated.fetch("SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0"):
        await migrated.execute(f"SELECT citus_remove_node('{host}', {port})")
    with pytest.raises(DistributionRefused, match="citus_add_node"):
        await plan(url)


@needs_cluster
async def test_an_old_citus_is_refused(url: str, migrated: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "OLDEST_CITUS", (99, 0))
    with pytest.raises(DistributionRefused, match=r"Stoa needs 99\.0"):
        await plan(url)


@needs_cluster
async def test_a_running_service_is_refused(url: str, migrated: Connection) -> None:
    service = await connect(url, name="stoa")
    with pytest.raises(DistributionRefused, match="stop the service"):
        await distribute(url)
    await service.close()


@needs_cluster
async def test_a_table_without_a_placement_is_refused(url: str, migrated: Connection) -> None:
    await migrated.execute("CREATE TABLE strays (id bigint)")
    with pytest.raises(PlacementRefused, match="strays"):
        await plan(url)


@needs_cluster
async def test_a_filled_database_is_distributed_once_and_keeps_its_rows(url: str, migrated: Connection) -> None:
    await migrated.execute(
        """INSERT INTO stores (handle, name, currency) SELECT 'store-' || n, 'A store', 'USD' FROM generate_series(1, 20) AS n;
           INSERT INTO customers (store_id, status, digits, head, shown, terms)
           SELECT s.id, 'active', 2, '', '', '' FROM stores s, generate_series(1, 10);
           INSERT INTO orders (store_id, number, status, payment_status, fulfillment_status, customer_id, total, placed_at,
                               basket, created_at, updated_at, head, lines, person, terms)
           SELECT c.store_id, c.id, 'pending', 'unpaid', 'unfulfilled', c.id, 1, now(), '', now(), now(), '', '', '', ''
             FROM customers c"""
    )
    expected = await plan(url)
    assert {"table orders", "table stores", "function place_orders"} <= {step.subject for step in expected}
    await distribute(url, shards=SHARDS)
    assert await plan(url) == []
    assert await distribute(url) == []
    assert await is_distributed(migrated)
    counted = "SELECT count(*), count(DISTINCT o.store_id) FROM orders o JOIN customers c ON c.store_id = o.store_id AND c.id = o.customer_id"
    assert [tuple(row) for row in await migrated.fetch(counted)] == [(200, 20)]
    [[left]] = await migrated.fetch("SELECT pg_relation_size('orders')")
    assert left == 0
    with pytest.raises(BackupRefused, match="each node"):
        await save(url, load({}, database_url=url, secret_key=SECRET_KEY), io.BytesIO())
    db = Database(url, size=1)
    status = await read_status(db)
    await db.close()
    assert status.distributed
    assert [node.role for node in status.nodes] == ["coordinator", "worker", "worker"]


@needs_cluster
async def test_an_interrupted_distribution_continues(url: str, migrated: Connection) -> None:
    reached: list[str] = []

    def stop(step: distribution.Step) -> None:
        reached.append(step.subject)
        if step.subject == "table orders":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        await distribute(url, shards=SHARDS, report=stop)
    rest = await distribute(url)
    assert not {step.subject for step in rest} & {each for each in reached if each.startswith("table")}
    assert await misplaced(migrated) == []


TOKENS = """INSERT INTO tokens (token_hash, app_id, expires_at)
            SELECT sha256(n::text::bytea), n, now() FROM generate_series(1, 100) n"""
FOUND = """SELECT count(*), count(DISTINCT token_hash), sum(app_id)::bigint, obj_description('tokens'::regclass),
                  ARRAY(SELECT indexname::text FROM pg_indexes WHERE tablename = 'tokens' ORDER BY 1) FROM tokens"""
KEPT = (100, 100, 5050, "local", ["tokens_expires_at_idx", "tokens_pkey"])


@needs_cluster
async def test_a_table_that_became_local_returns_to_the_coordinator_with_its_rows(
    url: str, migrated: Connection
) -> None:
    await distribute(url, shards=SHARDS)
    await migrated.execute(TOKENS)
    await migrated.fetch("SELECT create_reference_table('tokens')")
    planned = await plan(url)
    assert distribution.Step("table tokens", "move back to the coordinator") in planned
    done = await distribute(url)
    assert done[0] == distribution.Step("table tokens", "moved back to the coordinator")
    assert await misplaced(migrated) == []
    assert [tuple(row) for row in await migrated.fetch(FOUND)] == [KEPT]
    assert await plan(url) == []
    assert await distribute(url) == []


@needs_cluster
async def test_a_migration_returns_a_table_that_becomes_local_to_the_coordinator(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens were global when the database was distributed."""
    names = [each.name for each in migrations.known()]
    index = names.index("local_tokens")
    before, after = migrations.known()[:index], migrations.known()[index:]
    tables = re.findall(r"CREATE TABLE (\w+)", " ".join(each.sql for each in after))
    later = re.compile(rf"\b({'|'.join(tables)})\b")

    def of_that_time(*, distributed: bool = False) -> list[Function]:
        return [each for each in functions(distributed=distributed) if not later.search(each.sql)]

    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "functions", of_that_time)
        earlier.setattr(migrations, "known", lambda: before)
        earlier.setattr(migrations, "VERSIONS", tuple(each.version for each in before))
        earlier.setattr(migrations, "LATEST", before[-1].version)
        await migrate(url)
        earlier.setattr(distribution, "REGISTERED", NO_SHARDS)  # the schema of that time had no such table
        await distribute(url, shards=SHARDS)
    db = await connect(url, statement_timeout_ms=60_000, name="the test")
    await db.execute(
        "INSERT INTO apps (id, client_id, name, scopes) SELECT n, n, n, '{}' FROM generate_series(1, 100) n"
    )
    await db.execute(TOKENS)
    moved = [step for step in await migration_plan.plan(url) if step.action == "move back to the coordinator"]
    assert [(step.table, step.blocks, step.duration) for step in moved] == [("tokens", "reads and writes", "long")]
    assert (await migrate(url))[0].name == "local_tokens"
    assert await misplaced(db) == []
    assert [tuple(row) for row in await db.fetch(FOUND)] == [KEPT]
    await db.close()


@needs_cluster
async def test_a_migration_keeps_a_distributed_database_distributed(
    url: str, migrated: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await distribute(url, shards=SHARDS)
    known = [*migrations.known(), PROBE]
    monkeypatch.setattr(migrations, "known", lambda: known)
    changed = Function("probe_one", "orders", "CREATE FUNCTION probe_one() RETURNS bigint LANGUAGE sql RETURN 1;")
    found = [*functions(distributed=True), changed]

    def with_probe(*, distributed: bool = False) -> list[Function]:
        return found

    monkeypatch.setattr(migrations, "functions", with_probe)
    assert [each.name for each in await migrate(url)] == ["probe"]
    assert await misplaced(migrated) == []
    rows = await migrated.fetch("SELECT colocation_id FROM citus_tables WHERE table_name::text IN ('probes', 'orders')")
    assert len(rows) == 2
    assert rows[0] == rows[1]
    assert await migrations.outdated_functions(migrated) == 0
