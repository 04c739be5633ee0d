"""Order pages: the list, one order, its timeline and its duplicates."""

import re
from typing import Any

import pytest

from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.store_pages import hidden, place_order, rows
from tests.support.people import User, as_operator
from tests.support.shops import MUG, SHIRT, Shop

MAX_BYTES = 150_000


async def test_an_order_is_shown_with_line_items_totals_and_addresses(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    placed = await place_order(
        shop, line_items=[{"sku": "LS-S", "quantity": 2}], shipping_total="7.50", note="Ring twice."
    )
    await maria.open(f"{store_url}/orders/{placed['id']}")
    assert re.search(r'<a href="[^"]+/orders" aria-current="page">Orders</a>', maria.text), "the tabs of the store"
    for expected in (
        "Linen Shirt",
        "118.00",
        "7.50",
        "125.50",
        "Ada Byron",
        "ada@example.com",
        "1 Mill Lane",
        "9000 Ghent",
    ):
        assert expected in maria.text, expected
    assert "Ring twice." in maria.text
    assert "Pending" in maria.text


async def test_an_order_is_shown_with_its_discounts_taxes_and_custom_line_items(
    shop: Shop, maria: User, store_url: str
) -> None:
    await shop.add(SHIRT)
    tax = {"title": "VAT <20>", "rate": "20.00", "amount": "9.00"}
    shirt = {"sku": "LS-S", "quantity": 1, "discounts": [{"title": "Sale", "kind": "percentage", "value": "12.5"}]}
    engraving = {
        "name": "Engraving <b>",
        "unit_price": "3.33",
        "quantity": 1,
        "requires_shipping": False,
        "taxable": False,
    }
    placed = await place_order(
        shop,
        line_items=[{**shirt, "tax_lines": [tax]}, engraving],
        discounts=[{"code": "FIVE", "kind": "fixed", "value": "5.55"}],
        tax_lines=[{"title": "Shipping tax", "amount": "1.11"}],
    )
    await maria.open(f"{store_url}/orders/{placed['id']}")
    for expected in (
        *(
            "Sale 12.5 %",
            "7.38",
            "VAT &lt;20&gt; 20 %",
            "9.00",
            "Engraving &lt;b&gt;",
            "Custom item · no shipping · not taxed",
        ),
        *("Items", "62.33", "Discounts on items", "FIVE", "5.55", "Tax on items", "Shipping tax", "1.11", "59.51"),
    ):
        assert expected in maria.response.text, expected
    assert "Taxes included" not in maria.text
    await shop.client.patch(f"/orders/{placed['id']}", json={"prices_include_tax": True})
    await maria.open(f"{store_url}/orders/{placed['id']}")
    for expected in (
        "49.40",
        "Taxes included",
        "10.11",
        "of which Shipping tax",
        "changed whether prices include taxes",
    ):
        assert expected in maria.text, expected
    assert "Tax on items" not in maria.text


async def test_the_timeline_shows_all_changes(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    placed = await place_order(shop)
    path = f"/orders/{placed['id']}"
    await shop.client.post(f"{path}/comments", json={"body": "Call <first>.", "visibility": "customer"})
    moved = {"status": "processing", "comment": "Picked by Ben."}
    assert (await shop.client.put(f"{path}/status", json=moved)).status_code == 200
    tracking = {"carrier": "Snail post", "number": "SN-1", "url": "https://track.example.com/SN-1"}
    await shop.client.put(f"{path}/status", json={"status": "shipped", "tracking": tracking})
    await shop.client.patch(path, json={"tags": ["gift"]})
    await maria.open(f"{store_url}{path}")
    assert "Call &lt;first&gt;." in maria.response.text
    for expected in ("Placed by Test app.", "Picked by Ben.", "SN-1", "Visible to the customer"):
        assert expected in maria.text, expected
    for sentence in (
        "moved the order from pending to processing",
        "shipped 1 \N{MULTIPLICATION SIGN} Linen Shirt with Snail post",
        "changed the tags",
        "commented",
    ):
        assert f"<b>Test app</b> {sentence} " in maria.text, sentence
    assert re.search(r'shirt with snail post <span class="soft small"><time [^>]+>\d+ seconds? ago', maria.text.lower())
    assert maria.text.index("Picked by Ben.") < maria.text.index("Call <first>.")


async def test_fulfillments_and_refunds_are_shown_and_a_viewer_sees_no_words_about_them(
    shop: Shop, db: Database, settings: Settings, maria: User, zeno: User, store_url: str
) -> None:
    await shop.add(SHIRT)
    placed = await place_order(
        shop, line_items=[{"sku": "LS-S", "quantity": 3}], payment_status="paid", status="processing"
    )
    path, line = f"/orders/{placed['id']}", placed["line_items"][0]["id"]
    for body in (
        {"status": "shipped", "line_items": [{"id": line, "quantity": 1}], "tracking": {"number": "SN-<1>"}},
        {"status": "shipped"},
        {"status": "delivered", "fulfillment_id": 1},
        {
            "refund": {
                "line_items": [{"line_item_id": line, "quantity": 1, "restock": True}],
                "shipping_amount": "2.00",
                "reason": "Torn <seam>",
                "note": "Ada called.",
            }
        },
    ):
        assert (await shop.client.put(f"{path}/status", json=body)).status_code == 200
    await maria.open(f"{store_url}{path}")
    facts = (
        "2 fulfillments",
        "2 \N{MULTIPLICATION SIGN} Linen Shirt",
        "Delivered",
        "1 refund",
        "61.00",
        "Shipping",
        "restocked",
        "Refund 1",
    )
    for expected in (*facts, "Fulfillment 2", "Torn <seam>", "Ada called.", "SN-<1>"):
        assert expected in maria.text, expected
    assert "<seam>" not in maria.response.text
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    await zeno.open(f"{store_url}{path}")
    for expected in (*facts, "Fulfillment 2"):
        assert expected in zeno.text, expected
    for word in ("Torn", "Ada called", "SN-"):
        assert word not in zeno.text, word


def link_to(placed: dict[str, Any]) -> str:
    return rf'<a href="[^"]*/orders/{placed["id"]}">#{placed["number"]}</a>'


async def test_suspected_duplicates_link_to_each_other(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    first, second, third = [await place_order(shop) for _ in range(3)]
    for current, others in ((first, (third, second)), (second, (third, first))):
        await maria.open(f"{store_url}/orders/{current['id']}")
        reasons = r" \(same email, customer, address, basket, total\)"
        message = f"Suspected duplicate of {link_to(others[0])}{reasons} or {link_to(others[1])}{reasons}. Compare"
        assert re.search(message, maria.text), maria.text


async def test_resolved_duplicates_are_linked_without_a_warning(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    kept, dropped = [await place_order(shop) for _ in range(2)]
    await shop.client.put(f"/orders/{dropped['id']}/status", json={"status": "cancelled"})
    for current, other in ((kept, dropped), (dropped, kept)):
        await maria.open(f"{store_url}/orders/{current['id']}")
        assert "Suspected duplicate" not in maria.text
        assert re.search(f"Resolved duplicates</dt><dd>{link_to(other)}", maria.text), maria.text


async def test_an_order_and_its_copy_link_to_each_other(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    original = await place_order(shop)
    copied = (await shop.client.post(f"/orders/{original['id']}/duplicates", json={})).json()["data"]
    await maria.open(f"{store_url}/orders/{original['id']}")
    assert re.search(f"Copied to</dt><dd>{link_to(copied)}", maria.text)
    await maria.open(f"{store_url}/orders/{copied['id']}")
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
async def test_orders_are_found(shop: Shop, maria: User, store_url: str, query: str, count: int) -> None:
    await shop.add(SHIRT)
    await place_order(shop)
    await place_order(shop, payment_status="paid")
    await place_order(shop, status="draft", customer={"email": "zeno@example.com", "first_name": "Zeno"})
    await maria.open(f"{store_url}/orders?{query}")
    assert len(rows(maria.text)) == count


async def test_an_order_with_many_line_items_stays_a_small_page(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(
        *({**MUG, "name": "&" * 250, "sku": f"M-{n}-{'&' * 80}", "stock": {"on_hand": 9}} for n in range(120))
    )
    lines = [{"sku": f"M-{n}-{'&' * 80}", "quantity": 1} for n in range(120)]
    placed = await place_order(shop, line_items=lines)
    for number in range(25):
        await shop.client.post(f"/orders/{placed['id']}/comments", json={"body": f"{number}{'&' * 4_000}"})
    await maria.open(f"{store_url}/orders/{placed['id']}")
    assert len(maria.response.content) < MAX_BYTES
    assert "1\N{EN DASH}50 of 120 line items" in maria.text
    assert "26 entries" in maria.text
    older = re.search(r'href="(\?timeline=[^"#]+)#timeline" rel="next"', maria.text)
    assert older
    await maria.open(f"{store_url}/orders/{placed['id']}{older[1]}")
    assert "Placed by Test app." in maria.text


async def test_a_held_order_shows_the_time_that_is_left(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    lines = [{"sku": "LS-S", "quantity": 1}]
    held = await place_order(shop, line_items=lines, hold_for=7_300)
    await place_order(shop, line_items=lines)
    for page in (f"{store_url}/orders", f"{store_url}/orders/{held['id']}"):
        await maria.open(page)
        assert len(re.findall(r'class="badge warn">Held: <time[^>]*>2 hours left</time>', maria.text)) == 1
    paid = {"payment_status": "paid"}
    assert (await shop.client.put(f"/orders/{held['id']}/status", json=paid)).status_code == 200
    await maria.open(f"{store_url}/orders/{held['id']}")
    assert "Held:" not in maria.text


async def test_line_items_show_what_was_shipped_returned_and_refunded(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    lines = [{"sku": "LS-S", "quantity": 4}, {"name": "Engraving", "unit_price": "3.00", "quantity": 1}]
    placed = await place_order(shop, line_items=lines, payment_status="paid", status="processing")
    path, line = f"/orders/{placed['id']}", placed["line_items"][0]["id"]
    refund = {"line_items": [{"line_item_id": line, "quantity": 1}]}
    for body in (
        {"status": "shipped", "line_items": [{"id": line, "quantity": 3}]},
        {"status": "returned", "line_items": [{"id": line, "quantity": 2}]},
        {"refund": refund},
    ):
        assert (await shop.client.put(f"{path}/status", json=body)).status_code == 200
    await maria.open(f"{store_url}{path}")
    figures = re.findall(
        r'<td data-label="(Ordered|Shipped|Returned|Refunded)" class="num(?: none)?">([^<]+)</td>', maria.text
    )
    assert [count for _, count in figures] == ["4", "3", "2", "1", "1", *["\N{EN DASH}"] * 3]
    assert maria.text.count('class="thumbnail"') == 2, "each line item has a picture, or the initial of its name"


async def test_mine_are_the_orders_that_the_person_changed(
    shop: Shop, maria: User, zeno: User, store_url: str, db: Database, settings: Settings
) -> None:
    await shop.add(SHIRT)
    mine, _, theirs = [await place_order(shop, line_items=[{"sku": "LS-S", "quantity": 1}]) for _ in range(3)]
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="manager")
    for user, order in ((maria, mine), (zeno, theirs)):
        url = f"{store_url}/orders/{order['id']}"
        await user.open(url)
        await user.submit(url, {**hidden(user.text), "body": "Seen.", "visibility": "internal"})
    await maria.open(f"{store_url}/orders?mine=1")
    assert rows(maria.text) == [f"#{mine['number']}"]
    assert re.search(r'aria-current="page">Mine</a>', maria.text)
    await maria.open(f"{store_url}/orders?mine=1&status=cancelled")
    assert rows(maria.text) == []
    await maria.open(f"{store_url}/orders")
    assert len(rows(maria.text)) == 3
    assert re.search(r'aria-current="page">All</a>', maria.text)


async def test_the_timeline_tells_how_line_items_and_amounts_were_edited(
    shop: Shop, maria: User, store_url: str
) -> None:
    await shop.add(SHIRT)
    placed = await place_order(shop, line_items=[{"sku": "LS-S", "quantity": 1}])
    path, shirt = f"/orders/{placed['id']}", placed["line_items"][0]["id"]
    added = [{"name": "Engraving <b>", "unit_price": "3.00", "quantity": 2}]
    answer = await shop.client.post(f"{path}/products", json={"line_items": added})
    assert answer.status_code in (200, 201), answer.text
    engraving = answer.json()["data"]["line_items"][1]["id"]
    changes: list[tuple[str, dict[str, Any]]] = [
        (f"{path}/products/{shirt}", {"quantity": 3}),
        (f"{path}/products/{engraving}", {"quantity": 0}),
        (path, {"shipping_total": "5.00", "note": "Ring twice."}),
    ]
    for url, body in changes:
        assert (await shop.client.patch(url, json=body)).status_code == 200
    await maria.open(f"{store_url}{path}")
    for sentence in (
        "added 2 \N{MULTIPLICATION SIGN} Engraving &lt;b&gt;, for a total of 65.00 USD",
        "changed Linen Shirt from 1 to 3 units, for a total of 183.00 USD",
        "removed 2 \N{MULTIPLICATION SIGN} Engraving &lt;b&gt;, for a total of 177.00 USD",
        "changed the shipping costs and the note, for a total of 182.00 USD",
    ):
        assert f"<b>Test app</b> {sentence}" in " ".join(maria.response.text.split()), sentence
