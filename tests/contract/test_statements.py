"""Every statement is valid for the schema, matches its row type and is bound to one store."""

import importlib
import itertools
import pkgutil
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import pytest
from tests.support.databases import on_cluster

import stoa
from stoa.api import ENDPOINTS
from stoa.customers import queries as customer_queries
from stoa.db.listing import Listing, Shape
from stoa.db.placement import CITUS_CATALOG
from stoa.db.pool import Database
from stoa.db.query import Command, Query
from stoa.inventory import queries as inventory_queries
from stoa.orders import queries as order_queries
from stoa.products import queries as product_queries
from stoa.webhooks.api import queries as webhook_queries

LISTINGS: list[tuple[Listing, str]] = [
    (product_queries.LISTING, "/products"),
    (product_queries.VARIANT_LISTING, "/products/variants"),
    (product_queries.VARIANT_LISTING, "/products/{product_id}/variants"),
    (inventory_queries.INVENTORY, "/products/inventory"),
    (inventory_queries.LEDGER, "/products/inventory/adjustments"),
    (customer_queries.LISTING, "/customers"),
    (order_queries.LISTING, "/orders"),
    (order_queries.COMMENTS, "/orders/{order_id}/comments"),
    (order_queries.DUPLICATES, "/orders/{order_id}/duplicates"),
    (webhook_queries.LISTING, "/webhooks"),
    (webhook_queries.DELIVERIES, "/webhooks/{webhook_id}/deliveries"),
]
# Filters that follow from the caller and not from the request.
CALLER_FILTERS = {"/webhooks": {"app_id"}}
# Filters that the handler replaces by others.
TYPED = {"metadata compared", "metadata listed"}  # the filter `metadata` on keys with a type
RESOLVED = {
    "/customers": (
        {"accepts_marketing", "consent"},
        {f"{channel}_consent{rest}" for channel in ("email", "sms") for rest in ("", " or none")} | TYPED,
    ),
    "/orders": (set[str](), {"default_location"} | TYPED),
    "/products": (set[str](), TYPED),
}
TYPES: dict[str, Any] = {
    "int8": int, "int4": int, "int2": int, "text": str, "varchar": str, "bool": bool, "bytea": bytes, "float8": float,
    "timestamptz": datetime, "date": date, "text[]": list[str], "bytea[]": list[bytes], "int4[]": list[int], "int8[]": list[int],
    "float8[]": list[float], "bool[]": list[bool], "waiting_event": Sequence[Any], "subscribers": Sequence[Any],
}  # fmt: skip


def statements() -> Iterator[tuple[str, Query[Any]]]:
    for module in pkgutil.walk_packages(stoa.__path__, "stoa."):
        if module.name == "stoa.__main__":
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, Query):
                yield f"{module.name}.{name}", value


ALL = {id(query): (name, query) for name, query in statements()}.values()
# The catalog of Citus exists only there.
STATEMENTS = [pytest.param(query, id=name) for name, query in ALL if on_cluster() or query.unbound != CITUS_CATALOG]
BOUND = [pytest.param(query, id=name) for name, query in ALL if query.unbound is None]


def _plain(kind: Any) -> Any:
    """A field's type without annotations and without None."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        kinds = [each for each in get_args(kind) if each is not NoneType]
        return kinds[0] if len(kinds) == 1 else kind
    return kind


@pytest.mark.parametrize("query", STATEMENTS)
async def test_a_statement_matches_the_schema_and_its_row_type(db: Database, query: Query[Any]) -> None:
    async with db.transaction() as connection:
        prepared = await connection.prepare(query.sql)
    columns = [(column.name, column.type.name) for column in prepared.get_attributes()]
    if isinstance(query, Command):
        assert columns == [], "a command returns no rows"
    elif issubclass(query.row, msgspec.Struct):
        fields = [each for each in msgspec.structs.fields(query.row) if each.name in query.row.__match_args__]
        assert [name for name, _ in columns] == [field.name for field in fields]
        for (_, kind), field in zip(columns, fields, strict=True):
            assert TYPES[kind] == _plain(field.type), f"{field.name} is {kind} in the database"
    else:
        assert len(columns) == 1
        assert TYPES[columns[0][1]] == query.row


async def store_owned(db: Database) -> set[str]:
    rows = await db.fetch(
        """SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'store_id'
            WHERE c.relkind IN ('r', 'p', 'v') AND c.relnamespace = 'public'::regnamespace
              AND coalesce(obj_description(c.oid), '') NOT IN ('global', 'local')"""
    )
    return {row[0] for row in rows}


def scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Relation Name" in node and node["Node Type"] != "ModifyTable":
        yield node
    for child in node.get("Plans", []):
        yield from scans(child)


CONDITIONS = ("Index Cond", "Filter", "Recheck Cond")
of_one_server = pytest.mark.not_on_cluster("a plan there names shards, which tests/cluster/test_routing.py counts")


async def assert_bound(db: Database, sql: str) -> None:
    owned = await store_owned(db)
    async with db.transaction() as connection:
        parameters = len((await connection.prepare(sql)).get_parameters())
        await connection.execute(f"SET LOCAL plan_cache_mode = force_generic_plan; PREPARE checked AS {sql}")
        values = f"({', '.join(['NULL'] * parameters)})" if parameters else ""
        rows = await connection.fetch(f"EXPLAIN (FORMAT JSON, VERBOSE) EXECUTE checked{values}")
        await connection.execute("DEALLOCATE checked")
    plan = msgspec.json.decode(rows[0][0])[0]["Plan"]
    for scan in scans(plan):
        if scan["Relation Name"] in owned:
            conditions = " ".join(str(scan.get(name, "")) for name in CONDITIONS) + str(
                [child.get("Index Cond", "") for child in scan.get("Plans", [])]
            )
            assert "store_id = $1" in conditions, f"{scan['Relation Name']} is not limited to a store: {conditions}"
    for table in owned:
        insert = re.search(rf"INSERT INTO {table}\b[^(]*\(\s*(\w+)(.*?)(VALUES \(|SELECT )\s*(\S+?),", sql, re.DOTALL)
        if insert:
            assert (insert[1], insert[4]) == ("store_id", "$1"), f"{table} is written without store_id = $1"


@of_one_server
@pytest.mark.parametrize("query", BOUND)
async def test_a_statement_is_bound_to_its_store(db: Database, query: Query[Any]) -> None:
    await assert_bound(db, query.sql)


def shapes(listing: Listing, sorts: list[str]) -> Iterator[Shape]:
    names = sorted(listing.where)
    for name in names:
        yield Shape(filters=(name,))
        yield Shape(filters=(name,), joined=",")
        yield Shape(filters=(name,), single=(name,))
        yield Shape(filters=(name,), resumed=True, counted=False)
    yield Shape(filters=tuple(names), sort=("id",), resumed=True)
    for sort in sorts:
        for sign, resumed, backwards, deleted in itertools.product(
            ("", "-"), (False, True), (False, True), (False, True)
        ):
            keys = (f"{sign}id",) if sort == "id" else (f"{sign}{sort}", f"{sign}id")
            if sort in listing.ranked:
                needed = (listing.ranked[sort].filter,)
                yield Shape(
                    filters=needed, sort=keys, resumed=resumed, backwards=backwards and resumed, deleted=deleted
                )
                yield Shape(filters=needed, sort=keys, resumed=resumed, counted=False)
                continue
            yield Shape(sort=keys, resumed=resumed, backwards=backwards and resumed, deleted=deleted)
            yield Shape(sort=keys, offset=True, deleted=deleted)
            yield Shape(sort=keys, resumed=True, deleted=deleted, counted=False)
            for partly in (False, True):
                joined = "" if backwards else "\n"
                behind = backwards and resumed
                yield Shape(sort=keys, resumed=resumed, backwards=behind, joined=joined, most=50, partly=partly)
    plain = [sort for sort in sorts if sort != "id" and sort not in listing.ranked]
    yield Shape(sort=(*(f"-{sort}" for sort in plain), "id"), resumed=True)
    yield Shape(
        filters=tuple(names) if listing.ranked else (),
        sort=(*(f"-{sort}" for sort in listing.ranked), "id"),
        resumed=True,
    )


@of_one_server
@pytest.mark.parametrize(("listing", "path"), LISTINGS)
async def test_every_shape_of_a_list_is_bound_to_its_store(db: Database, listing: Listing, path: str) -> None:
    for shape in set(shapes(listing, list(listing.sorts))):
        await assert_bound(db, listing.statement(shape))


@pytest.mark.parametrize(("listing", "path"), LISTINGS)
def test_every_documented_filter_and_sort_has_sql(listing: Listing, path: str) -> None:
    spec = next(endpoint.lists for endpoint in ENDPOINTS if endpoint.path == path and endpoint.lists)
    documented: set[str] = set()
    for name, kind in spec.filters.items():
        documented |= {name, *(f"{name}[{operator}]" for operator in kind.operators if operator != "*")}
    resolved, columns = RESOLVED.get(path, (set[str](), set[str]()))
    more = set(re.findall(r"{(\w+)}", path)) | CALLER_FILTERS.get(path, set()) | columns
    assert (documented - resolved) | more == set(listing.where)
    assert set(spec.sorts) == set(listing.sorts)
    assert spec.deletable == listing.deletable


def test_every_list_endpoint_is_checked() -> None:
    assert {path for _, path in LISTINGS} == {endpoint.path for endpoint in ENDPOINTS if endpoint.lists}


@of_one_server
async def test_the_keys_of_store_owned_tables_begin_with_the_store(db: Database) -> None:
    owned = await store_owned(db)
    rows = await db.fetch(
        """SELECT t.relname, i.relname, a.attname, x.indisunique FROM pg_index x
             JOIN pg_class t ON t.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
             JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = x.indkey[0]
            WHERE t.relnamespace = 'public'::regnamespace"""
    )
    for table, index, first, unique in rows:
        if table in owned and unique:
            assert first == "store_id", f"{index} of {table} begins with {first}"
    keys = await db.fetch(
        """SELECT c.conrelid::regclass::text, c.confrelid::regclass::text, c.conname,
                  (SELECT array_agg(a.attname::text) FROM pg_attribute a
                    WHERE a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey))
             FROM pg_constraint c WHERE c.contype = 'f' AND c.connamespace = 'public'::regnamespace"""
    )
    for table, target, name, columns in keys:
        if table in owned and target in owned:
            assert "store_id" in columns, f"{name} of {table} can refer to another store"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM products WHERE id = $1",
        "SELECT v.id FROM products p JOIN variants v ON v.product_id = p.id WHERE p.store_id = $1 AND p.id = $2",
        "UPDATE variants SET on_hand = 0 WHERE id = $1",
        "INSERT INTO row_counts (resource, store_id, delta) VALUES ($1, $2, $3)",
    ],
)
@of_one_server
async def test_a_statement_without_its_store_is_detected(db: Database, sql: str) -> None:
    with pytest.raises(AssertionError, match="store"):
        await assert_bound(db, sql)
