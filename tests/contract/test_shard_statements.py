"""Every statement says where it runs when stores are in several databases: of one store, of the directory, of each shard, or of all.

A statement on tables of a store runs where the store is. Global tables are written in the directory, and read anywhere, because
they are replicated. No statement can join what is in two databases, and no transaction can write in two.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple, cast

import pglast
import pytest
from pglast import ast
from tests.contract import tenancy
from tests.contract.test_statements import ALL, LISTINGS, statements
from tests.contract.transactions import Writes

from stoa.api import ENDPOINTS
from stoa.db.fan_out import FanOut
from stoa.db.listing import Shape
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.db.schema_files import functions
from stoa.portal.site_map import FORMS

FUNCTIONS = {function.name: function for function in functions()}
# Tables that a cluster keeps on its coordinator, and that only the directory uses.
OF_DIRECTORY = {"failed_attempts", "reset_requests", "used_assertions", "directory_inbox"}
# Replicated like a global table, so that a request reads them in the shard.
REPLICATED = {"tokens"}
# Statements that use global tables and tables of stores: they reach the stores of the directory's own database.
IN_DIRECTORY_ONLY = {"stoa.access.queries.ARRIVAL", "stoa.webhooks.app_subscription_rollout.APPLY"}
# What a shard cannot write of global tables, or the directory of a store, these functions send in a message, in the same transaction.
SENDERS = {
    "stoa.db.directory_outbox.send",
    "stoa.db.shard_outbox.send_to_store",
    "stoa.db.shard_outbox.send_to_shards",
}
SENDING = {
    "stoa.access.operator.Operator.send_entry",
    "stoa.accounts.install_requests._end_request",
    "stoa.inventory.locations._publish",
    "stoa.notifications.notify.notify",
}
_ROLLED_OUT = "it acts on the stores of the directory, and tells the shards, whose stores follow"
_NEW_STORE = "a new store that is in a shard gets its first rows in a message"
_DEMO = "the demo has one database"
_BY_ITSELF = "it writes each database in a transaction of its own"
# Functions whose transaction may write global tables and rows of a store, and how a store in a shard gets its part.
IN_TWO_DATABASES = {
    "stoa.access.apps.delete_app": _ROLLED_OUT,
    "stoa.access.stores.create_store": _NEW_STORE,
    "stoa.accounts.ownership.change_listing": _ROLLED_OUT,
    "stoa.accounts.ownership.open_development_store": _NEW_STORE,
    "stoa.accounts.ownership.open_store": _NEW_STORE,
    "stoa.app_file.push.push": _ROLLED_OUT,
    "stoa.db.shard_outbox._receive": _BY_ITSELF,
    "stoa.demo.development_stores._create": _NEW_STORE,
    "stoa.demo.run._open_store": _DEMO,
    "stoa.demo.uploads.import_files": _DEMO,
    "stoa.operations.maintenance.maintain": "in a shard, it leaves out the tasks of the directory",
    "stoa.portal.apps.endpoint.rotate_signing_secret": _ROLLED_OUT,
    "stoa.shards.membership.add": _BY_ITSELF,
    "stoa.shards.restoring.restore_shard": "it writes each database in transactions of its own, and may be repeated",
    "stoa.webhooks.app_callbacks.resume_endpoint": _ROLLED_OUT,
    "stoa.webhooks.app_callbacks.rotate_signing_secret": _ROLLED_OUT,
    "stoa.webhooks.app_callbacks.save_callbacks": _ROLLED_OUT,
}


def nodes(node: Any) -> Iterator[Any]:
    """A part of a statement with everything inside it."""
    if isinstance(node, ast.Node):
        yield node
        for name in cast("Any", node):
            yield from nodes(getattr(node, name))
    elif isinstance(node, tuple | list):
        for each in cast("Iterable[Any]", node):
            yield from nodes(each)


class Named(NamedTuple):
    """The tables that statements name and write, and the functions that they call."""

    tables: set[str]
    written: set[str]
    called: set[str]


def named_in(statements: Iterable[Any]) -> Named:
    found = Named(set(), set(), set())
    for node in nodes(list(statements)):
        if isinstance(node, ast.RangeVar):
            found.tables.add(str(node.relname))
        elif isinstance(node, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt):
            found.written.add(str(cast("Any", node).relation.relname))
        elif isinstance(node, ast.FuncCall):
            found.called.add(str(cast("Any", node).funcname[-1].sval))
    return found


@cache
def named_in_function(name: str) -> Named:
    return named_in(tenancy.statements(FUNCTIONS[name]))


def tables_of(sql: str) -> tuple[set[str], set[str]]:
    """The tables that a statement names and writes, with those of the functions that it calls."""
    named, written, waiting = named_in(cast("Any", raw).stmt for raw in pglast.parse_sql(sql))
    called: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in FUNCTIONS and name not in called and not FUNCTIONS[name].pure:
            inside = named_in_function(name)
            named |= inside.tables
            written |= inside.written
            waiting |= inside.called - called
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


@pytest.fixture
async def writes(db: Database) -> Writes:
    places = await placed(db)
    known: dict[str, frozenset[str]] = {}
    for _, query in ALL:
        known[query.sql] = frozenset(places.get(table, "") for table in tables_of(query.sql)[1])
    return Writes({name: known[query.sql] & {"store", "global"} for name, query in statements()}, SENDERS | SENDING)


async def test_a_transaction_writes_one_database_or_says_how_the_other_follows(writes: Writes) -> None:
    found = {function for function in writes.transactions() if writes.of(function) >= {"store", "global"}}
    assert found == set(IN_TWO_DATABASES)


async def test_the_handlers_of_a_store_write_no_global_table(writes: Writes) -> None:
    """They run where the store is: those of the API, and those of forms that are declared so."""
    handlers = [endpoint.handler for endpoint in ENDPOINTS] + [form.handler for form in FORMS if form.in_shard]
    named = [f"{handler.__module__}.{handler.__qualname__}" for handler in handlers]
    assert [name for name in named if "global" in writes.of(name)] == []


async def test_what_sends_a_message_instead_names_its_sender(writes: Writes) -> None:
    assert [name for name in SENDING if not writes.mentions(name) & SENDERS] == []
