"""A database becomes a shard only if stores can move to it and from it; the global tables then follow the directory."""

import asyncio
import os
from collections.abc import AsyncIterator
from functools import partial

import pytest
from tests.support.databases import migrated_database, sibling
from tests.support.fleet import Fleet, copied_database
from tests.support.sharded import eventually

from stoa.access.apps import create_app
from stoa.access.contract import NoShardForStores
from stoa.access.operator import Operator
from stoa.access.stores import create_store
from stoa.db.connection import Connection, connect
from stoa.shards import global_tables, membership, moving, subscriptions
from stoa.shards.global_tables import PUBLICATION
from stoa.shards.membership import plan_to_add, statuses
from stoa.shards.registry import Shard, ShardRefused, address, session, shards_of
from stoa.shards.tables import global_tables as tables_of

pytestmark = pytest.mark.timeout(300)
NORTH = f"north_{os.getpid()}"


@pytest.fixture
async def by(fleet: Fleet) -> AsyncIterator[Operator]:
    async with fleet.operator() as operator:
        yield operator


@pytest.fixture
async def empty(replicating: str) -> AsyncIterator[str]:
    """A migrated database without rows."""
    yield await copied_database(replicating, NORTH)
    await drop(replicating)


async def drop(server: str) -> None:
    await run(sibling(server, "postgres"), f'DROP DATABASE IF EXISTS "{NORTH}" WITH (FORCE)')


async def run(url: str, *statements: str) -> None:
    db = await connect(url, statement_timeout_ms=0)
    try:
        for statement in statements:
            await db.execute(statement)
    finally:
        await db.close()


async def test_a_shard_has_the_rows_of_global_tables(fleet: Fleet, by: Operator) -> None:
    store = await create_store(by, f"new-{os.getpid()}", "New", "EUR")
    app = await create_app(by, "New app", ["products:read"])
    for shard in ("east", "west"):
        async with fleet.connection(shard) as db:
            while not await db.fetch("SELECT id FROM stores WHERE id = $1", store.id):
                pass
            while not await db.fetch("SELECT id FROM apps WHERE id = $1", app.app_id):
                pass
            # A change that the directory forgets is on the standby of the shard, too.
            own = "subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
            assert (await db.fetch(f"SELECT subsynccommit FROM pg_subscription WHERE {own}"))[0][0] == "on"
            published = set(await subscriptions.PUBLISHED.all(by.db, PUBLICATION))
            assert published == set(await tables_of(db))
            assert {"stores", "apps", "accounts", "tokens", "shards"} <= published
            assert not {"products", "audit_heads", "service_facts"} & published
            rows = await db.fetch("SELECT count(*) FROM audit_entries WHERE store_id = $1", store.id)
            assert rows[0][0] == 0, "the rows of a store stay where the store is"


async def test_the_url_of_a_shard_is_encrypted(fleet: Fleet, by: Operator) -> None:
    rows = await by.db.fetch("SELECT encode(url, 'escape') FROM shards")
    assert len(rows) == 2
    assert not any("postgresql" in row[0] for row in rows)
    assert [shard.url for shard in await shards_of(by.db, by.key)] == [
        fleet.shards["east"].url,
        fleet.shards["west"].url,
    ]
    assert address("postgresql://stoa:secret@db2.example.com:5433/stoa?sslmode=require") == "db2.example.com:5433/stoa"
    assert address("postgresql://stoa@/stoa?host=/run/pg&port=5432") == "/run/pg/stoa"


async def test_a_shard_is_added_twice_and_removed(replicating: str, by: Operator) -> None:
    await drop(replicating)
    admin = sibling(replicating, "postgres")
    await run(admin, f'CREATE DATABASE "{NORTH}" TEMPLATE template0')
    url = sibling(replicating, NORTH)
    planned = await plan_to_add(by, url, "north")
    assert planned[0].action == "create the schema"
    assert await membership.add(by, url, "north") == planned
    again = await membership.add(by, url, "north")
    assert [step.action for step in again] == [step.action for step in planned[1:]]
    [north] = [status for status in await statuses(by) if status.name == "north"]
    assert (north.state, north.stores, north.problem) == ("active", 0, "")
    await membership.remove(by, "north")
    with pytest.raises(ShardRefused, match="a new shard must be empty"):
        await plan_to_add(by, url, "north")
    assert "north" not in [shard.name for shard in await shards_of(by.db, by.key)]
    assert (
        await by.db.fetch("SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'stoa_global_north%'") == []
    )
    actions = await by.db.fetch("SELECT action FROM service_audit_entries ORDER BY position DESC LIMIT 2")
    assert [row[0] for row in actions] == ["shard.removed", "shard.added"]
    await drop(replicating)


async def test_a_lost_shard_is_removed(by: Operator, replicating: str, empty: str) -> None:
    await membership.add(by, empty, "north")
    await run(empty, f"ALTER SUBSCRIPTION {PUBLICATION} DISABLE", f"ALTER SUBSCRIPTION {PUBLICATION} SET (slot_name = NONE)",
              f"DROP SUBSCRIPTION {PUBLICATION}")  # fmt: skip
    await drop(replicating)
    [north] = [status for status in await statuses(by) if status.name == "north"]
    assert "north" in north.problem
    await membership.remove(by, "north", lost=True)
    assert (
        await by.db.fetch("SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'stoa_global_north%'") == []
    )


async def test_a_shard_with_stores_is_not_removed(fleet: Fleet, by: Operator) -> None:
    shop = await fleet.open_shop(filled=False)
    await fleet.move(shop, "east")
    with pytest.raises(ShardRefused, match="stores; run `stoa shard drain east` first"):
        await membership.remove(by, "east")


async def _waits_or_ends(by: Operator, task: asyncio.Task[None]) -> bool:
    [[waiting]] = await by.db.fetch("SELECT count(*) FROM pg_locks WHERE NOT granted")
    return bool(waiting) or task.done()


async def test_a_removal_waits_for_a_store_that_is_being_created(by: Operator, empty: str) -> None:
    await membership.add(by, empty, "north")
    async with by.transaction() as joined:
        await create_store(joined, f"late-{os.getpid()}", "Late", "EUR", shard="north")
        removal = asyncio.create_task(membership.remove(by, "north"))
        await eventually(partial(_waits_or_ends, by, removal))
    with pytest.raises(ShardRefused, match="north has 1 stores"):
        await removal
    await _empty_and_remove(by)


async def _empty_and_remove(by: Operator) -> None:
    """Remove the shard with the stores of a test, which have no rows."""
    await by.db.execute("UPDATE stores SET shard = '' WHERE shard = 'north'")
    await by.db.execute("DELETE FROM shard_outbox")
    await membership.remove(by, "north")


@pytest.mark.parametrize("what", ["store", "move", "undo"])
async def test_a_shard_takes_no_store_while_it_is_removed(
    fleet: Fleet, by: Operator, empty: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    await membership.add(by, empty, "north")
    other = await create_store(by, f"other-{what}-{os.getpid()}", "Other", "EUR")
    ask = fleet.ask_for(other.handle, "east")
    stopped: list[str] = []
    ask.target = Shard("north", empty)

    async def try_to_bring(directory: Connection, name: str) -> None:
        stopped.append(name)
        if what == "store":
            with pytest.raises(NoShardForStores):
                await create_store(by, f"while-{os.getpid()}", "While", "EUR", shard="north")
        elif what == "move":
            with pytest.raises(ShardRefused, match="north is being drained or removed"):
                await moving.move(ask)
        else:
            with pytest.raises(ShardRefused, match="another command is adding or removing a shard"):
                await membership.take_stores_again(by, "north")
        raise ConnectionAbortedError

    with monkeypatch.context() as patched:
        patched.setattr(global_tables, "stop", try_to_bring)
        with pytest.raises(ConnectionAbortedError):
            await membership.remove(by, "north")
    assert stopped == ["north"]
    with pytest.raises(ShardRefused, match="run `stoa shard remove north` again"):
        await membership.take_stores_again(by, "north")
    await membership.remove(by, "north")
    assert "north" not in [shard.name for shard in await shards_of(by.db, by.key)]


@pytest.mark.parametrize("name", ["", "East", "directory", "9", "a" * 32, "a;b", "a_b"])
async def test_a_wrong_name_is_refused(by: Operator, empty: str, name: str) -> None:
    with pytest.raises(ShardRefused, match="is no name for a shard"):
        await plan_to_add(by, empty, name)


async def test_a_name_is_used_once(by: Operator, empty: str) -> None:
    with pytest.raises(ShardRefused, match="there is a shard east at"):
        await plan_to_add(by, empty, "east")


async def test_the_directory_is_no_shard_of_itself(fleet: Fleet, by: Operator) -> None:
    with pytest.raises(ShardRefused, match="the directory itself"):
        await plan_to_add(by, fleet.directory.url, "north")


async def test_a_shard_is_no_second_shard(fleet: Fleet, by: Operator) -> None:
    with pytest.raises(ShardRefused, match="is or was the shard east"):
        await plan_to_add(by, fleet.shards["east"].url, "north")


async def test_a_command_waits_for_the_end_of_another_one(fleet: Fleet, by: Operator, empty: str) -> None:
    async with session(fleet.directory.url) as other:
        await other.execute("SELECT pg_advisory_lock(7306233)")
        with pytest.raises(ShardRefused, match="another command is adding or removing a shard"):
            await plan_to_add(by, empty, "north")
        waiting = asyncio.create_task(plan_to_add(by, empty, "north"))
        await asyncio.sleep(0)
    assert await waiting


async def test_a_server_without_logical_replication_is_refused(by: Operator) -> None:
    plain = await migrated_database(f"test_shard_{os.getpid()}")
    with pytest.raises(ShardRefused, match="north: wal_level is replica: set wal_level = logical"):
        await plan_to_add(by, plain, "north")


async def test_a_role_that_may_not_replicate_is_refused(by: Operator, empty: str) -> None:
    with pytest.raises(ShardRefused, match="run `ALTER ROLE stoa REPLICATION`"):
        await plan_to_add(by, empty.replace("//postgres@", "//stoa@"), "north")


async def test_a_role_that_may_not_subscribe_is_refused(by: Operator, replicating: str, empty: str) -> None:
    admin = sibling(replicating, "postgres")
    await run(admin, "CREATE ROLE sender LOGIN REPLICATION", f'GRANT CREATE ON DATABASE "{NORTH}" TO sender')
    try:
        with pytest.raises(ShardRefused, match="pg_create_subscription"):
            await plan_to_add(by, empty.replace("//postgres@", "//sender@"), "north")
    finally:
        await run(admin, f'REVOKE ALL ON DATABASE "{NORTH}" FROM sender', "DROP ROLE sender")


async def test_a_database_without_a_migration_is_refused(by: Operator, empty: str) -> None:
    await run(empty, "DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)")
    with pytest.raises(ShardRefused, match=r"north has schema \d+, but this release needs \d+: run `stoa migrate`"):
        await plan_to_add(by, empty, "north")


async def test_a_database_with_an_outdated_function_is_refused(by: Operator, empty: str) -> None:
    await run(empty, "UPDATE stored_functions SET digest = 'other' WHERE name = 'enter_store'")
    with pytest.raises(ShardRefused, match="1 stored functions are outdated"):
        await plan_to_add(by, empty, "north")


async def test_a_database_with_rows_is_refused(by: Operator, empty: str) -> None:
    await run(empty, "INSERT INTO stores (handle, name, currency) VALUES ('own', 'Own', 'EUR')")
    with pytest.raises(ShardRefused, match="a new shard must be empty"):
        await plan_to_add(by, empty, "north")


async def test_a_citus_database_is_refused(by: Operator, empty: str) -> None:
    await run(empty, "UPDATE pg_extension SET extname = 'citus' WHERE extname = 'plpgsql'")
    with pytest.raises(ShardRefused, match="either distributed by Citus or in a shard, not both"):
        await plan_to_add(by, empty, "north")


async def test_another_collation_is_refused(by: Operator, replicating: str) -> None:
    await drop(replicating)
    admin = sibling(replicating, "postgres")
    await run(admin, f"CREATE DATABASE \"{NORTH}\" TEMPLATE template0 LOCALE_PROVIDER libc LOCALE 'C'")
    with pytest.raises(ShardRefused, match="north has the encoding and collation UTF8 C C"):
        await plan_to_add(by, sibling(replicating, NORTH), "north")
    await drop(replicating)
