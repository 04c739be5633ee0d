"""The home page of a store: what waits, sales by day and week in the store's zone, and the products that sell best."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.portal.stores import home_queries
from stoa.settings import Settings
from tests.portal.store_pages import place_order, rows
from tests.support.people import User, as_operator
from tests.support.shops import MUG, Shop

SHIRT = {"name": "Linen Shirt", "price": "59.00", "sku": "LS-S", "status": "active", "stock": {"on_hand": 50}}
PLACED_AT = "UPDATE orders SET placed_at = $3 WHERE store_id = $1 AND id = $2"


def todos(text: str) -> dict[str, tuple[str, str]]:
    """The number and the address of each entry, by its label."""
    found = re.findall(r'<li><a href="([^"]+)"><b>([^<]+)</b> <span>(.*?)</span></a></li>', text)
    labels = [re.sub(r"<[^>]+>", "", label) for _, _, label in found]
    return {label: (number, url.replace("&amp;", "&")) for label, (url, number, _) in zip(labels, found, strict=True)}


def figures(text: str) -> dict[str, tuple[str, str, str]]:
    """The total, the orders and the address of each figure, by its label."""
    pattern = (
        r'<dt>([^<]+)</dt><dd><a href="([^"]+)"><span class="money">([\d.,]+) .*?<small>(\d+) orders?</small></dd>'
    )
    return {
        label: (total, orders, url.replace("&amp;", "&")) for label, url, total, orders in re.findall(pattern, text)
    }


async def test_what_waits_comes_first_and_each_number_links_to_the_list_that_explains_it(
    shop: Shop, maria: User, store_url: str
) -> None:
    small = {"option_values": {"Size": "S"}, "sku": "LOW-1", "low_stock_threshold": 5, "stock": {"on_hand": 4}}
    sizes = {"options": [{"name": "Size", "values": ["S"]}], "variants": [small]}
    low = {"name": "Low mug", "price": "9.00", "status": "active", **sizes}
    await shop.add(SHIRT, low, {**MUG, "name": "Gone mug", "status": "active"})
    pending, paid = await place_order(shop), await place_order(shop)
    held = await place_order(shop)
    expiring = await place_order(shop, hold_for=3_600)
    await shop.client.put(f"/orders/{paid['id']}/status", json={"payment_status": "paid"})
    await shop.client.put(f"/orders/{held['id']}/status", json={"status": "on_hold"})
    part = {"payment": {"amount": "9.00", "method": "cash"}}
    assert (await shop.client.put(f"/orders/{pending['id']}/status", json=part)).status_code == 200
    await maria.open(f"{store_url}/home")
    found = todos(maria.text)
    assert next(iter(found)) == "to ship", "the most urgent first"
    assert {label: number for label, (number, _) in found.items()} == {
        "to ship": "3",
        "with money due: 168.00 USD": "3",  # 59.00 of two orders, and 50.00 of the one that is paid in part
        "held, expiring within 24 hours": "1",
        "on hold": "1",
        "suspected duplicates": "4",
        "out of stock": "1",
        "low on stock": "1",
    }
    listed = {
        "to ship": {pending["number"], paid["number"], expiring["number"]},
        "with money due: 168.00 USD": {pending["number"], held["number"], expiring["number"]},
        "held, expiring within 24 hours": {expiring["number"]},
        "on hold": {held["number"]},
    }
    for label, numbers in listed.items():
        await maria.open(found[label][1])
        assert set(rows(maria.text)) == {f"#{number}" for number in numbers}, label
    for label, name in (("out of stock", "Gone mug"), ("low on stock", "Low mug")):
        await maria.open(found[label][1])
        assert rows(maria.text) == [name]


async def test_sales_are_counted_by_the_days_of_the_store_and_link_to_their_orders(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    await shop.add(SHIRT)
    await db.execute("UPDATE stores SET timezone = 'Asia/Tokyo' WHERE id = $1", shop.store_id)
    midnight = datetime.now(ZoneInfo("Asia/Tokyo")).replace(hour=0, minute=0, second=0, microsecond=0)
    for when in (midnight, midnight - timedelta(seconds=1), midnight - timedelta(days=6), midnight - timedelta(days=7)):
        placed = await place_order(shop)
        await db.execute(PLACED_AT, shop.store_id, placed["id"], when.astimezone(UTC))
    old = await place_order(shop)
    await db.execute(PLACED_AT, shop.store_id, old["id"], midnight - timedelta(days=80))
    for status in ("draft", "cancelled"):
        other = await place_order(shop, **({"status": "draft"} if status == "draft" else {}))
        await db.execute(PLACED_AT, shop.store_id, other["id"], midnight)
        if status == "cancelled":
            await shop.client.put(f"/orders/{other['id']}/status", json={"status": "cancelled"})
    await maria.open(f"{store_url}/home")
    found = figures(maria.text)
    assert {label: (total, orders) for label, (total, orders, _) in found.items()} == {
        "Today": ("59.00", "1"),
        "Yesterday": ("59.00", "1"),
        "Last 7 days": ("177.00", "3"),
        "Last 30 days": ("236.00", "4"),
    }
    for label, (_, orders, url) in found.items():
        await maria.open(url)
        assert len(rows(maria.text)) == int(orders), label
    await maria.open(f"{store_url}/home?by=week")
    weeks = re.findall(r'<th scope="row"><a href="[^"]+">[^<]+</a></th><td>(\d+)</td>', maria.text)
    assert weeks == ["0", "0", "0", "0", "0", "0", "1", "3"]
    assert "Linen Shirt</a> <span><b>4</b> sold" in maria.text, "the products that sold best"


async def test_an_empty_store_says_what_to_do_first(shop: Shop, maria: User, store_url: str) -> None:
    await maria.open(f"{store_url}/home")
    assert "Add your products first" in maria.text
    await shop.add(SHIRT)
    await maria.open(f"{store_url}/home")
    assert "No orders yet" in maria.text
    assert "Nothing waits for you." in maria.text


async def test_a_viewer_sees_figures_and_no_persons(
    shop: Shop, db: Database, settings: Settings, zeno: User, store_url: str
) -> None:
    await shop.add(SHIRT)
    await place_order(shop)
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    await zeno.open(f"{store_url}/home")
    assert figures(zeno.text)["Today"][:2] == ("59.00", "1")
    assert "Ada" not in zeno.text


async def test_hostile_names_and_parameters_are_harmless(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add({**SHIRT, "name": "<script>alert(1)</script>", "sku": "X-1"})
    await place_order(shop, line_items=[{"sku": "X-1", "quantity": 1}])
    await maria.open(f"{store_url}/home?by=%00<script>")
    assert maria.response.status_code == 200
    assert "<script>alert" not in maria.response.text


async def test_the_figures_of_another_store_are_not_counted(
    shop: Shop, other_shop: Shop, maria: User, store_url: str
) -> None:
    await shop.add(SHIRT)
    await other_shop.add(SHIRT)
    await place_order(other_shop)
    await maria.open(f"{store_url}/home")
    assert "No orders yet" in maria.text


async def test_a_count_stops_and_says_so(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    await shop.add(SHIRT)
    placed = await place_order(shop)
    columns: list[str] = [
        row[0]
        for row in await db.fetch(
            """SELECT attname::text FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attnum > 0
                  AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"""
        )
    ]
    values = ", ".join({"id": "id + n", "number": "number + n"}.get(name, name) for name in columns)
    await db.execute(
        f"""INSERT INTO orders ({", ".join(columns)})
            SELECT {values} FROM orders, generate_series(1000000001, 1000000000 + $3::integer) n
             WHERE store_id = $1 AND id = $2""",
        shop.store_id,
        placed["id"],
        home_queries.MOST_COUNTED,
    )
    await maria.open(f"{store_url}/home")
    assert todos(maria.text)["to ship"][0] == "1,000+"


@pytest.mark.not_on_cluster("a plan there names shards")
@pytest.mark.parametrize(
    ("statement", "plan"),
    [
        (home_queries.SALES, "Index Only Scan using orders_sales_idx"),
        (home_queries.MONEY_DUE, "Index Scan Backward using orders_payment_status_idx"),
        (home_queries.TOP_PRODUCTS, r"Index (Only )?Scan Backward using orders_sales_idx"),
    ],
)
async def test_a_figure_is_read_through_an_index(db: Database, statement: Query[Any], plan: str) -> None:
    async with db.transaction() as connection:
        parameters = len((await connection.prepare(statement.sql)).get_parameters())
        # The tables of the tests are small, so that a sequential scan would be cheaper.
        await connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        await connection.execute("SET LOCAL enable_sort = off; SET LOCAL plan_cache_mode = force_generic_plan")
        await connection.execute(f"PREPARE figure AS {statement.sql}")
        rows = await connection.fetch(f"EXPLAIN EXECUTE figure({', '.join(['NULL'] * parameters)})")
        await connection.execute("DEALLOCATE figure")
    shown = "\n".join(row[0] for row in rows)
    assert re.search(plan, shown), shown
