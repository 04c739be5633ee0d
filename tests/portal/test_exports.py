"""Lists as CSV files, and customers that are forgotten."""

import csv
import io

from stoa.access import audit
from stoa.db.pool import Database
from tests.portal.store_pages import hidden, place_order
from tests.support.people import User
from tests.support.shops import MUG, SHIRT, Shop

HOSTILE = "=HYPERLINK(1)"
FULL_WIDTH = "\uff1dHYPERLINK(1)"


async def exported(user: User, url: str, query: str = "") -> list[dict[str, str]]:
    await user.open(f"{url}{query}")
    await user.submit(f"{url}/export{query}")
    assert user.response.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(user.response.content.decode("utf-8-sig"))))


async def test_lists_are_exported_with_their_filters_and_without_formulas(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    await shop.add(SHIRT, *({**MUG, "name": HOSTILE, "sku": f"M-{n}", "status": "active"} for n in range(260)))
    customer = {"email": "ada@example.com", "first_name": FULL_WIDTH}
    placed = await place_order(shop, customer=customer)
    await place_order(shop, status="draft", customer={"email": "zeno@example.com"})
    found = await exported(maria, f"{store_url}/products", "?q=hyperlink&sort=name")
    assert len(found) == 260, "more than one page of the API"
    assert {each["name"] for each in found} == {f"'{HOSTILE}"}
    assert len({each["id"] for each in found}) == 260
    [order] = await exported(maria, f"{store_url}/orders", "?status=pending")
    assert (order["number"], order["items"], order["total"]) == (str(placed["number"]), "1 x LS-S", "59.00")
    assert order["first_name"] == f"'{FULL_WIDTH}"
    assert [each["email"] for each in await exported(maria, f"{store_url}/customers", "?q=ada")] == ["ada@example.com"]
    entries = await audit.newest(db, shop.store_id, 3)
    assert [each.action for each in entries] == ["customers.exported", "orders.exported", "products.exported"]
    assert entries[0].detail == '{"filters":["q"],"rows":1}', "who exported how many, without the words of the search"
    assert {each.actor for each in entries} == {f"account:{maria.account.id}"}
    await maria.open(f"{store_url}/orders?status=nothing")
    await maria.submit(f"{store_url}/orders/export?status=nothing")
    assert "status" in maria.faults[""]


async def test_the_file_of_orders_has_payments_hold_and_locations(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    await place_order(shop, hold_for=3600)
    paid = await place_order(shop)
    change = {"payment": {"amount": "9.00", "method": "=card", "external_id": "ch_1"}}
    assert (await shop.client.put(f"/orders/{paid['id']}/status", json=change)).status_code == 200
    held, part = sorted(await exported(maria, f"{store_url}/orders"), key=lambda each: int(each["number"]))
    assert (bool(held["expires_at"]), held["payments"], held["locations"]) == (True, "", "default")
    assert (part["expires_at"], part["payments"], part["amount_paid"]) == ("", "payment 9.00 =card ch_1", "9.00")


async def test_a_customer_is_forgotten_after_a_typed_confirmation(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    await shop.add(SHIRT)
    placed = await place_order(shop)
    url = f"{store_url}/customers/{placed['customer_id']}"
    await maria.open(url)
    form = hidden(maria.text)
    await maria.submit(f"{url}/forget", form, confirmation="Ada")
    assert maria.faults == {"confirmation": "Type ada@example.com to confirm."}
    assert (await shop.client.get(f"/customers/{placed['customer_id']}")).status_code == 200
    for notice in ("The customer was erased from every record.", "This form was already submitted."):
        await maria.submit(f"{url}/forget", form, confirmation="ADA@example.com ")
        assert maria.notice.startswith(notice)
    assert (await shop.client.get(f"/customers/{placed['customer_id']}")).status_code == 404
    assert (await shop.client.get(f"/orders/{placed['id']}")).json()["data"]["contact"]["email"] is None
    [entry] = await audit.newest(db, shop.store_id, 1)
    assert (entry.action, entry.actor) == ("customer.erased", f"account:{maria.account.id}")
    row = await db.fetch(
        "SELECT DISTINCT actor FROM events WHERE store_id = $1 AND type = 'customer.erased'", shop.store_id
    )
    assert [each[0] for each in row] == ['{"type":"account"}']
