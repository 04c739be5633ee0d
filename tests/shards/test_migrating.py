"""`stoa migrate` migrates the directory and its shards, and new global tables reach the shards."""

import pytest
from tests.shards.test_crashes import Killed, killer
from tests.support.fleet import Fleet, copied_database, unused

from stoa.db import migrate as migrations
from stoa.db.migrate import missing
from stoa.db.schema_files import Migration, MigrationRefused, known
from stoa.settings import Settings
from stoa.shards import moving
from stoa.shards.migrating import migrate_all
from stoa.shards.registry import ShardRefused, session
from stoa.shards.subscriptions import literal

pytestmark = pytest.mark.timeout(300)
KNOWN = known()
OWN = "subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
NOWHERE = "host=127.0.0.1 port=1 dbname=nowhere"
TABLE = Migration(
    9001,
    "probes",
    "CREATE TABLE probes (id bigint NOT NULL, CONSTRAINT probes_pkey PRIMARY KEY (id));\nCOMMENT ON TABLE probes IS 'global';\n",
)
COLUMN = Migration(9002, "column", "ALTER TABLE apps ADD COLUMN probe text NOT NULL DEFAULT 'added';\n")
INDEX = Migration(
    9003, "index", "-- phase: concurrently\nCREATE INDEX CONCURRENTLY IF NOT EXISTS probes_idx ON probes (id);\n"
)
REMOVAL = Migration(9004, "removal", "-- phase: contract\nALTER TABLE probes ADD COLUMN removed text;\n")


@pytest.fixture(scope="module")
async def pair(replicating: str, settings: Settings) -> Fleet:
    """A directory with one shard, which these tests migrate further."""
    return await new_pair(replicating, settings)


@pytest.fixture(scope="module")
async def idle(replicating: str, settings: Settings) -> Fleet:
    """A directory with one shard, between which stores move; the last test with it migrates both."""
    return await new_pair(replicating, settings)


async def new_pair(replicating: str, settings: Settings) -> Fleet:
    urls = {name: await copied_database(replicating, unused(name)) for name in ("first", "second")}
    made = Fleet(settings, urls["first"], {"second": urls["second"]})
    await made.add_shards()
    return made


async def test_every_phase_runs_everywhere_before_the_next(pair: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "known", lambda: [*KNOWN, TABLE, COLUMN, INDEX, REMOVAL])
    done = await migrate_all(pair.directory.url, pair.settings)
    assert [each.version for each in done] == [9001, 9002, 9003, 9004]
    applied: list[tuple[object, str, int]] = []
    for shard in pair.shards:
        async with pair.connection(shard) as db:
            assert await missing(db) == []
            rows = await db.fetch("SELECT applied_at, version FROM schema_migrations WHERE version > 9000")
            applied += [(at, shard, number) for at, number in rows]
    order = [(shard, number) for _, shard, number in sorted(applied, key=lambda row: str(row[0]))]
    # A shard is extended before the directory, and nothing is removed from it before the directory sends it no more.
    assert order == [
        ("second", 9001), ("second", 9002), ("", 9001), ("", 9002), ("second", 9003), ("", 9003), ("", 9004), ("second", 9004),
    ]  # fmt: skip
    async with pair.connection("") as directory, pair.connection("second") as shard:
        await directory.execute("INSERT INTO probes (id) VALUES (7)")
        while not await shard.fetch("SELECT id FROM probes WHERE id = 7"):
            pass
    assert await migrate_all(pair.directory.url, pair.settings) == []


MOVED = Migration(
    9005,
    "moved probes",
    """CREATE TABLE moved_probes (store_id bigint NOT NULL, id bigint NOT NULL, CONSTRAINT moved_probes_pkey PRIMARY KEY (store_id, id));
COMMENT ON TABLE moved_probes IS 'store';
""",
)


async def test_no_store_begins_to_move_while_the_databases_are_migrated(idle: Fleet) -> None:
    shop = await idle.open_shop(filled=False)
    async with session(idle.directory.url) as other:
        await other.execute("SELECT pg_advisory_lock(7306231)")
        with pytest.raises(ShardRefused, match="the databases are being migrated"):
            await moving.move(idle.ask(shop, "second"))


async def test_no_store_begins_to_move_after_a_backfill_was_interrupted(idle: Fleet) -> None:
    shop = await idle.open_shop(filled=False)
    for shard in idle.shards:
        async with idle.connection(shard) as db:
            await db.execute("INSERT INTO schema_backfills (version, last_store, last_id) VALUES (9999, 1, 1)")
            with pytest.raises(ShardRefused, match=f"{shard or 'directory'} is being migrated to another release"):
                await moving.move(idle.ask(shop, "second"))
            await db.execute("DELETE FROM schema_backfills WHERE version = 9999")


async def test_nothing_is_migrated_while_a_store_moves(idle: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = await idle.open_shop(filled=False)
    with pytest.raises(Killed):
        await moving.move(idle.ask(shop, "second"), killer("copied"))
    assert await migrate_all(idle.directory.url, idle.settings) == []  # nothing is missing
    with monkeypatch.context() as later:
        later.setattr(migrations, "known", lambda: [*KNOWN, TABLE, COLUMN, INDEX, REMOVAL, MOVED])
        with pytest.raises(MigrationRefused, match=f"stoa shard move {shop.store.handle} --to second"):
            await migrate_all(idle.directory.url, idle.settings)
        with pytest.raises(MigrationRefused, match="A store moves between shards"):
            await migrate_all(idle.directory.url, idle.settings, skip_away=True)
        for shard in idle.shards:
            assert await idle.one(shard, "SELECT to_regclass('moved_probes') IS NULL")
        with pytest.raises(Killed):
            await moving.undo(idle.ask(shop, "second"), killer("stopped"))
        await migrate_all(idle.directory.url, idle.settings)
        assert await moving.undo(idle.ask(shop, "second")) is not None
        for shard in idle.shards:
            assert await idle.one(shard, "SELECT to_regclass('moved_probes') IS NOT NULL")


async def test_a_service_starts_while_a_shard_is_away(pair: Fleet) -> None:
    async with pair.connection("") as directory:
        name = await pair.one("second", "SELECT current_database()")
        await directory.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            with pytest.raises(Exception, match="cannot be reached"):
                await migrate_all(pair.directory.url, pair.settings)
            assert await migrate_all(pair.directory.url, pair.settings, skip_away=True) == []
        finally:
            await directory.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


@pytest.mark.parametrize("broken", ["unreachable", "disabled", "missing"])
async def test_a_service_starts_while_a_shard_does_not_copy(pair: Fleet, broken: str) -> None:
    """Its server cannot reach the directory, or the shard was added or removed in part."""
    async with pair.connection("second") as db:
        [[source]] = await db.fetch(f"SELECT subconninfo FROM pg_subscription WHERE {OWN}")
        changes = {
            "unreachable": f"CONNECTION {literal(NOWHERE)}",
            "disabled": "DISABLE",
            "missing": "RENAME TO stoa_renamed",
        }
        await db.execute(f"ALTER SUBSCRIPTION stoa_global {changes[broken]}")
        try:
            assert await migrate_all(pair.directory.url, pair.settings, skip_away=True) == []
            if broken == "unreachable":
                with pytest.raises(Exception, match="could not connect to the publisher"):
                    await migrate_all(pair.directory.url, pair.settings)
            else:
                assert await migrate_all(pair.directory.url, pair.settings) == []
        finally:
            if broken == "missing":
                await db.execute("ALTER SUBSCRIPTION stoa_renamed RENAME TO stoa_global")
            await db.execute(f"ALTER SUBSCRIPTION stoa_global CONNECTION {literal(source)}")
            await db.execute("ALTER SUBSCRIPTION stoa_global ENABLE")
    assert await migrate_all(pair.directory.url, pair.settings) == []
