"""A merchant looks through a store: its products, orders and customers, as the API has them."""

import re
from typing import Any

import pytest

from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.people import Somebody, as_operator
from tests.support.shops import MUG, SHIRT, Shop

MOST_BYTES = 150_000
PLACES = ("products", "orders", "customers", "imports", "audit")
ADDRESS = {"first_name": "Ada", "address1": "1 Mill Lane", "city": "Ghent", "postal_code": "9000", "country_code": "BE"}


@pytest.fixture
async def home(shop: Shop, maria: Somebody, db: Database, settings: Settings) -> str:
    """The address of a store that Maria owns, and that an app can write to."""
    await give(as_operator(db, settings), maria.email, store=shop.store.handle)
    return f"/portal/stores/{shop.store.handle}"


async def order(shop: Shop, **more: Any) -> dict[str, Any]:
    body = {
        "customer": {"email": "ada@example.com", "first_name": "Ada", "last_name": "Byron"},
        "line_items": [{"sku": "LS-S", "quantity": 1}],
        "shipping_address": ADDRESS,
        **more,
    }
    answer = await shop.client.post("/orders", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


def rows(text: str) -> list[str]:
    """What the first column of a table links to, by name."""
    return re.findall(r'<tr><td><a href="[^"]+">([^<]+)</a>', text)


# --- products ------------------------------------------------------------------------------------------------


async def test_products_are_listed_newest_first(shop: Shop, maria: Somebody, home: str) -> None:
    await shop.add(SHIRT, MUG)
    await maria.open(f"{home}/products")
    assert rows(maria.text) == ["Café Mug", "Linen Shirt"]
    assert "2 products" in maria.text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=linen", ["Linen Shirt"]),
        ("q=MUG-1", ["Café Mug"]),
        ("status=draft", ["Café Mug"]),
        ("in_stock=true", ["Linen Shirt"]),
        ("tag=summer", ["Linen Shirt"]),
        ("category=Clothing", ["Linen Shirt"]),
        ("sort=name", ["Café Mug", "Linen Shirt"]),
        ("sort=price", ["Café Mug", "Linen Shirt"]),
        ("q=linen&status=draft", []),
    ],
)
async def test_products_are_found(shop: Shop, maria: Somebody, home: str, query: str, found: list[str]) -> None:
    await shop.add(SHIRT, MUG)
    await maria.open(f"{home}/products?{query}")
    assert rows(maria.text) == found
    assert ("Nothing matches" in maria.text) == (not found)


@pytest.mark.parametrize("query", ["", "?sort=name", "?q=mug&sort=-updated_at"])
async def test_a_long_list_is_walked_page_by_page(shop: Shop, maria: Somebody, home: str, query: str) -> None:
    await shop.add(*({**MUG, "name": f"Mug {n:02}", "sku": f"MUG-{n}"} for n in range(60)))
    seen: list[str] = []
    await maria.open(f"{home}/products{query}")
    while True:
        seen += rows(maria.text)
        following = re.search(r'href="([^"]+)" rel="next"', maria.text)
        if following is None:
            break
        await maria.open(f"{home}/products{following[1]}")
    assert len(seen) == len(set(seen)) == 60
    before = re.search(r'href="([^"]+)" rel="prev"', maria.text)
    assert before
    await maria.open(f"{home}/products{before[1]}")
    assert rows(maria.text) == seen[25:50]


async def test_a_product_is_shown_with_its_variants_and_stock(shop: Shop, maria: Somebody, home: str) -> None:
    [shirt] = await shop.add(SHIRT)
    await maria.open(f"{home}/products/{shirt}")
    for words in ("Linen Shirt", "LS-S", "LS-M", "61.00", "Hearth & Loom", "Woven in a small mill.", "material"):
        assert words in maria.text
    assert "https://images.example.com/shirt.jpg" in maria.text
    assert "<img" not in maria.text


async def test_the_ledger_tells_what_moved(shop: Shop, maria: Somebody, home: str) -> None:
    shirt, _ = await shop.add(SHIRT, MUG)
    items = [{"sku": "LS-S", "op": "adjust", "quantity": n} for n in (2, -1, 3)]
    counted = {"reason": "stocktake", "reference": "COUNT-9", "items": items}
    assert (await shop.client.post("/products/inventory/adjustments", json=counted)).status_code == 200
    await order(shop)
    await maria.open(f"{home}/products/{shirt}/ledger")
    assert "COUNT-9" in maria.text
    assert "\N{MINUS SIGN}1" in maria.text
    assert "5 movements" in maria.text
    assert "Reserved" in maria.text
    await maria.open(f"{home}/products/{shirt}/ledger?kind=reserve")
    assert "1 movement<" in maria.text
    assert "COUNT-9" not in maria.text


async def test_a_huge_product_stays_a_small_page(shop: Shop, maria: Somebody, home: str) -> None:
    long = "&" * 250
    values = [f"{n:03}{long}"[:255] for n in range(200)]
    [huge] = await shop.add(
        {
            "name": "<b>" + long,
            "price": "1.00",
            "description": "<" * 60_000,
            "tags": [f"{n}{'&' * 60}" for n in range(200)],
            "images": [{"url": f"https://example.com/{n}?{'&' * 2000}", "alt": long} for n in range(200)],
            "options": [{"name": "Kind", "values": values}],
            "variants": [{"option_values": {"Kind": value}, "sku": f"{value[:90]}"} for value in values],
            "metadata": {f"key{n}": "&" * 1000 for n in range(100)},
        }
    )
    await maria.open(f"{home}/products/{huge}")
    assert maria.seen.status_code == 200
    assert len(maria.seen.content) < MOST_BYTES
    assert "<b>&" not in maria.seen.text
    assert "1\N{EN DASH}50 of 200 variants" in maria.text
    await maria.open(f"{home}/products/{huge}?variants=4")
    assert "151\N{EN DASH}200 of 200 variants" in maria.text
    await maria.open(f"{home}/products")
    assert len(maria.seen.content) < MOST_BYTES


# --- orders --------------------------------------------------------------------------------------------------


async def test_an_order_is_shown_with_lines_sums_and_addresses(shop: Shop, maria: Somebody, home: str) -> None:
    await shop.add(SHIRT)
    placed = await order(shop, line_items=[{"sku": "LS-S", "quantity": 2}], shipping_total="7.50", note="Ring twice.")
    await maria.open(f"{home}/orders/{placed['id']}")
    for words in (
        "Linen Shirt",
        "118.00",
        "7.50",
        "125.50",
        "Ada Byron",
        "ada@example.com",
        "1 Mill Lane",
        "9000 Ghent",
    ):
        assert words in maria.text, words
    assert "Ring twice." in maria.text
    assert "Pending" in maria.text


async def test_the_timeline_tells_what_happened(shop: Shop, maria: Somebody, home: str) -> None:
    await shop.add(SHIRT)
    placed = await order(shop)
    path = f"/orders/{placed['id']}"
    await shop.client.post(f"{path}/comments", json={"body": "Call <first>.", "visibility": "customer"})
    moved = {"status": "processing", "comment": "Picked by Ben."}
    assert (await shop.client.put(f"{path}/status", json=moved)).status_code == 200
    tracking = {"carrier": "Snail post", "number": "SN-1", "url": "https://track.example.com/SN-1"}
    await shop.client.put(f"{path}/status", json={"status": "shipped", "tracking": tracking})
    await shop.client.patch(path, json={"tags": ["gift"]})
    await maria.open(f"{home}{path}")
    assert "Call &lt;first&gt;." in maria.seen.text
    for words in ("Placed by Test app.", "Picked by Ben.", "Shipped", "SN-1", "The customer may see this", "Changed"):
        assert words in maria.text, words
    assert re.search(
        r"Pending <span aria-hidden=\"true\">→</span><span class=\"hidden\">to</span> <span class=\"badge sea\">Processing",
        maria.text,
    )
    assert maria.text.index("Picked by Ben.") < maria.text.index("Call <first>.")


def link_to(placed: dict[str, Any]) -> str:
    return rf'<a href="[^"]*/orders/{placed["id"]}">#{placed["number"]}</a>'


async def test_an_order_that_may_be_a_double_names_the_other_on_both_pages(
    shop: Shop, maria: Somebody, home: str
) -> None:
    await shop.add(SHIRT)
    first, second, third = [await order(shop) for _ in range(3)]
    for here, others in ((first, (third, second)), (second, (third, first))):
        await maria.open(f"{home}/orders/{here['id']}")
        why = r" \(same email, customer, address, basket, total\)"
        told = f"the same purchase as {link_to(others[0])}{why} or {link_to(others[1])}{why}. Compare"
        assert re.search(told, maria.text), maria.text


async def test_a_settled_pair_warns_nobody_and_is_still_linked(shop: Shop, maria: Somebody, home: str) -> None:
    await shop.add(SHIRT)
    kept, dropped = [await order(shop) for _ in range(2)]
    await shop.client.put(f"/orders/{dropped['id']}/status", json={"status": "cancelled"})
    for here, other in ((kept, dropped), (dropped, kept)):
        await maria.open(f"{home}/orders/{here['id']}")
        assert "the same purchase" not in maria.text
        assert re.search(f"Looked like</dt><dd>{link_to(other)}", maria.text), maria.text


async def test_an_order_and_its_copy_link_each_other_by_number(shop: Shop, maria: Somebody, home: str) -> None:
    await shop.add(SHIRT)
    original = await order(shop)
    copied = (await shop.client.post(f"/orders/{original['id']}/duplicates", json={})).json()["data"]
    await maria.open(f"{home}/orders/{original['id']}")
    assert re.search(f"Copied to</dt><dd>{link_to(copied)}", maria.text)
    await maria.open(f"{home}/orders/{copied['id']}")
    assert re.search(f"Copied from</dt><dd>{link_to(original)}", maria.text)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("status=draft", 1),
        ("status=pending", 2),
        ("payment_status=paid", 1),
        ("q=ada", 2),
        ("q=zeno", 1),
        ("q=nobody", 0),
    ],
)
async def test_orders_are_found(shop: Shop, maria: Somebody, home: str, query: str, count: int) -> None:
    await shop.add(SHIRT)
    await order(shop)
    await order(shop, payment_status="paid")
    await order(shop, status="draft", customer={"email": "zeno@example.com", "first_name": "Zeno"})
    await maria.open(f"{home}/orders?{query}")
    assert len(rows(maria.text)) == count


async def test_an_order_of_many_lines_stays_a_small_page(shop: Shop, maria: Somebody, home: str) -> None:
    await shop.add(
        *({**MUG, "name": "&" * 250, "sku": f"M-{n}-{'&' * 80}", "stock": {"on_hand": 9}} for n in range(120))
    )
    lines = [{"sku": f"M-{n}-{'&' * 80}", "quantity": 1} for n in range(120)]
    placed = await order(shop, line_items=lines)
    for number in range(25):
        await shop.client.post(f"/orders/{placed['id']}/comments", json={"body": f"{number}{'&' * 4_000}"})
    await maria.open(f"{home}/orders/{placed['id']}")
    assert len(maria.seen.content) < MOST_BYTES
    assert "1\N{EN DASH}50 of 120 lines" in maria.text
    assert "26 entries" in maria.text
    older = re.search(r'href="(\?timeline=[^"#]+)#timeline" rel="next"', maria.text)
    assert older
    await maria.open(f"{home}/orders/{placed['id']}{older[1]}")
    assert "Placed by Test app." in maria.text


# --- customers -----------------------------------------------------------------------------------------------


async def test_a_customer_is_shown_with_addresses_and_orders(shop: Shop, maria: Somebody, home: str) -> None:
    await shop.add(SHIRT)
    placed = await order(shop)
    customer = placed["customer_id"]
    address = {**ADDRESS, "label": "Work", "address1": "2 Weir Street"}
    await shop.client.post(f"/customers/{customer}/addresses", json=address)
    metadata = {"own": "kept by one app", "shared.tier": "gold"}
    await shop.client.patch(f"/customers/{customer}/metadata", json=metadata)
    await maria.open(f"{home}/customers")
    assert rows(maria.text) == ["Ada Byron"]
    await maria.open(f"{home}/customers/{customer}")
    for words in (
        "Ada Byron",
        "ada@example.com",
        "Work",
        "2 Weir Street",
        "9000 Ghent",
        f"#{placed['number']}",
        "gold",
    ):
        assert words in maria.text, words
    assert "kept by one app" not in maria.text


async def test_customers_are_found_by_name(shop: Shop, maria: Somebody, home: str) -> None:
    for name in ("Ada", "Zeno"):
        await shop.client.post("/customers", json={"email": f"{name}@example.com", "first_name": name})
    await maria.open(f"{home}/customers?q=zen")
    assert rows(maria.text) == ["Zeno"]


async def test_a_customer_who_was_erased_is_gone(shop: Shop, maria: Somebody, home: str) -> None:
    await shop.add(SHIRT)
    placed = await order(shop)
    await shop.client.delete(f"/customers/{placed['customer_id']}")
    await maria.open(f"{home}/customers/{placed['customer_id']}")
    assert maria.seen.status_code == 404
    await maria.open(f"{home}/orders/{placed['id']}")
    assert maria.seen.status_code == 200
    assert "Byron" not in maria.text
    assert "Mill Lane" not in maria.text


# --- who may see what ----------------------------------------------------------------------------------------


async def test_people_are_shown_to_owners_alone(shop: Shop, zeno: Somebody, db: Database, settings: Settings) -> None:
    await shop.add(SHIRT)
    person = {"email": "mina@example.com", "first_name": "Wilhelmina", "last_name": "Byron"}
    placed = await order(shop, customer=person, note="Ring at Wilhelmina's.")
    path = f"/orders/{placed['id']}"
    await shop.client.post(f"{path}/comments", json={"body": "Wilhelmina called."})
    await shop.client.patch(path, json={"contact": {"phone": "+3225550100"}})
    await shop.client.put(f"{path}/status", json={"status": "cancelled", "reason": "Wilhelmina changed her mind."})
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    home = f"/portal/stores/{shop.store.handle}"
    for page in (
        "orders",
        f"orders/{placed['id']}",
        "customers",
        f"customers/{placed['customer_id']}",
        "customers?q=mina",
    ):
        await zeno.open(f"{home}/{page}")
        assert zeno.seen.status_code == 200
        for words in ("Wilhelmina", "Byron", "mina@example.com", "Mill Lane", "Ghent", "3225550100"):
            assert words not in zeno.text, f"{page} tells {words}"
    assert "owner" in zeno.text
    await zeno.open(f"{home}/orders/{placed['id']}")
    assert "Cancelled" in zeno.text


async def test_a_viewer_cannot_guess_people_by_searching(
    shop: Shop, zeno: Somebody, db: Database, settings: Settings
) -> None:
    await shop.add(SHIRT)
    placed = await order(shop)
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    for query in ("q=ada", "q=nobody", "email=ada@example.com", "phone=1"):
        await zeno.open(f"/portal/stores/{shop.store.handle}/orders?{query}")
        assert rows(zeno.text) == [f"#{placed['number']}"], query


@pytest.mark.parametrize("what", ["products", "orders", "customers"])
async def test_another_stores_things_are_not_in_this_one(
    shop: Shop, other_shop: Shop, maria: Somebody, home: str, what: str
) -> None:
    await other_shop.add(SHIRT)
    placed = await order(other_shop)
    ids = {
        "products": placed["line_items"][0]["product_id"],
        "orders": placed["id"],
        "customers": placed["customer_id"],
    }
    await maria.open(f"{home}/{what}/{ids[what]}")
    assert maria.seen.status_code == 404
    await maria.open(f"{home}/{what}")
    assert rows(maria.text) == []


# --- hostile addresses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "query",
    [
        "q=%00",
        "q=!!!",
        "q=" + "a" * 5_000,
        "q=%27%20OR%201%3D1--",
        "q=<script>alert(1)</script>",
        "status=nothing",
        "sort=price;drop",
        "cursor=x",
        "cursor=" + "A" * 6_000,
        "cursor=W3t9LGZhbHNlLFsxXV0",
        "cursor=W3sic29ydCI6Ii1pZCIsImxpbWl0IjoiMjUifSxmYWxzZSxbMTg0NDY3NDQwNzM3MDk1NTE2MTVdXQ",
        "before=-1",
        "before=99999999999999999999999999",
        "before=%EF%BC%91",
        "in_stock=perhaps",
        "customer_id=abc",
        "number=99999999999999999999",
        "%ff=%ff",
        "&".join(f"a{n}=1" for n in range(300)),
    ],
)
async def test_an_address_that_nobody_could_mean_is_a_page_all_the_same(
    shop: Shop, maria: Somebody, home: str, place: str, query: str
) -> None:
    await shop.add(SHIRT)
    await maria.open(f"{home}/{place}?{query}")
    assert maria.seen.status_code == 200
    assert "<script>alert" not in maria.seen.text


@pytest.mark.parametrize("place", PLACES)
async def test_an_empty_store_teaches(shop: Shop, maria: Somebody, home: str, place: str) -> None:
    await maria.open(f"{home}/{place}")
    assert maria.seen.status_code == 200
    if place != "audit":  # opening a store is written down
        assert 'class="temple"' in maria.text
        assert "/docs/" in maria.text
