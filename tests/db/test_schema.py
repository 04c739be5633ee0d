"""The schema: schema.sql is up to date, every table declares its placement, and functions match their files."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.service import new_database
from tools.schema import FILE, describe

from stoa.db import migrate as migrations
from stoa.db.connection import Connection, connect
from stoa.db.migrate import Function, functions, migrate

PLACEMENTS = {"store", "global", "local"}
FUNCTIONS = functions()
NEW = Function("probe_one", "orders", "CREATE FUNCTION probe_one(in_a bigint) RETURNS bigint LANGUAGE sql RETURN in_a;")


@pytest.fixture
async def url() -> str:
    return await new_database(f"test_schema_{os.getpid()}")


@pytest.fixture
async def migrated(url: str) -> AsyncIterator[Connection]:
    await migrate(url)
    db = await connect(url)
    yield db
    await db.close()


@pytest.mark.not_on_cluster("its servers store options of their own on some columns")
async def test_a_database_migrated_from_empty_equals_the_committed_schema(migrated: Connection) -> None:
    assert await describe(migrated) == (Path(__file__).parents[2] / FILE).read_text(encoding="utf-8")


async def test_every_table_declares_its_placement(migrated: Connection) -> None:
    rows = await migrated.fetch(
        """SELECT relname, coalesce(obj_description(oid, 'pg_class'), '') FROM pg_class
            WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace AND NOT relispartition"""
    )
    assert {name: placement for name, placement in rows if placement not in PLACEMENTS} == {}


async def test_every_function_of_the_database_has_a_file(migrated: Connection) -> None:
    rows = await migrated.fetch("SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace")
    assert sorted(name for [name] in rows) == sorted(function.name for function in FUNCTIONS)


def release_with(monkeypatch: pytest.MonkeyPatch, *added: Function) -> None:
    """Add functions to those that the next migration finds."""
    known = [*FUNCTIONS, *added]

    def found(*, distributed: bool = False) -> list[Function]:
        assert not distributed
        return known

    monkeypatch.setattr(migrations, "functions", found)


async def overloads(db: Connection) -> list[str]:
    rows = await db.fetch("SELECT pg_get_function_identity_arguments(oid) FROM pg_proc WHERE proname = 'probe_one'")
    return sorted(arguments for [arguments] in rows)


async def test_a_changed_function_is_replaced_and_a_removed_one_dropped(
    url: str, migrated: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    wider = Function(NEW.name, NEW.package, NEW.sql.replace("in_a bigint", "in_a bigint, in_b text"))
    for current, expected in ((NEW, ["in_a bigint"]), (wider, ["in_a bigint, in_b text"]), (None, [])):
        release_with(monkeypatch, *([current] if current else []))
        assert await migrate(url) == []
        assert await overloads(migrated) == expected


async def test_unchanged_functions_are_not_replaced(url: str, migrated: Connection) -> None:
    before = await migrated.fetch(
        "SELECT oid, xmin::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1"
    )
    await migrate(url)
    assert before == await migrated.fetch(
        "SELECT oid, xmin::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1"
    )


async def test_a_broken_function_rolls_the_migration_back(
    url: str, migrated: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Function("probe_two", "orders", "CREATE FUNCTION probe_two() RETURNS bigint LANGUAGE sql RETURN nothing;")
    release_with(monkeypatch, NEW, broken)
    with pytest.raises(Exception, match="nothing"):
        await migrate(url)
    assert await overloads(migrated) == []
