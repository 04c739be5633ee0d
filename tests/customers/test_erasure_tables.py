"""Every table of the schema is either reached by an erasure or listed as holding no personal data."""

from stoa.db.pool import Database
from stoa.store_data.customer_erasure import NO_PERSONAL_DATA, STEPS

OF_TESTS = {"notes"}  # the slice in tests/support


async def columns(db: Database) -> dict[str, set[str]]:
    """The columns of each table; partitions have those of their parent, and shards have no comment with a placement."""
    rows = await db.fetch(
        """SELECT c.relname, array_agg(a.attname::text) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
            WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = current_schema()::regnamespace
              AND a.attnum > 0 AND NOT a.attisdropped AND obj_description(c.oid, 'pg_class') IS NOT NULL
            GROUP BY c.relname"""
    )
    return {table: set(names) for table, names in rows}


async def test_an_erasure_considers_every_table(db: Database) -> None:
    reached = {table for step in STEPS for table in step.erases}
    considered = reached | NO_PERSONAL_DATA.keys()
    schema = (await columns(db)).keys() - OF_TESTS
    assert schema - considered == set(), (
        "reach these tables in customer_erasure.py, or say why they hold no personal data"
    )
    assert considered - schema == set(), "these tables no longer exist"
    assert reached & NO_PERSONAL_DATA.keys() == set()


async def test_an_erasure_names_columns_that_exist(db: Database) -> None:
    schema = await columns(db)
    for step in STEPS:
        for table, names in step.erases.items():
            assert set(names) <= schema[table], table
