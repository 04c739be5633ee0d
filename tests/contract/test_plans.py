"""A request that names a few rows reads few rows, however many a store has: no plan scans all of them."""

import os
import re
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.metadata.support import merchant_defines
from tests.support.crowd import gather, name_of
from tests.support.service import migrated_database, new_database, sibling
from tests.support.shops import Shop, api_client, open_shop

from stoa.api import ENDPOINTS
from stoa.app import Application
from stoa.db.connection import Connection, connect
from stoa.db.pool import Database
from stoa.settings import Settings

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.not_on_cluster("it counts the rows that one server reads"),
]

# Limits per named row. A write descends every index of its tables, a few blocks each, and an order writes many tables.
# Scanning a single index of this store reads more than a hundred blocks, and all its rows.
MOST_ROWS, MOST_READ, MOST_WRITTEN = 50, 30, 250
MOST_OF_A_PAGE = 250  # rows and blocks: of each of 51 rows, and of what belongs to it
FAR = 5_000  # distance between the rows that one request names
PLANS = ("force_generic_plan", "force_custom_plan")  # the server chooses either

NOT_REQUESTED = {
    "DELETE /customers/{customer_id}": "erasure searches texts that no index covers",
    "DELETE /products/{product_id}/variants/{variant_id}": "the only variant cannot be deleted; the statements are those of a change",
    "POST /products/imports": "the runner's statements are those of a batch",
    "GET /products/imports/{import_id}": "a store has few jobs",
    "POST /customers/imports": "as with products",
    "GET /customers/imports/{import_id}": "as with products",
}
# <name> is an id or another key of a row; <name 2> is that of a distant row.
_REQUESTS = """
GET /products/<product_id>
GET /products?ids=<product_id>,<product_id 2>,<product_id 3>
GET /products?ids=<product_id>,<product_id 2>,<product_id 3>&sort=-updated_at
GET /products?ids=<product_id>,<product_id 2>&include=variants,inventory
GET /products?ids=<product_id>,<product_id 2>&include_deleted=true
GET /products?sku=<sku>
GET /products?sku=<sku>,<sku 2>,<sku 3>
GET /products?barcode=<barcode>
GET /products?barcode=<barcode>,<barcode 2>,<barcode 3>
GET /products?external_id=<product>
POST /products {"name":"New","price":"3.00","sku":"<new>","external_id":"<new>"}
PATCH /products/<product_id> {"price":"3.00"}
PATCH /products/<product_id> {"external_id":"<new>"}
DELETE /products/<product_id>
POST /products/batch {"items":[{"op":"update","id":<product_id>,"data":{"price":"3.00"}},{"op":"update","match_by":"sku","sku":"<sku 2>","data":{"price":"3.00"}},{"op":"upsert","match_by":"external_id","external_id":"<product>","data":{"name":"Mug","price":"3.00"}}]}
GET /products/variants?ids=<variant_id>,<variant_id 2>,<variant_id 3>
GET /products/variants?product_id=<product_id>,<product_id 2>,<product_id 3>
GET /products/variants?sku=<sku>
GET /products/variants?sku=<sku>,<sku 2>,<sku 3>
GET /products/variants?barcode=<barcode>
GET /products/variants?barcode=<barcode>,<barcode 2>,<barcode 3>
PATCH /products/variants {"items":[{"id":<variant_id>,"data":{"price":"3.00"}},{"sku":"<sku 2>","data":{"price":"3.00"}}]}
GET /products/<product_id>/variants
GET /products/<product_id>/variants/<variant_id>
PATCH /products/<product_id>/variants/<variant_id> {"price":"3.00"}
POST /products/<product_id>/variants {"option_values":{"Size":"M"}}
GET /products/inventory?variant_id=<variant_id>,<variant_id 2>,<variant_id 3>
GET /products/inventory?product_id=<product_id>,<product_id 2>,<product_id 3>
GET /products/inventory?sku=<sku>
GET /products/inventory?sku=<sku>,<sku 2>,<sku 3>
POST /products/inventory/adjustments {"reason":"correction","items":[{"sku":"<sku>","op":"adjust","quantity":-1}]}
POST /products/inventory/adjustments {"reason":"correction","items":[{"variant_id":<variant_id>,"op":"adjust","quantity":-1},{"variant_id":<variant_id 2>,"op":"set","quantity":7}]}
GET /products/inventory/adjustments?variant_id=<variant_id>,<variant_id 2>
GET /products/inventory/adjustments?product_id=<product_id>,<product_id 2>
GET /products/inventory/adjustments?order_id=<order_id>,<order_id 2>
GET /products/inventory/adjustments?sku=<sku>
GET /products/inventory/adjustments?sku=<sku>,<sku 2>,<sku 3>
GET /orders/<order_id>
GET /orders?ids=<order_id>,<order_id 2>,<order_id 3>
GET /orders?ids=<order_id>,<order_id 2>,<order_id 3>&sort=-placed_at
GET /orders?customer_id=<customer_id>,<customer_id 2>
GET /orders?email=<email>
GET /orders?phone=<phone>
GET /orders?sku=<sku>
GET /orders?sku=<sku>,<sku 2>,<sku 3>
GET /orders?number=<number>
GET /orders?external_id=<order>
GET /orders?ids=<order_id>,<order_id 2>,<order_id 3>&location=default
GET /orders?ids=<order_id>,<order_id 2>,<order_id 3>&fulfillable_at=default
POST /orders {"customer_id":<customer_id>,"line_items":[{"sku":"<sku>","quantity":1},{"sku":"<sku 2>","quantity":1},{"variant_id":<variant_id 3>,"quantity":1}]}
POST /orders {"customer":{"email":"<email>"},"line_items":[{"sku":"<sku>","quantity":1}]}
PATCH /orders/<order_id> {"note":"Ring twice"}
PUT /orders/<order_id>/status {"status":"processing"}
PUT /orders/<order_id>/status {"status":"cancelled"}
POST /orders/<order_id>/products {"line_items":[{"sku":"<sku 2>","quantity":1}]}
PATCH /orders/<order_id>/products/<line_id> {"quantity":2}
PATCH /orders/<order_id>/products/<line_id> {"location":"default"}
GET /orders/<order_id>/comments
POST /orders/<order_id>/comments {"body":"Called back"}
GET /orders/<order_id>/duplicates
POST /orders/<order_id>/duplicates {"status":"pending"}
GET /customers/<customer_id>
GET /customers?ids=<customer_id>,<customer_id 2>,<customer_id 3>
GET /customers?ids=<customer_id>,<customer_id 2>,<customer_id 3>&sort=-updated_at
GET /customers?email=<email>
GET /customers?phone=<phone>
GET /customers?external_id=<customer>
POST /customers {"email":"<new>@example.com"}
PATCH /customers/<customer_id> {"note":"Likes mugs"}
PATCH /customers/<customer_id> {"email":"<new>@example.com","external_id":"<new>"}
POST /customers/<customer_id>/addresses {"address1":"2 Mill Lane","country_code":"BE"}
PATCH /customers/<customer_id>/addresses/<address_id> {"city":"Leuven"}
DELETE /customers/<customer_id>/addresses/<address_id>
PATCH /customers/<customer_id>/metadata {"tier":"silver"}
"""
REQUESTS = _REQUESTS.strip().splitlines()
# Filters that match no row.
RARE = """
GET /products?status=draft
GET /products?q=unheard
GET /products?tag=unheard
GET /products?collection=unheard
GET /products?collection=unheard&sort=position
GET /products?gtin=40170725
GET /products/variants?gtin=40170725,4006381333931
GET /orders?status=shipped
GET /orders?payment_status=refunded
GET /orders?fulfillment_status=returned
GET /orders?tag=unheard
GET /orders?created_at[gte]=1999-01-01T00:00:00Z&created_at[lt]=1999-02-01T00:00:00Z
GET /orders?created_at[gte]=2999-01-01T00:00:00Z&sort=-created_at
GET /orders?shipped_at[gte]=2999-01-01T00:00:00Z&shipped_at[lt]=2999-02-01T00:00:00Z
GET /orders?paid_at[gte]=2999-01-01T00:00:00Z&paid_at[lt]=2999-02-01T00:00:00Z
GET /orders?refunded_at[gte]=2999-01-01T00:00:00Z&refunded_at[lt]=2999-02-01T00:00:00Z
GET /orders?location=nowhere
GET /orders?expires_at=2999-01-01T00:00:00Z
GET /customers?status=disabled
GET /customers?q=unheard
GET /customers?metadata[tier]=unheard
GET /customers?accepts_marketing=true
GET /customers?consent[email]=pending
GET /customers?consent[sms]=unsubscribed&consent[email]=subscribed
""".strip().splitlines()
# Ranges of metadata, which descend their index once for each prefix.
RANGES = """
GET /products?metadata[grams][gte]=3000
GET /products?metadata[grams][gt]=250&metadata[grams][lt]=250.5
GET /products?metadata[grams]=251
GET /orders?metadata[grams][gte]=3000
GET /orders?metadata[grams][lt]=-1.5
GET /customers?metadata[shared.grams][gte]=3000
""".strip().splitlines()
# Pages of a whole list, in the order of each sort key that has an index.
PAGES = """
GET /products
GET /products?sort=-name
GET /products?sort=price
GET /products?sort=-updated_at
GET /products/variants
GET /products/variants?sort=-updated_at
GET /products/inventory
GET /orders
GET /orders?sort=-placed_at
GET /orders?sort=updated_at
GET /customers
GET /customers?sort=-updated_at
""".strip().splitlines()
_NAME = re.compile(r"<([a-z_]+) ?(\d?)>")
# The planner reads the first page of an empty index for each statement.
_FINISH = """UPDATE orders SET paid_at = now(), shipped_at = now(), refunded_at = now(), expires_at = now()
              WHERE (store_id, id) IN (SELECT store_id, max(id) FROM orders GROUP BY store_id)"""
# What autovacuum reads would count as read by a request.
_NO_AUTOVACUUM = """DO $$
DECLARE name regclass;
BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)', name);
    END LOOP;
END $$"""
_PLANNED = "SELECT statement, generic_plans FROM pg_prepared_statements WHERE statement LIKE 'SELECT (SELECT %'"
_FLUSH = "SELECT pg_stat_force_next_flush()"
_TOUCHED = """
SELECT (SELECT sum(idx_blks_hit + idx_blks_read) FROM pg_statio_user_indexes)::bigint,
       (SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables)::bigint"""


class Watched:
    """The large store, behind a service with one plan mode."""

    def __init__(self, shop: Shop, application: Application, db: Connection, first: int) -> None:
        self._application, self._db, self._next = application, db, first
        self._client = api_client(application, shop.store.handle, shop.token)

    async def send(self, text: str) -> tuple[int, int]:
        """Send a request, and return the number of index blocks and table rows that it read."""
        self._next += 10  # rows that no request has named yet
        named = _NAME.sub(lambda name: name_of(name[1], self._next + FAR * int(name[2] or 0)), text)
        method, path, body = f"{named} ".split(" ", 2)
        media = {"content-type": "application/json"} if body else {}
        before = await self._touched()
        answer = await self._client.request(method, path, content=body.encode(), headers=media)
        after = await self._touched()
        assert answer.is_success, answer.text
        assert "?" not in path or (answer.json()["meta"]["total"] > 0) == (text not in (*RARE, *RANGES))
        return after[0] - before[0], after[1] - before[1]

    async def _touched(self) -> tuple[int, int]:
        for database in (self._application.database, self._application.database.autocommit):
            await database.fetch(_FLUSH)
        [[blocks, rows]] = await self._db.fetch(_TOUCHED)
        return blocks, rows


@pytest.fixture(scope="module")
async def large(settings: Settings) -> Shop:
    """A large store in a database that nobody else uses; its connections are closed."""
    url = await migrated_database(f"test_plans_{os.getpid()}")
    database, db = Database(url, size=1), await connect(url, statement_timeout_ms=0)
    filling = Application(msgspec.structs.replace(settings, database_url=url))
    shop = await open_shop(filling, database)
    for resource, key in (("product", "grams"), ("order", "grams"), ("customer", "shared.grams")):
        await merchant_defines(shop, {"resource": resource, "key": key, "type": "decimal"})
    await gather(shop, db)
    await db.execute(_NO_AUTOVACUUM)
    await db.execute(_FINISH)
    await db.execute("VACUUM ANALYZE orders")
    await filling.close()
    await database.close()
    await db.close()
    return shop


@pytest.fixture(scope="module", params=PLANS)
async def watched(request: pytest.FixtureRequest, settings: Settings, large: Shop) -> AsyncIterator[Watched]:
    """A database for each plan mode: changes of one would leave old versions of rows, which the other reads.

    The last mode uses the filled database itself, of which the modes before it have copies.
    """
    number = PLANS.index(request.param)
    filled = f"test_plans_{os.getpid()}"
    last = number == len(PLANS) - 1
    url = sibling(settings.database_url, filled) if last else await new_database(f"{filled}_{number}", template=filled)
    db = await connect(url, statement_timeout_ms=0)
    planned = f"{url}{'&' if '?' in url else '?'}plan_cache_mode={request.param}"
    # One connection, so that its statistics can be flushed.
    application = Application(msgspec.structs.replace(settings, database_url=planned, database_pool=1))
    yield Watched(large, application, db, first=number * FAR // 2)
    await application.close()
    await db.close()


@pytest.mark.parametrize("limit", [1, 45, 120, 250])
async def test_a_whole_list_is_planned_once_whatever_its_limit(settings: Settings, large: Shop, limit: int) -> None:
    url = sibling(settings.database_url, f"test_plans_{os.getpid()}")
    application = Application(msgspec.structs.replace(settings, database_url=url, database_pool=1))
    async with api_client(application, large.store.handle, large.token) as client:
        for request in PAGES:
            path = request.removeprefix("GET ")
            for _ in range(6):  # PostgreSQL plans five executions for their values before it compares
                await client.get(f"{path}{'&' if '?' in path else '?'}limit={limit}")
    pools = (application.database, application.database.autocommit)
    planned = [row for pool in pools for row in await pool.fetch(_PLANNED)]
    await application.close()
    assert len(planned) == len(PAGES)
    assert [statement for statement, times in planned if not times] == []


# These come first: the requests that follow change rows, and a page would read their old versions too.
@pytest.mark.parametrize("request_", PAGES)
async def test_a_page_of_a_whole_list_reads_the_rows_of_the_page(watched: Watched, request_: str) -> None:
    await watched.send(request_)
    blocks, rows = await watched.send(request_)
    assert 50 <= rows <= MOST_OF_A_PAGE
    assert blocks <= MOST_OF_A_PAGE


@pytest.mark.parametrize("request_", REQUESTS)
async def test_a_request_that_names_rows_reads_few_others(watched: Watched, request_: str) -> None:
    await watched.send(request_)  # fills caches, such as that of the token
    blocks, rows = await watched.send(request_)
    names = len(set(_NAME.findall(request_)))
    assert rows <= MOST_ROWS * names
    assert blocks <= (MOST_READ if request_.startswith("GET ") else MOST_WRITTEN) * names


@pytest.mark.parametrize("request_", RARE)
async def test_a_filter_without_matches_does_not_scan_all_rows(watched: Watched, request_: str) -> None:
    await watched.send(request_)
    blocks, rows = await watched.send(request_)
    assert rows <= MOST_ROWS
    assert blocks <= MOST_READ


@pytest.mark.parametrize("request_", RANGES)
async def test_a_range_of_metadata_without_matches_does_not_scan_all_rows(watched: Watched, request_: str) -> None:
    await watched.send(request_)
    blocks, rows = await watched.send(request_)
    assert rows <= MOST_ROWS
    assert blocks <= MOST_OF_A_PAGE


def test_every_operation_that_names_rows_is_requested() -> None:
    requested = {
        _NAME.sub(lambda name: f"{{{name[1]}}}", " ".join(line.split(" ")[:2]).split("?")[0]) for line in REQUESTS
    }
    requested |= {line.replace("{line_id}", "{line_item_id}") for line in requested}
    every = {f"{each.method} {each.path}" for each in ENDPOINTS if each.group in ("Products", "Orders", "Customers")}
    assert every - requested == set(NOT_REQUESTED)
