"""Migrations run in phases: each can be interrupted and continued, and none makes other transactions wait for long."""

import asyncio
import os
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

import pytest
import structlog
from tests.support.databases import new_database

from stoa.db import backfill, stored_functions
from stoa.db import migrate as migrations
from stoa.db.connection import Connection, connect
from stoa.db.errors import PostgresError
from stoa.db.migrate import migrate, version
from stoa.db.schema_files import Function, Migration, MigrationRefused, Release, functions, known, previous_release
from stoa.db.short_transactions import TRIES, in_short_transaction
from stoa.db.statement_locks import LockReader

pytestmark = pytest.mark.not_on_cluster("the synthetic migrations declare no placement")
FUNCTIONS, KNOWN = functions(), known()
PROBES = Migration(
    9001,
    "probes",
    """CREATE TABLE probes (store_id bigint NOT NULL, id bigint NOT NULL, times integer NOT NULL DEFAULT 0);
COMMENT ON TABLE probes IS 'store';
""",
)
FILL = Migration(
    9002,
    "fill",
    """-- phase: backfill
WITH batch AS (SELECT id FROM probes WHERE store_id = $1 AND id > $2 ORDER BY id LIMIT $3),
filled AS (UPDATE probes p SET times = p.times + 1 / (8 - p.id) FROM batch b WHERE p.store_id = $1 AND p.id = b.id)
SELECT max(id) FROM batch;
""",
)
INDEX = Migration(
    9003, "index", "-- phase: concurrently\nCREATE UNIQUE INDEX CONCURRENTLY probes_idx ON probes (store_id, id);\n"
)
COLUMN = Migration(9004, "column", "ALTER TABLE products ADD COLUMN probe text;\n")
COLUMNS = Migration(
    9005, "columns", "ALTER TABLE products ADD COLUMN probe text;\nALTER TABLE orders ADD COLUMN probe text;\n"
)
REMOVAL = Migration(
    9006,
    "removal",
    "-- phase: contract\nALTER TABLE products DROP COLUMN probe;\nALTER TABLE orders DROP COLUMN probe;\n",
)
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'products'::regclass"
NARROW = Function(
    "probe_one", "orders", "CREATE FUNCTION probe_one(in_a bigint) RETURNS bigint LANGUAGE sql RETURN in_a;"
)
WIDE = Function(NARROW.name, NARROW.package, NARROW.sql.replace("in_a bigint", "in_a bigint, in_b text"))


@pytest.fixture(scope="module")
async def template() -> str:
    """A migrated database, which each test copies."""
    url = await new_database(f"test_phases_{os.getpid()}_template")
    await migrate(url)
    return url


@pytest.fixture
async def url(template: str) -> str:
    name = f"test_phases_{os.getpid()}"
    return await new_database(name, template=f"{name}_template")


@pytest.fixture
async def db(url: str) -> AsyncIterator[Connection]:
    opened = await connect(url)
    yield opened
    await opened.close()


def release_with(monkeypatch: pytest.MonkeyPatch, *migrated: Migration) -> None:
    monkeypatch.setattr(migrations, "known", lambda: [*KNOWN, *migrated])


def release_functions(
    monkeypatch: pytest.MonkeyPatch, *added: Function, previous: tuple[str, ...] = (), after: str = ""
) -> None:
    """A release with further functions, after one that calls others."""
    before = previous_release()

    def found(*, distributed: bool = False) -> list[Function]:
        assert not distributed
        return [*FUNCTIONS, *added]

    monkeypatch.setattr(migrations, "functions", found)
    release = Release(after or before.version, "", [*before.functions, *previous])
    monkeypatch.setattr(stored_functions, "previous_release", lambda: release)


async def overloads(db: Connection) -> dict[str, int]:
    rows = await db.fetch(
        "SELECT oid::regprocedure::text, oid::bigint FROM pg_proc WHERE proname = 'probe_one' ORDER BY 1"
    )
    return {row[0]: row[1] for row in rows}


async def test_requests_pass_while_a_migration_waits_for_a_lock(
    url: str, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    release_with(monkeypatch, COLUMN)
    watcher, other = await connect(url), await connect(url, lock_timeout_ms=1_000)
    await db.execute("BEGIN; LOCK TABLE products IN ROW EXCLUSIVE MODE")
    migrating = asyncio.create_task(migrate(url))
    for _ in range(2):  # the read waits behind the migration, and would fail after a second
        while not (await watcher.fetch(WAITING))[0][0]:
            await asyncio.sleep(0.01)
        await other.fetch("SELECT id FROM products LIMIT 1")
    assert not migrating.done()
    await db.execute("COMMIT")
    assert await migrating == [COLUMN]
    await watcher.close()
    await other.close()


async def test_a_migration_that_never_gets_its_lock_says_why(
    url: str, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    release_with(monkeypatch, COLUMN)
    monkeypatch.setattr("stoa.db.short_transactions.TRIES", 2)
    await db.execute("BEGIN; LOCK TABLE products IN ROW EXCLUSIVE MODE")
    with pytest.raises(MigrationRefused, match="9004 column did not get its locks in 2 tries"):
        await migrate(url)
    await db.execute("COMMIT")
    assert await migrate(url) == [COLUMN]


@pytest.mark.parametrize("migration", [COLUMNS, REMOVAL], ids=str)
async def test_a_migration_that_waits_for_a_table_locks_no_other(
    url: str, db: Connection, monkeypatch: pytest.MonkeyPatch, migration: Migration
) -> None:
    """Otherwise it would deadlock with a request that has used the table that it waits for, and then uses the other."""
    if migration is REMOVAL:
        release_with(monkeypatch, COLUMNS)
        await migrate(url)
        release_with(monkeypatch, COLUMNS, REMOVAL)
    else:
        release_with(monkeypatch, COLUMNS)
    held = """SELECT ARRAY(SELECT h.relation::regclass::text FROM pg_locks h JOIN pg_class c ON c.oid = h.relation
                             WHERE h.pid = w.pid AND h.granted AND c.relname IN ('products', 'orders'))
                FROM pg_locks w WHERE NOT w.granted AND w.relation = 'orders'::regclass"""
    watcher = await connect(url)
    await db.execute("BEGIN; LOCK TABLE orders IN ACCESS SHARE MODE")
    migrating = asyncio.create_task(migrate(url))
    while not (waits := await watcher.fetch(held)):
        await asyncio.sleep(0.01)
    assert [tuple(row) for row in waits] == [([],)]
    await db.fetch("SELECT id FROM products LIMIT 1")
    await db.execute("COMMIT")
    assert await migrating == [migration]
    await watcher.close()


async def test_a_migration_first_waits_less_than_a_request_that_stores_its_key(
    db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the migration, that request would take its own new key for one that another request uses."""
    [[patience]] = await db.fetch(
        """SELECT min(substring(c FROM '^lock_timeout=(\\d+)ms$')::integer) FROM pg_proc p, unnest(p.proconfig) AS c
            WHERE p.proname IN ('claim_key', 'keep_response', 'keep_responses')"""
    )
    waits: list[int] = []

    async def work() -> None:
        waits.append((await db.fetch("SELECT setting::integer FROM pg_settings WHERE name = 'lock_timeout'"))[0][0])
        if len(waits) < TRIES:
            await db.execute("DO $$ BEGIN RAISE EXCEPTION 'no lock' USING ERRCODE = 'lock_not_available'; END $$")

    monkeypatch.setattr("stoa.db.short_transactions._PAUSE", (0, 0))
    await in_short_transaction(db, "The work", work)
    assert waits[0] <= patience / 2
    assert waits[-1] > waits[0]


async def test_an_interrupted_migration_continues_after_its_last_statement(
    url: str, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = """SELECT table_name::text FROM information_schema.columns
                  WHERE column_name = 'probe' AND table_name IN ('products', 'orders') ORDER BY 1"""
    release_with(monkeypatch, COLUMNS)
    monkeypatch.setattr("stoa.db.short_transactions.TRIES", 2)
    monkeypatch.setattr(migrations, "VERSIONS", (*migrations.VERSIONS, 9005))
    await db.execute("BEGIN; LOCK TABLE orders IN ROW EXCLUSIVE MODE")
    with pytest.raises(MigrationRefused, match="9005 columns did not get its locks"):
        await migrate(url)
    assert [row[0] for row in await db.fetch(columns)] == ["products"]
    assert await version(db) < 9005
    await db.execute("COMMIT")
    assert await migrate(url) == [COLUMNS]
    assert [row[0] for row in await db.fetch(columns)] == ["orders", "products"]
    assert await version(db) == 9005


def test_a_migration_is_one_transaction_in_an_empty_database() -> None:
    reader = LockReader()
    split = [
        str(each) for each in KNOWN if each.phase == "expand" and len([*migrations.parts(each.statements, reader)]) > 1
    ]
    assert split == []


async def test_an_index_that_failed_is_built_again(url: str, db: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'probes_idx'::regclass"
    release_with(monkeypatch, PROBES)
    assert await migrate(url) == [PROBES]
    await db.execute("INSERT INTO probes (store_id, id) VALUES (1, 1), (1, 1)")
    release_with(monkeypatch, PROBES, INDEX, COLUMN)
    with pytest.raises(PostgresError, match="probes_idx"):
        await migrate(url)
    assert [tuple(row) for row in await db.fetch(valid)] == [(False,)]
    # The column comes first, because requests of the next release need it, and it takes no time.
    rows = await db.fetch("SELECT version FROM schema_migrations WHERE version > 9000 ORDER BY 1")
    assert [row[0] for row in rows] == [9001, 9004]
    monkeypatch.setattr(migrations, "VERSIONS", (*migrations.VERSIONS, 9001, 9003, 9004))
    assert await version(db) == 9001
    await db.execute("DELETE FROM probes")
    assert await migrate(url) == [INDEX]
    assert [tuple(row) for row in await db.fetch(valid)] == [(True,)]
    assert await version(db) == 9004


async def test_several_processes_may_build_one_index(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    release_with(monkeypatch, PROBES, INDEX)
    done = await asyncio.gather(*(migrate(url) for _ in range(3)))
    assert sorted(len(each) for each in done) == [0, 0, 2]


@contextmanager
def all_levels_logged() -> Generator[None]:
    """Configured logging, whatever level an earlier test has set."""
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(0))
    try:
        yield
    finally:
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)


async def test_an_interrupted_backfill_continues_after_its_last_batch(
    url: str, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "BATCH", 3)
    for store in (1, 2):
        await db.execute(
            "INSERT INTO stores (id, handle, name, currency) VALUES ($1, $2, 'A', 'USD')", store, f"s{store}"
        )
    release_with(monkeypatch, PROBES)
    await migrate(url)
    await db.execute(
        "INSERT INTO probes (store_id, id) SELECT s, n FROM generate_series(1, 2) s, generate_series(7, 17) n"
    )
    release_with(monkeypatch, PROBES, FILL)
    with pytest.raises(PostgresError, match="division by zero"):  # at the row 8, in the first batch
        await migrate(url)
    await db.execute("DELETE FROM probes WHERE id = 8 AND store_id = 1")
    with pytest.raises(PostgresError, match="division by zero"):  # in the second store, after the first is done
        await migrate(url)
    await db.execute("DELETE FROM probes WHERE id = 8")
    monkeypatch.setattr(backfill, "_REPORT_EVERY_S", 0.0)
    with all_levels_logged(), structlog.testing.capture_logs() as logged:
        assert await migrate(url) == [FILL]
    assert [(line["event"], line["store_id"], line["last_id"]) for line in logged] == [
        ("backfill", 2, last) for last in (10, 13, 16, 17)
    ]
    # Only the rows beside 8 get a number other than 0; if they were filled twice, it would be 2 and -2.
    rows = await db.fetch("SELECT store_id, id, times FROM probes WHERE times <> 0 ORDER BY 1, 2")
    assert [tuple(row) for row in rows] == [(1, 7, 1), (1, 9, -1), (2, 7, 1), (2, 9, -1)]
    rows = await db.fetch("SELECT last_store, last_id FROM schema_backfills WHERE version = 9002")
    assert [tuple(row) for row in rows] == [(2, 17)]


async def test_a_function_is_replaced_in_place(url: str, db: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    release_functions(monkeypatch, NARROW)
    await migrate(url)
    before = await overloads(db)
    changed = Function(NARROW.name, NARROW.package, NARROW.sql.replace("RETURN in_a", "RETURN in_a + 1"))
    release_functions(monkeypatch, changed, previous=("probe_one(bigint)",))
    await migrate(url)
    assert await overloads(db) == before != {}
    assert (await db.fetch("SELECT probe_one(1)"))[0][0] == 2


async def test_the_arguments_that_the_previous_release_uses_stay_for_one_release(
    url: str, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow, wide = "probe_one(bigint)", "probe_one(bigint,text)"
    for added, previous, expected in (
        ((NARROW,), (), [narrow]),
        ((WIDE,), (narrow,), [narrow, wide]),
        ((WIDE,), (narrow,), [narrow, wide]),  # a later migration of the same release
        ((), (wide,), [wide]),
        ((), (), []),
    ):
        release_functions(monkeypatch, *added, previous=previous)
        await migrate(url)
        assert list(await overloads(db)) == expected


async def test_a_release_leaves_the_functions_of_a_later_one_alone(
    url: str, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    release_functions(monkeypatch, WIDE, after="0.10.0")
    await migrate(url)
    release_functions(monkeypatch, NARROW)
    await migrate(url)
    assert list(await overloads(db)) == ["probe_one(bigint,text)"]


def test_an_unknown_phase_is_refused() -> None:
    with pytest.raises(MigrationRefused, match="choose from expand, concurrently, backfill, contract"):
        _ = Migration(9009, "later", "-- phase: later\nSELECT 1;\n").phase
