"""The plan names the locks that PostgreSQL takes, and migrations that would block requests for long are refused."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pglast
import pytest
from tests.support.service import Service, new_database
from tests.upgrades.releases import ROOT, git, released_commit

from stoa.db.connection import Connection, connect
from stoa.db.migrate import migrate
from stoa.db.migration_plan import faults
from stoa.db.schema_files import Migration, known
from stoa.db.statement_locks import LockReader

INITIAL = known()[0]
# From the weakest to the strongest.
MODES = ("RowExclusiveLock", "ShareUpdateExclusiveLock", "ShareLock", "ShareRowExclusiveLock", "AccessExclusiveLock")
STATEMENTS = (
    "ALTER TABLE stores ADD COLUMN probe text",
    "ALTER TABLE stores ADD COLUMN probe text NOT NULL DEFAULT 'none', ADD COLUMN other integer DEFAULT -1",
    "ALTER TABLE stores ADD COLUMN probe timestamptz DEFAULT now()",
    "ALTER TABLE stores ADD COLUMN probe double precision DEFAULT random()",
    "ALTER TABLE stores ADD COLUMN probe text GENERATED ALWAYS AS (lower(handle)) STORED",
    "ALTER TABLE stores ADD COLUMN probe bigserial",
    "ALTER TABLE stores ADD CONSTRAINT probe CHECK (handle <> '') NOT VALID",
    "ALTER TABLE stores ADD CONSTRAINT probe UNIQUE (id, handle)",
    "ALTER TABLE store_hosts ADD CONSTRAINT probe FOREIGN KEY (store_id) REFERENCES stores (id) NOT VALID",
    "ALTER TABLE stores ALTER COLUMN handle SET NOT NULL",
    "ALTER TABLE stores ALTER COLUMN handle DROP NOT NULL",
    "ALTER TABLE stores ALTER COLUMN handle SET DEFAULT 'x'",
    "ALTER TABLE stores ALTER COLUMN handle SET STATISTICS 10",
    "ALTER TABLE store_hosts ALTER COLUMN host TYPE bytea USING host::bytea",
    "ALTER TABLE store_hosts DROP COLUMN host",
    "ALTER TABLE store_hosts DROP CONSTRAINT store_hosts_store_fkey",
    "ALTER TABLE stores RENAME COLUMN locale TO language",
    "ALTER TABLE stores SET (fillfactor = 50)",
    "CREATE INDEX probe_idx ON stores (handle)",
    "CREATE TABLE probes (store_id bigint NOT NULL REFERENCES stores (id))",
    "COMMENT ON TABLE stores IS 'global'",
    "UPDATE stores SET name = 'x'",
)
REFUSED = {
    "CREATE INDEX probe_idx ON products (store_id, name);": "it blocks writes while it reads or writes all rows",
    "CREATE INDEX CONCURRENTLY probe_idx ON products (store_id, name);": "the phase concurrently",
    "ALTER TABLE products ADD COLUMN probe uuid DEFAULT gen_random_uuid();": "it blocks reads and writes while",
    "ALTER TABLE orders ADD COLUMN probe text GENERATED ALWAYS AS (lower(head)) STORED;": "it blocks reads and writes",
    "ALTER TABLE orders ALTER COLUMN version TYPE bigint;": "it blocks reads and writes",
    "ALTER TABLE orders ALTER COLUMN head SET NOT NULL;": "it blocks reads and writes",
    "ALTER TABLE orders ADD CONSTRAINT probe CHECK (version > 0);": "it blocks reads and writes",
    "ALTER TABLE orders DROP COLUMN head;": "the phase contract",
    "ALTER TABLE orders RENAME TO purchases;": "the phase contract",
    "UPDATE products SET name = lower(name);": "the phase backfill",
    "ALTER TABLE tokens ADD CONSTRAINT probe CHECK (id > 0);": "it blocks reads and writes",
    "CLUSTER products USING products_pkey;": "its locks are unknown",
    "-- phase: concurrently\nALTER TABLE orders ADD COLUMN probe text;": "another phase",
    "-- phase: concurrently\nCREATE INDEX CONCURRENTLY probe_idx ON events (store_id);": "a partitioned table",
    "-- phase: backfill\nUPDATE products SET name = lower(name);": "each batch is limited",
}
ACCEPTED = (
    "CREATE TABLE probes (store_id bigint, id bigint);\nCREATE INDEX probes_idx ON probes (id);\nUPDATE probes SET id = 1;",
    "ALTER TABLE products ADD COLUMN probe text, ADD COLUMN level integer NOT NULL DEFAULT 0;",
    "UPDATE account_stores SET role = role;",  # a small table
    """ALTER TABLE account_stores DROP CONSTRAINT account_stores_role_check;
ALTER TABLE account_stores ADD CONSTRAINT account_stores_role_check CHECK (role IN ('owner', 'manager', 'viewer'));""",
    "-- phase: concurrently\nCREATE INDEX CONCURRENTLY probe_idx ON orders (store_id, created_at);",
    "-- phase: contract\nALTER TABLE orders DROP COLUMN head;",
)
NOT_NULL = (
    "ALTER TABLE orders ADD CONSTRAINT probe CHECK (head IS NOT NULL) NOT VALID;",
    "-- phase: concurrently\nALTER TABLE orders VALIDATE CONSTRAINT probe;",
    "-- phase: contract\nALTER TABLE orders ALTER COLUMN head SET NOT NULL;",
)


@pytest.fixture(scope="module")
async def db() -> AsyncIterator[Connection]:
    url = await new_database(f"test_locks_{os.getpid()}")
    await migrate(url)
    opened = await connect(url)
    await opened.execute("INSERT INTO stores (id, handle, name, currency) VALUES (1, 'one', 'One', 'USD')")
    yield opened
    await opened.close()


def reader_of_released() -> LockReader:
    reader = LockReader()
    for statement in INITIAL.statements:
        reader.read(statement)
    reader.new.clear()
    return reader


@pytest.mark.parametrize("statement", STATEMENTS)
async def test_the_plan_names_the_locks_that_postgresql_takes(db: Connection, statement: str) -> None:
    file = "SELECT relname, relfilenode::bigint FROM pg_class WHERE relname IN ('stores', 'store_hosts') ORDER BY 1"
    files = await db.fetch(file)
    await db.execute("BEGIN")
    try:
        await db.execute(statement)
        taken = await db.fetch(
            """SELECT relation::regclass::text, array_agg(mode) FROM pg_locks
                WHERE pid = pg_backend_pid() AND relation::regclass::text IN ('stores', 'store_hosts')
                  AND mode = ANY ($1::text[]) GROUP BY 1""",
            list(MODES),
        )
        rewritten = {before[0] for before, after in zip(files, await db.fetch(file), strict=True) if before != after}
    finally:
        await db.execute("ROLLBACK")
    effects = [effect for effect in reader_of_released().read(statement) if effect.table]
    found: dict[str, str] = {}
    for effect in effects:
        mode = effect.lock.title().replace(" ", "") + "Lock"
        found[effect.table] = max(found.get(effect.table, MODES[0]), mode, key=MODES.index)
    assert found == {table: max(modes, key=MODES.index) for table, modes in taken}
    assert {effect.table for effect in effects if effect.rewrites} == rewritten


@pytest.mark.parametrize("sql", REFUSED)
def test_a_migration_that_blocks_requests_is_refused(sql: str) -> None:
    [fault] = faults([INITIAL], [Migration(2, "probe", sql)])
    assert REFUSED[sql] in fault


@pytest.mark.parametrize("sql", ACCEPTED)
def test_a_migration_that_blocks_nobody_is_accepted(sql: str) -> None:
    assert faults([INITIAL], [Migration(2, "probe", sql)]) == []


def test_a_column_is_set_not_null_after_a_check_was_validated() -> None:
    steps = [Migration(number, "probe", sql) for number, sql in enumerate(NOT_NULL, 2)]
    assert faults([INITIAL], steps) == []
    assert len(faults([INITIAL], [steps[0], steps[2]])) == 1


def test_no_migration_after_the_previous_release_blocks_requests() -> None:
    names = git("ls-tree", "--name-only", released_commit(), "src/stoa/schema/") or ""
    released = {int(Path(name).name[:4]) for name in names.splitlines() if Path(name).name[:4].isdigit()}
    applied = [migration for migration in known() if migration.version in released]
    pending = [migration for migration in known() if migration.version not in released]
    assert applied
    assert faults(applied, pending) == []


def test_a_released_migration_is_never_edited() -> None:
    names = git("ls-tree", "--name-only", released_commit(), "src/stoa/schema/") or ""
    for name in names.splitlines():
        if Path(name).name[:4].isdigit():
            committed = git("show", f"{released_commit()}:{name}")
            assert (ROOT / name).read_text().strip() == committed, f"{name} was released; add a new migration instead"


@pytest.mark.parametrize("migration", known(), ids=str)
def test_each_statement_of_a_migration_ends_with_its_line(migration: Migration) -> None:
    assert [len(pglast.parse_sql(statement)) for statement in migration.statements] == [1] * len(migration.statements)


async def test_the_plan_of_a_database_shows_phases_and_locks(tmp_path: Path) -> None:
    service = Service(tmp_path, database_url=await new_database(f"plan_{os.getpid()}"))
    planned = service.run("migrate", "--plan", "--json")
    assert planned.returncode == 0, planned.stderr
    shown = json.loads(planned.stdout)
    assert {step["phase"] for step in shown} >= {"expand", "functions"}
    assert {step["blocks"] for step in shown} == {"nothing"}  # the database is empty
    assert "place_orders" in {step["subject"] for step in shown if step["phase"] == "functions"}
    assert service.run("migrate").returncode == 0
    assert json.loads(service.run("migrate", "--plan", "--json").stdout) == []
    assert service.run("migrate", "--plan").stdout.startswith("The schema is at version")
