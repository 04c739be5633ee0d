"""Every statement says where it runs when stores are in several databases: of one store, of the directory, of each shard, or of all.

A statement on tables of a store runs where the store is. Global tables are written in the directory, and read anywhere, because
they are replicated. No statement can join what is in two databases.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pglast
import pytest
from pglast import ast
from tests.contract import tenancy
from tests.contract.test_statements import ALL, LISTINGS

from stoa.db.fan_out import FanOut
from stoa.db.listing import Shape
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.db.schema_files import functions

FUNCTIONS = {function.name: function for function in functions()}
# Tables that a cluster keeps on its coordinator, and that only the directory uses.
OF_DIRECTORY = {"failed_attempts", "reset_requests", "used_assertions", "directory_inbox"}
# Replicated like a global table, so that a request reads them in the shard.
REPLICATED = {"tokens"}
# Statements that write global tables and tables of stores: they reach the stores of the directory's own database.
IN_DIRECTORY_ONLY = {"stoa.webhooks.app_subscription_rollout.APPLY"}


def nodes(node: Any) -> Iterator[Any]:
    """A part of a statement with everything inside it."""
    if isinstance(node, ast.Node):
        yield node
        for name in cast("Any", node):
            yield from nodes(getattr(node, name))
    elif isinstance(node, tuple | list):
        for each in cast("Iterable[Any]", node):
            yield from nodes(each)


def tables_of(sql: str) -> tuple[set[str], set[str]]:
    """The tables that a statement names and writes, with those of the functions that it calls."""
    named: set[str] = set()
    written: set[str] = set()
    called: set[str] = set()
    waiting = [cast("Any", raw).stmt for raw in pglast.parse_sql(sql)]
    while waiting:
        for node in nodes(waiting.pop()):
            if isinstance(node, ast.RangeVar):
                named.add(str(node.relname))
            elif isinstance(node, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt):
                written.add(str(cast("Any", node).relation.relname))
            elif isinstance(node, ast.FuncCall):
                name = str(cast("Any", node).funcname[-1].sval)
                if name in FUNCTIONS and name not in called and not FUNCTIONS[name].pure:
                    waiting += tenancy.statements(FUNCTIONS[name])
                called.add(name)
    return named, written


async def placed(db: Database) -> dict[str, str]:
    rows = await db.fetch(
        """SELECT c.relname, obj_description(c.oid, 'pg_class') FROM pg_class c
            WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace AND NOT c.relispartition"""
    )
    return {name: "global" if name in REPLICATED else declared for name, declared in rows}


def faults(query: Query[Any], places: dict[str, str]) -> list[str]:
    """What is wrong with the declaration of a statement."""
    named, written = tables_of(query.sql)
    of_stores = {table for table in named if places.get(table) == "store"}
    shared = {table for table in written if places.get(table) == "global"} | named & OF_DIRECTORY
    found: list[str] = []
    if of_stores and shared:
        found.append(f"{sorted(of_stores)} are in the shard of a store, and {sorted(shared)} in the directory")
    if of_stores and query.unbound is not None and query.over is None:
        found.append(f"it reads {sorted(of_stores)} of many stores: say over which shards")
    if not of_stores and query.over is not None:
        found.append("it reads no table of a store, so it is not over shards")
    return found


@pytest.mark.parametrize(
    "query", [pytest.param(query, id=name) for name, query in ALL if name not in IN_DIRECTORY_ONLY]
)
async def test_a_statement_runs_in_one_database(db: Database, query: Query[Any]) -> None:
    assert faults(query, await placed(db)) == []


@pytest.mark.parametrize("query", [pytest.param(query, id=name) for name, query in ALL if isinstance(query, FanOut)])
def test_a_fan_out_leaves_out_the_stores_that_the_database_does_not_hold(query: FanOut[Any]) -> None:
    last = max(int(number) for number in re.findall(r"\$(\d+)", query.sql))
    assert re.search(rf"<> ALL \(\${last}::bigint\[\]\)", query.sql)


async def test_a_list_runs_in_the_shard_of_its_store(db: Database) -> None:
    places = await placed(db)
    for listing, path in LISTINGS:
        assert faults(Query(str, listing.statement(Shape())), places) == [], path


@pytest.mark.parametrize(
    "query",
    [
        Query(int, "SELECT count(*) FROM products", unbound="a test"),
        Query(int, "UPDATE stores SET name = '' WHERE id IN (SELECT store_id FROM products WHERE store_id = $1)"),
        Query(int, "SELECT 1 FROM products p JOIN reset_requests r ON true WHERE p.store_id = $1"),
        Query(int, "SELECT count(*) FROM apps", unbound="a test", over="shards"),
        Query(int, "SELECT count(*) FROM apply_app_subscriptions(1, '1s')", unbound="a test", over="shard"),
    ],
)
async def test_a_wrong_declaration_is_found(db: Database, query: Query[Any]) -> None:
    assert faults(query, await placed(db))
