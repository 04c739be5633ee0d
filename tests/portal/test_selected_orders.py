"""Several orders at once: selected in the list, then shipped, printed or exported."""

import asyncio
import csv
import io
import re

import pytest

from stoa.access import audit
from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.store_pages import hidden, place_order, rows
from tests.support.people import SAME_ORIGIN, User, as_operator
from tests.support.shops import SHIRT, Shop


async def select(user: User, store_url: str, then: str, *ids: int) -> None:
    await user.open(f"{store_url}/orders")
    await user.submit(f"{store_url}/orders/selected", ids=[str(each) for each in ids], then=then)


async def test_tabs_show_orders_by_state_and_a_period_counts_the_days_of_the_store(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    await shop.add(SHIRT)
    pending, paid, held = [await place_order(shop) for _ in range(3)]
    await shop.client.put(f"/orders/{paid['id']}/status", json={"payment_status": "paid"})
    await shop.client.put(f"/orders/{held['id']}/status", json={"status": "on_hold"})
    await maria.open(f"{store_url}/orders")
    tabs = dict(re.findall(r'<a href="([^"]+)"(?: aria-current="page")?>([^<]+)</a>', maria.text))
    urls = {label: url.replace("&amp;", "&") for url, label in tabs.items()}
    numbers = {name: f"#{each['number']}" for name, each in (("pending", pending), ("paid", paid), ("held", held))}
    for label, expected in (
        ("All", ["held", "paid", "pending"]),
        ("To ship", ["paid", "pending"]),
        ("Unpaid", ["held", "pending"]),
        ("On hold", ["held"]),
    ):
        await maria.open(urls[label])
        assert rows(maria.text) == [numbers[each] for each in expected], label
        assert f'aria-current="page">{label}</a>' in maria.text
    await db.execute("UPDATE stores SET timezone = 'Asia/Tokyo' WHERE id = $1", shop.store_id)
    # 17:00 in UTC is the next day in Tokyo.
    at = "UPDATE orders SET placed_at = $3::text::timestamptz WHERE store_id = $1 AND id = $2"
    await db.execute(at, shop.store_id, pending["id"], "2026-03-01T14:59:59Z")
    await db.execute(at, shop.store_id, paid["id"], "2026-03-01T17:00:00Z")
    for query, expected in (
        ("since=2026-03-01&until=2026-03-01", ["pending"]),
        ("since=2026-03-02&until=2026-03-02", ["paid"]),
        ("until=2026-03-02", ["paid", "pending"]),
    ):
        await maria.open(f"{store_url}/orders?{query}")
        assert rows(maria.text) == [numbers[each] for each in expected], query
    for hostile in ("since=yesterday", "until=9999-12-31", "since=0001-01-01"):
        await maria.open(f"{store_url}/orders?{hostile}")
        assert maria.response.status_code == 200
    await maria.open(f"{store_url}/orders?since=yesterday")
    assert "must be an RFC 3339 time" in maria.text


async def test_selected_orders_are_shipped_together_and_once(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    await shop.add(SHIRT)
    first, second = await place_order(shop), await place_order(shop)
    cancelled = await place_order(shop)
    await shop.client.put(f"/orders/{cancelled['id']}/status", json={"status": "cancelled"})
    await select(maria, store_url, "ship", second["id"], first["id"], cancelled["id"])
    page = str(maria.response.url)
    assert "Ship 2 orders" in maria.text
    assert "1 order cannot be shipped now" in maria.text
    url, form = f"{store_url}/orders/ship", hidden(maria.text)
    sent = {**form, "_token": maria.token}
    twice = await asyncio.gather(*(maria.client.post(url, data=sent, headers=SAME_ORIGIN) for _ in range(2)))
    assert [each.status_code for each in twice] == [303, 303]
    for each in (first, second):
        order = (await shop.client.get(f"/orders/{each['id']}")).json()["data"]
        assert (order["status"], len(order["fulfillments"])) == ("shipped", 1)
    entries = [each for each in await audit.newest(db, shop.store_id, 10) if each.action == "order.shipped"]
    assert [each.subject for each in entries] == [f"order:{second['id']}", f"order:{first['id']}"]
    await maria.open(page)
    assert "Nothing to ship" in maria.text


async def test_no_order_is_shipped_if_one_of_them_has_changed(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    first, second = await place_order(shop), await place_order(shop)
    await select(maria, store_url, "ship", first["id"], second["id"])
    query, form = maria.response.url.query.decode(), hidden(maria.text)
    await shop.client.patch(f"/orders/{second['id']}", json={"note": "Wait <please>"})
    await maria.submit(f"{store_url}/orders/ship?{query}", form)
    assert maria.response.status_code == 409
    assert maria.faults[""].startswith(f"Order #{second['number']} cannot be shipped, so nothing was.")
    assert (await shop.client.get(f"/orders/{first['id']}")).json()["data"]["status"] == "pending"
    await maria.submit(f"{store_url}/orders/ship?{query}", hidden(maria.text))
    assert maria.notice == "2 orders are shipped."


async def test_selected_orders_are_exported(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    first, second = await place_order(shop), await place_order(shop)
    await place_order(shop)
    await select(maria, store_url, "export", first["id"], second["id"])
    found = csv.DictReader(io.StringIO(maria.response.content.decode("utf-8-sig")))
    assert {each["id"] for each in found} == {str(first["id"]), str(second["id"])}


async def test_packing_slips_show_what_is_left_to_pack_and_no_prices(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    hostile = {"first_name": "<b>Ada", "address1": "1 Mill Lane", "city": "Ghent", "country_code": "BE"}
    lines = [
        {"sku": "LS-S", "quantity": 3},
        {"name": "Gift card", "unit_price": "5.00", "quantity": 1, "requires_shipping": False},
    ]
    order = await place_order(shop, shipping_address=hostile, line_items=lines, status="processing")
    part = {"status": "shipped", "line_items": [{"id": order["line_items"][0]["id"], "quantity": 1}]}
    assert (await shop.client.put(f"/orders/{order['id']}/status", json=part)).status_code == 200
    await select(maria, store_url, "slips", order["id"])
    assert f"Order #{order['number']}" in maria.text
    assert "<b>Ada" not in maria.response.text
    assert '<td class="num">3</td><td class="num"><b>2</b></td>' in maria.text
    for absent in ("Gift card", "59.00"):
        assert absent not in maria.text
    await maria.open(f"{store_url}/orders/{order['id']}")
    assert f"/orders/packing-slips?ids={order['id']}" in maria.text


async def test_a_pick_list_adds_up_the_units_of_all_orders(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    first = await place_order(shop, line_items=[{"sku": "LS-S", "quantity": 2}])
    second = await place_order(shop)
    await select(maria, store_url, "pick", first["id"], second["id"])
    assert "3 units for 2 orders" in maria.text
    assert f"#{first['number']} \N{MULTIPLICATION SIGN} 2, #{second['number']}" in maria.text


@pytest.mark.parametrize("ids", ["", "x", "0", "99999999999999999999", "1,2,%27", "-1", "1" + ",1" * 400])
@pytest.mark.parametrize("page", ["ship", "packing-slips", "pick-list"])
async def test_hostile_ids_select_nothing(shop: Shop, maria: User, store_url: str, page: str, ids: str) -> None:
    await maria.open(f"{store_url}/orders/{page}?ids={ids}")
    assert maria.response.status_code == 200


async def test_another_stores_orders_are_never_selected(
    shop: Shop, other_shop: Shop, maria: User, store_url: str
) -> None:
    await other_shop.add(SHIRT)
    foreign = await place_order(other_shop)
    await shop.add(SHIRT)
    await place_order(shop)
    await select(maria, store_url, "slips", foreign["id"])
    assert "No orders selected" in maria.text
    await select(maria, store_url, "ship", foreign["id"])
    assert "Nothing to ship" in maria.text
    form = {"key": "a" * 20, f"versions[{foreign['id']}]": "1"}
    await maria.submit(f"{store_url}/orders/ship", form)
    assert maria.response.status_code == 409
    assert (await other_shop.client.get(f"/orders/{foreign['id']}")).json()["data"]["status"] == "pending"


async def test_a_viewer_cannot_select_orders(
    shop: Shop, db: Database, settings: Settings, zeno: User, store_url: str
) -> None:
    await shop.add(SHIRT)
    await place_order(shop)
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    await zeno.open(f"{store_url}/orders")
    assert 'type="checkbox"' not in zeno.text
    assert "Ada" not in zeno.text


async def test_an_order_is_shipped_by_any_spelling_of_its_id(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    order = await place_order(shop)
    await maria.open(f"{store_url}/orders")
    await maria.submit(
        f"{store_url}/orders/ship", {"key": "a" * 20, f"versions[00{order['id']}]": str(order["version"])}
    )
    assert maria.notice == "1 order is shipped.", maria.response.status_code
