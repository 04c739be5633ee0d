"""Refunds by a person: the page shows the amount before money moves, and the server refunds no other amount."""

from typing import Any

from stoa.access import audit
from stoa.db.pool import Database
from tests.portal.shown_forms import shown_form
from tests.portal.store_pages import hidden
from tests.portal.test_order_actions import paid_order, stored
from tests.support.people import SAME_ORIGIN, User
from tests.support.shops import Shop


async def opened(shop: Shop, user: User, store_url: str) -> tuple[dict[str, Any], str, str]:
    """An order with its refund form open, the form's address, and the field of its units."""
    order = await paid_order(shop)
    url = f"{store_url}/orders/{order['id']}/refund"
    await user.open(url)
    return order, url, f"quantities[{order['line_items'][0]['id']}]"


def shown_again(user: User, url: str) -> dict[str, list[str]]:
    """The form as the page shows it again, with the box for the stock not selected."""
    shown = shown_form(user.response.text, url)
    assert shown is not None
    return {name: values for name, values in shown.items() if name != "restock"}


async def test_a_refund_shows_its_amount_before_it_is_made(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    order, url, units = await opened(shop, maria, store_url)
    before = await audit.head(db, shop.store_id)
    await maria.submit(url, {**hidden(maria.text), units: "2", "note": "She called.", "reason": "Torn"})
    assert (await stored(shop, order))["refunds"] == [], "money moved before the page showed an amount"
    assert await audit.head(db, shop.store_id) == before
    assert maria.response.status_code == 200
    assert ">Refund 118.00 USD</button>" in maria.text
    shown = shown_again(maria, url)
    assert (shown[units], shown["note"], shown["shown_amount"]) == (["2"], ["She called."], ["118.00"])
    await maria.submit(url, shown)
    assert maria.notice == "Refunded 118.00 USD."
    assert [each["amount"] for each in (await stored(shop, order))["refunds"]] == ["118.00"]


async def test_another_amount_than_the_page_showed_is_not_refunded(shop: Shop, maria: User, store_url: str) -> None:
    order, url, units = await opened(shop, maria, store_url)
    await maria.submit(url, {**hidden(maria.text), units: "1"})
    shown = shown_again(maria, url)
    await maria.submit(url, {**shown, units: "3"})
    assert maria.response.status_code == 409
    assert maria.faults[""].startswith("The amount has changed")
    assert ">Refund 177.00 USD</button>" in maria.text
    assert (await stored(shop, order))["refunds"] == []
    await maria.submit(url, shown_again(maria, url))
    assert (await stored(shop, order))["amount_refunded"] == "177.00"


async def test_a_script_that_asks_for_the_amount_refunds_nothing(shop: Shop, maria: User, store_url: str) -> None:
    order, url, units = await opened(shop, maria, store_url)
    headers = {**SAME_ORIGIN, "accept": "application/json"}
    form = {"_token": maria.token, **hidden(maria.text), units: "1", "shipping_amount": "0"}
    for entered, answer in (
        ({}, {"amount": "59.00"}),
        ({"shown_amount": "59.00"}, {"amount": "59.00"}),
        ({units: "", "amount": "5"}, {"amount": "5.00"}),
        ({units: "9"}, {"faults": {units: "Must be at most 3, the units that are not refunded yet."}}),
        ({units: ""}, {"faults": {"quantities": "Enter units or an amount."}}),
    ):
        response = await maria.client.post(url, data={**form, **entered}, headers=headers)
        assert response.json().keys() == answer.keys(), response.text
        if "amount" in answer:
            assert response.json() == answer
    assert (await stored(shop, order))["version"] == order["version"]
