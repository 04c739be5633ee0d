"""On a cluster, every statement that is bound to a store asks one node, and those that ask several are listed."""

import itertools
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, cast

import pglast
import pytest
from pglast import ast
from tests.cluster.conftest import needs_cluster
from tests.cluster.fan_out import FAN_OUT, PLANNED
from tests.contract.tenancy import OVER_ALL_STORES, statements, violations
from tests.contract.test_functions import mutants
from tests.contract.test_statements import ALL, LISTINGS, shapes, store_owned

from stoa.db.errors import PostgresError
from stoa.db.pool import Database
from stoa.db.schema_files import Function, functions, with_cluster_settings

PLAIN = {function.name: function for function in functions()}
ADDED = [function for function in functions(distributed=True) if function.name not in PLAIN]
CHANGED = [
    function
    for function in functions(distributed=True)
    if function.name in PLAIN and function.sql != with_cluster_settings(PLAIN[function.name].sql)
]
NAMES = {name for name, _ in ALL}
_numbers = itertools.count(1)
_CLOCKS = {"now", "clock_timestamp", "statement_timestamp", "random", "gen_random_uuid"}
_VOLATILE = _CLOCKS - {"now", "statement_timestamp"}
# PostgreSQL plans a statement five times for its values, and then chooses between that and one plan for all values.
CHOSEN_AFTER = 6
DRAWING = """SELECT DISTINCT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
               LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
              WHERE c.relnamespace = 'public'::regnamespace
                AND (a.attidentity <> '' OR pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%')"""
# A value of each type, so that a plan can be made; no statement is executed.
VALUES = {
    "int8": "1", "int4": "1", "int2": "1", "float8": "1", "text": "'1'", "varchar": "'1'", "bool": "true", "bytea": "'x'",
    "timestamptz": "'2026-01-01'", "date": "'2026-01-01'", "json": "'[]'", "text[]": "'{1,2}'",
    "int8[]": "'{1,2}'", "int4[]": "'{1,2}'", "int2[]": "'{1,2}'", "bytea[]": "'{}'", "bool[]": "'{}'", "float8[]": "'{}'",
    "timestamptz[]": "'{}'", "date[]": "'{}'", "interval": "'1 day'", "numeric": "1", "name": "'1'", "oid": "1", "jsonb": "'{}'",
    "numeric[]": "'{}'", "char": "'1'", "name[]": "'{}'", "interval[]": "'{}'", "json[]": "'{}'", "xid8": "'1'", "pg_lsn": "'0/1'",
}  # fmt: skip
# Values of a type or of one parameter: a plan would read nothing for any other value, there would be none, or fewer stores.
OTHER_VALUES = {
    "stoa.imports.queries.KNOWN_SIZE": {"text": "'orders'"},
    "stoa.access.queries.INSTALLATIONS_PAGE": {"text[]": "'{installed,uninstalled}'"},
    "stoa.usage.queries.REQUESTS": {"$7": "NULL"},
}


async def tasks(db: Database, sql: str, other: dict[str, str] | None = None) -> int:
    """The largest number of shards that a part of the statement asks; 0 if it reads and writes no table of the cluster."""
    values = VALUES | (other or {})
    async with db.transaction() as connection:
        parameters = (await connection.prepare(sql)).get_parameters()
        literals = [
            f"({values.get(f'${n}', values[kind.name])})::{kind.name}" for n, kind in enumerate(parameters, start=1)
        ]
        if any(_inserts(pglast.parse_sql(sql))):
            # Citus cannot explain a prepared INSERT ... SELECT, so the values stand in the statement.
            sql = re.sub(r"\$(\d+)", lambda number: literals[int(number[1]) - 1], sql)
            rows = await connection.fetch(f"EXPLAIN (FORMAT JSON, VERBOSE) {sql}")
        else:
            name = f"checked_{next(_numbers)}"  # of its own: one that fails outlives its transaction
            await connection.execute(f"PREPARE {name} AS {sql}")
            given = f"({', '.join(literals)})" if literals else ""
            explain = f"EXPLAIN (FORMAT JSON, VERBOSE) EXECUTE {name}{given}"
            for _ in range(CHOSEN_AFTER):
                await connection.fetch(explain)
            rows = await connection.fetch(explain)
            await connection.execute(f"DEALLOCATE {name}")
    counts = [int(count) for count in re.findall(r'"Task Count": (\d+)', rows[0][0])]
    assert 0 not in counts, f"a part of the statement asks no node, and Citus does not say so: {sql}"
    return max(counts, default=0)


def _nodes(node: Any) -> Iterator[Any]:
    """A parsed statement and everything in it."""
    if isinstance(node, tuple):
        for each in cast("tuple[Any, ...]", node):
            yield from _nodes(each)
    elif isinstance(node, ast.Node):
        yield node
        for name in node:
            yield from _nodes(getattr(node, name))


def _called(parsed: Any) -> set[str]:
    return {str(cast("Any", node.funcname)[-1].sval) for node in _nodes(parsed) if isinstance(node, ast.FuncCall)}


def _after_rows(node: Any) -> tuple[Any, Any]:
    """What a statement that changes rows does in a conflict, and what it returns."""
    return getattr(node, "onConflictClause", None), node.returningClause


def _inserts(parsed: Any, into: set[str] | None = None) -> Iterator[ast.InsertStmt]:
    """Each INSERT of a SELECT, or only those into these tables."""
    for node in _nodes(parsed):
        if isinstance(node, ast.InsertStmt) and (into is None or cast("Any", node.relation).relname in into):
            select: Any = node.selectStmt
            if select is not None and not select.valuesLists:
                yield node


async def test_no_statement_reads_a_table_of_stores_beside_a_function_that_reads_one(db: Database) -> None:
    """Citus would run the function inside a shard, where it can ask no other; outside a cluster, nothing would show it."""
    owned = await store_owned(db)
    reads = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE)\s+(?:{'|'.join(sorted(owned))})\b")
    reading = {function.name for function in functions() if reads.search(function.sql)}
    assert "order_offers" in reading, "the expression no longer finds what a function reads"
    parsed = [(name, statement) for name, query in ALL for statement in pglast.parse_sql(query.sql)]
    parsed += [
        (each.name, statement)
        for each in functions(distributed=True)
        if not each.pure
        for statement in statements(each)
    ]
    found: list[str] = []
    for name, statement in parsed:
        nodes = list(_nodes(statement))
        called = {str(cast("Any", node.funcname)[-1].sval) for node in nodes if isinstance(node, ast.FuncCall)}
        filled = [cast("Any", node).relation for node in nodes if isinstance(node, ast.InsertStmt)]
        tables = {str(node.relname) for node in nodes if isinstance(node, ast.RangeVar) and node not in filled}
        if called & reading and tables & owned:
            found.append(f"{name} calls {sorted(called & reading)} and reads {sorted(tables & owned)}")
    assert found == []


def test_no_statement_reads_the_clock_where_citus_refuses_it() -> None:
    """Citus refuses functions that are not immutable in ON CONFLICT and RETURNING, and volatile ones in any UPDATE and DELETE;
    outside a cluster, nothing would show it."""
    schema = (files("stoa") / "schema" / "schema.sql").read_text()
    local = set(re.findall(r"COMMENT ON TABLE (\w+) IS 'local'", schema))
    parsed = {name: pglast.parse_sql(query.sql) for name, query in ALL}
    parsed |= {each.name: tuple(statements(each)) for each in functions(distributed=True) if not each.pure}
    found: set[str] = set()
    for name, each in parsed.items():
        for node in _nodes(each):
            if not isinstance(node, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt):
                continue
            volatile = not isinstance(node, ast.InsertStmt) and _VOLATILE & _called(node)
            table = str(cast("Any", node.relation).relname)
            if (volatile or _CLOCKS & _called(_after_rows(node))) and table not in local:
                found.add(f"{name} on {table}")
    assert found == set()


@needs_cluster
async def test_a_statement_asks_one_node_or_is_listed(db: Database) -> None:
    found: dict[str, object] = {}
    for name, query in ALL:
        try:
            count = await tasks(db, query.sql, OTHER_VALUES.get(name))
        except PostgresError as error:
            found[name] = str(error)
        else:
            if (count > 1) != (name in FAN_OUT):
                found[name] = count
    assert found == {}


async def test_rows_that_draw_ids_are_not_read_from_tables_alone(db: Database) -> None:
    """Citus reads such rows from every node, unless a list of values is joined; the values are then part of the plan."""
    parsed = {name: pglast.parse_sql(query.sql) for name, query in ALL if query.unbound is None}
    parsed |= {
        each.name: tuple(statements(each))
        for each in functions(distributed=True)
        if not each.pure and not each.sql.startswith(OVER_ALL_STORES)
    }
    drawing = {str(row[0]) for row in await db.fetch(DRAWING)}
    owned = await store_owned(db)
    inserts = {name: list(_inserts(each, drawing)) for name, each in parsed.items()}
    assert {name for name, found in inserts.items() if any(_reads_only_tables(each, owned) for each in found)} == set()
    assert sum(map(len, inserts.values())) > 10
    alone = "INSERT INTO events (store_id, id) SELECT $1, o.id FROM orders o WHERE o.store_id = $1"
    assert [_reads_only_tables(each, owned) for each in _inserts(pglast.parse_sql(alone), drawing)] == [True]


def _reads_only_tables(insert: ast.InsertStmt, owned: set[str]) -> bool:
    inside = list(_nodes(insert.selectStmt))
    reads = any(isinstance(node, ast.RangeVar) and node.relname in owned for node in inside)
    return reads and not any(isinstance(node, ast.RangeFunction) for node in inside)


@needs_cluster
async def test_every_shape_of_a_list_asks_one_node(db: Database) -> None:
    for listing, path in LISTINGS:
        for shape in set(shapes(listing, list(listing.sorts))):
            assert await tasks(db, listing.statement(shape)) == 1, (path, shape)


def test_no_statement_takes_a_shared_row_lock_on_a_global_table() -> None:
    """Citus takes a stronger lock on the table afterwards, so two such statements deadlock."""
    shared = re.compile(r"FOR (KEY )?SHARE")
    assert [name for name, query in ALL if query.unbound is not None and shared.search(query.sql)] == []


def test_no_change_has_a_moment_inside_coalesce() -> None:
    """Citus refuses functions that are not immutable there; least(column, now()) does the same, because it ignores null."""
    refused = re.compile(r"coalesce\([^()]*,\s*(now|clock_timestamp)\(\)", re.IGNORECASE)
    assert [name for name, query in ALL if query.sql.startswith("UPDATE") and refused.search(query.sql)] == []


def test_no_statement_over_several_nodes_selects_rows_without_columns() -> None:
    """Citus collects the rows of each node in a function that needs a column."""
    assert [name for name, query in ALL if name in FAN_OUT and "(SELECT FROM" in query.sql] == []


def test_the_list_names_statements_that_exist() -> None:
    assert set(FAN_OUT) | PLANNED <= NAMES


def test_no_statement_of_one_store_is_listed() -> None:
    assert [name for name, query in ALL if name in FAN_OUT and query.unbound is None] == []


@pytest.mark.parametrize("function", CHANGED + ADDED, ids=lambda function: function.name)
async def test_a_function_of_a_cluster_ties_each_statement_to_a_store(db: Database, function: Function) -> None:
    assert violations(function, await store_owned(db)) == []


@pytest.mark.parametrize("function", CHANGED, ids=lambda function: function.name)
async def test_a_function_of_a_cluster_that_forgets_its_store_once_is_caught(db: Database, function: Function) -> None:
    owned = await store_owned(db)
    assert [place for place, mutant in mutants(function) if not violations(mutant, owned)] == []


@pytest.mark.parametrize("function", CHANGED, ids=lambda function: function.name)
def test_only_functions_over_all_stores_differ_on_a_cluster(function: Function) -> None:
    plain = PLAIN[function.name]
    assert plain.sql.startswith(OVER_ALL_STORES)
    assert function.sql.startswith(OVER_ALL_STORES)
    assert _signature(function) == _signature(plain)


def _signature(function: Function) -> str:
    """Arguments and result of a function, without line breaks."""
    head = re.sub(r"^--.*$", "", function.sql, flags=re.MULTILINE).partition("LANGUAGE")[0]
    return " ".join(re.sub(r"\s*([(),])\s*", r"\1 ", head).split())
