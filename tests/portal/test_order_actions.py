"""Orders handled by a person: the same rules, events and version check as the API, once, and with the person's name."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from stoa.access import audit
from stoa.access.stores import suspend_store
from stoa.accounts.ownership import give
from stoa.db.pool import Database
from stoa.portal.stores import order_actions
from stoa.portal.stores.order_actions import process_pending
from stoa.rest.call import Call
from stoa.settings import Settings
from tests.portal.shown_forms import shown_form
from tests.portal.store_pages import hidden, place_order
from tests.support.locations import levels, open_locations, spread
from tests.support.people import User, as_operator
from tests.support.shops import SHIRT, Shop

MARIA = {"type": "account", "id": None, "name": "Maria Stone"}


async def paid_order(shop: Shop) -> dict[str, Any]:
    """An order of three shirts, paid and ready to be shipped."""
    await shop.add(SHIRT)
    lines = [{"sku": "LS-S", "quantity": 3}]
    return await place_order(shop, line_items=lines, payment_status="paid", status="processing")


async def act(user: User, url: str, **fields: str) -> None:
    """Open the form of an action, and submit it; a refund shows its amount first."""
    await user.open(url)
    await user.submit(url, {**hidden(user.text), **fields})
    if url.endswith("/refund") and user.response.status_code == 200:
        await user.submit(url, {**hidden(user.text), **fields})


async def stored(shop: Shop, order: dict[str, Any]) -> dict[str, Any]:
    return (await shop.client.get(f"/orders/{order['id']}")).json()["data"]


async def test_a_person_ships_refunds_returns_and_comments_by_the_rules_of_the_api(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    order = await paid_order(shop)
    line, url = order["line_items"][0]["id"], f"{store_url}/orders/{order['id']}"
    first_event = await db.fetch("SELECT coalesce(max(position), 0) FROM events WHERE store_id = $1", shop.store_id)
    await maria.open(url)
    assert re.findall(r'class="button slim[^"]*" href="[^"]+/(ship|status|refund|return|cancel)"', maria.text) == [
        "ship",
        "refund",
        "status",
        "cancel",
    ]
    units = f"quantities[{line}]"
    await act(maria, f"{url}/ship", **{units: "2", "carrier": "Snail post", "tracking_number": "SN-1"})
    assert maria.notice == "Shipped."
    await act(maria, f"{url}/ship", **{units: "1"})
    await act(maria, f"{url}/track", fulfillment_id="2", tracking_number="SN-2", delivered="on")
    await act(maria, f"{url}/refund", **{units: "1", "shipping_amount": "0", "reason": "Torn", "note": "She called."})
    await act(maria, f"{url}/return", **{units: "1", "restock": "on", "reason": "Too small"})
    await act(maria, url, body="Wrapped in paper.\nTwice.", visibility="customer")
    await act(maria, f"{url}/status", status="delivered", comment="Arrived.")
    now = await stored(shop, order)
    assert (now["status"], now["payment_status"], now["fulfillment_status"]) == (
        "delivered",
        "partially_refunded",
        "fulfilled",
    )
    assert now["amount_refunded"] == "59.00"
    assert [each["number"] for each in now["tracking"]] == ["SN-1", "SN-2"]
    assert now["fulfillments"][1]["status"] == "delivered"
    assert now["line_items"][0]["returned_quantity"] == 1
    assert now["refunds"][0]["actor"] == {"type": "account"}
    timeline = (await shop.client.get(f"/orders/{order['id']}/comments")).json()["data"]
    assert [each["author"] for each in timeline[:-1]] == [MARIA] * 7
    assert [each["body"] for each in timeline[:3]] == ["Arrived.", "Wrapped in paper.\nTwice.", "Too small"]
    rows = await db.fetch(
        "SELECT type, actor FROM events WHERE store_id = $1 AND position > $2 ORDER BY position",
        shop.store_id,
        first_event[0][0],
    )
    assert {msgspec.json.decode(row[1])["type"] for row in rows} == {"account"}
    assert {"order.fulfilled", "order.refunded", "order.comment_created", "order.status_changed"} <= {
        r[0] for r in rows
    }
    entries = await audit.newest(db, shop.store_id, 7)
    assert [each.action for each in reversed(entries)] == [
        "order.shipped",
        "order.shipped",
        "order.tracking_changed",
        "order.refunded",
        "order.returned",
        "order.commented",
        "order.status_changed",
    ]
    assert {each.actor for each in entries} == {f"account:{maria.account.id}"}
    assert "Torn" not in "".join(each.detail for each in entries), "the audit log outlives an erasure"
    await maria.open(url)
    shirt = "\N{MULTIPLICATION SIGN} Linen Shirt"
    for sentence in (
        f"shipped 2 {shirt} with Snail post",
        f"shipped 1 {shirt}",
        "marked shipment 2 as delivered",
        f"refunded 59.00 USD for 1 {shirt}",
        "took back 1 unit",
        "commented",
        "marked shipment 1 as delivered",
    ):
        assert f"<b>Maria Stone</b> {sentence}" in maria.text, sentence


async def test_the_api_decides_and_its_faults_are_beside_their_fields(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    order = await paid_order(shop)
    line, url = order["line_items"][0]["id"], f"{store_url}/orders/{order['id']}"
    units = f"quantities[{line}]"
    before = await audit.head(db, shop.store_id)
    for action, fields, faults in (
        ("ship", {units: "4"}, {units: "Must be at most 3, the units that can be shipped."}),
        ("ship", {units: "two"}, {units: "Must be an integer."}),
        ("ship", {units: "0"}, {"quantities": "Enter the units to ship."}),
        (
            "ship",
            {"quantities[999999999]": "1"},
            {"quantities[999999999]": "Must be the id of a line item of this order."},
        ),
        (
            "refund",
            {"amount": "999"},
            {"amount": "Makes the refund 999.00, but only 177.00 is paid and not refunded yet."},
        ),
        ("refund", {"amount": "1,5"}, {"amount": 'Must be an amount such as "19.99".'}),
        ("refund", {}, {"quantities": "Enter units or an amount."}),
        ("refund", {units: "1", "restock": "on"}, {"restock": None}),
        ("cancel", {}, {"confirmed": "Select this box to confirm."}),
        ("status", {}, {"status": "Select a new status or payment."}),
        ("status", {"payment_status": "unpaid"}, {"payment_status": "Must be one of partially_refunded, refunded."}),
        ("status", {"status": "delivered"}, {"": "An order cannot move from processing to delivered."}),
    ):
        await maria.open(f"{url}/{action}")
        sent = {name: value for name, value in hidden(maria.text).items() if name in ("key", "version")}
        await maria.submit(f"{url}/{action}", {**sent, **fields})
        assert maria.response.status_code == 422, (action, fields)
        shown = [name for name in faults if name in maria.text or not name]
        if "quantities[999999999]" not in faults:  # the form has no such field
            assert maria.faults.keys() == faults.keys(), (action, fields, maria.faults)
            assert all(text in (None, maria.faults[name]) for name, text in faults.items()), maria.faults
            assert shown
    await act(maria, url, body="")
    assert maria.faults == {"body": "Must not be empty."}
    assert (await stored(shop, order))["version"] == order["version"]
    assert await audit.head(db, shop.store_id) == before, "nothing is written on refusal"
    await maria.open(f"{url}/return")
    assert maria.notice.endswith("cannot be changed in this way now.")
    await maria.open(f"{url}/explode")
    assert maria.response.status_code == 404


async def test_a_form_is_carried_out_once_and_only_on_what_it_showed(
    shop: Shop, maria: User, store_url: str, db: Database, settings: Settings, zeno: User
) -> None:
    order = await paid_order(shop)
    url = f"{store_url}/orders/{order['id']}"
    await maria.open(f"{url}/refund")
    form = {**hidden(maria.text), "amount": "10.00", "shown_amount": "10.00"}
    token = maria.token
    sent = [maria.client.post(f"{url}/refund", data={"_token": token, **form}) for _ in range(3)]
    assert {response.status_code for response in await asyncio.gather(*sent)} == {303}
    assert [each["amount"] for each in (await stored(shop, order))["refunds"]] == ["10.00"]
    repeated = await maria.client.post(f"{url}/refund", data={"_token": token, **form}, follow_redirects=True)
    assert "This form was already submitted." in repeated.text
    other = await maria.client.post(f"{url}/refund", data={"_token": token, **form, "note": "Other"})
    assert (other.status_code, "already submitted with other values" in other.text) == (409, True)
    second_tab = {**form, "key": "another-tab"}
    stale = await maria.client.post(f"{url}/refund", data={"_token": token, **second_tab})
    assert (stale.status_code, "Somebody changed this while your page was open." in stale.text) == (409, True)
    assert "10.00" in stale.text, "the page keeps the entries"
    assert len((await stored(shop, order))["refunds"]) == 1
    for incomplete in ({"key": ""}, {"version": ""}):
        await maria.open(f"{url}/refund")
        await maria.submit(f"{url}/refund", {**form, **incomplete})
        assert maria.faults[""].startswith("This page is incomplete."), incomplete
    await give(as_operator(db, settings), zeno.email, store=shop.store.handle, role="viewer")
    await zeno.open(f"{url}/refund")
    assert zeno.response.status_code == 403, "a viewer cannot change anything"
    await suspend_store(as_operator(db, settings), shop.store.handle)
    await act(maria, f"{url}/refund", amount="1.00")
    assert maria.faults == {"": "This store is suspended. Nothing was changed."}


async def test_a_person_ships_from_a_location_voids_the_shipment_and_takes_units_back_elsewhere(
    shop: Shop, maria: User, store_url: str
) -> None:
    order = await paid_order(shop)
    line, url = order["line_items"][0]["id"], f"{store_url}/orders/{order['id']}"
    units = f"quantities[{line}]"
    await maria.open(f"{url}/ship")
    assert 'name="location"' not in maria.text  # one location is no choice
    await open_locations(shop, east=20)
    await act(maria, f"{url}/ship", **{units: "2", "location": "east"})
    assert "Must be at most 0" in maria.text
    await act(maria, f"{url}/ship", **{units: "2", "location": "default", "tracking_number": "SN-1"})
    await act(maria, f"{url}/track", fulfillment_id="1", tracking_number="SN-2", remove_tracking="on", delivered="on")
    assert "one after the other" in maria.text
    await act(maria, f"{url}/track", fulfillment_id="1", tracking_number="SN-2", remove_tracking="on")
    assert (await stored(shop, order))["tracking"] == []
    await act(maria, f"{url}/void", fulfillment_id="1", reason="Not handed over")
    assert "Select this box to confirm." in maria.text
    await act(maria, f"{url}/void", fulfillment_id="1", reason="Not handed over", confirmed="on")
    assert maria.notice == "The shipment is voided."
    await maria.open(url)
    assert "Voided" in maria.text
    assert (await stored(shop, order))["fulfillment_status"] == "unfulfilled"
    await act(maria, f"{url}/ship", **{units: "3"})
    await act(maria, f"{url}/return", **{units: "1", "restock": "on", "location": "east"})
    await act(maria, f"{url}/refund", **{units: "1", "restock": "on", "location": "east", "shipping_amount": "0"})
    assert (await levels(shop, "LS-S"))["east"] == (2, 0)


async def test_a_person_moves_a_reservation_to_another_location(shop: Shop, maria: User, store_url: str) -> None:
    order = await paid_order(shop)
    line, url = order["line_items"][0]["id"], f"{store_url}/orders/{order['id']}"
    await maria.open(url)
    assert f"{url}/move" not in maria.text  # there is no other location
    await open_locations(shop, east=20)
    await spread(shop, "LS-S", east=1)
    await maria.open(url)
    assert f"{url}/move" in maria.text
    await act(maria, f"{url}/move", line_item_id=str(line), location="east")
    assert "Available is 1" in maria.text
    item = {"sku": "LS-S", "quantity": 5, "location": "east"}
    assert (await shop.client.post("/products/inventory/adjustments", json={"items": [item]})).status_code == 200
    await act(maria, f"{url}/move", line_item_id=str(line), location="")
    assert "Select a location." in maria.text
    await act(maria, f"{url}/move", line_item_id=str(line), location="east")
    assert maria.notice == "The reservation was moved."
    assert "<b>Maria Stone</b> moved the reservation of Linen Shirt to East" in maria.text
    assert (await stored(shop, order))["line_items"][0]["allocations"] == [{"location": "east", "quantity": 3}]


async def test_a_person_records_a_payment_in_parts(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    await shop.add(SHIRT)
    order = await place_order(shop, line_items=[{"sku": "LS-S", "quantity": 1}], payment_method="card")
    url = f"{store_url}/orders/{order['id']}"
    await maria.open(f"{url}/pay")
    assert "59.00" in maria.text
    await act(maria, f"{url}/pay", amount="20.00", method="cash", external_id="till-7", note="At the counter.")
    assert maria.notice == "The payment was recorded."
    now = await stored(shop, order)
    assert (now["payment_status"], now["amount_due"], now["payments"][0]["external_id"]) == (
        "partially_paid",
        "39.00",
        "till-7",
    )
    assert now["payments"][0]["actor"] == {"type": "account"}
    assert "till-7" in (await maria.open(url)).text
    for fields, faults in (
        ({"amount": ""}, {"amount": "Enter the amount that was paid."}),
        ({"amount": "0"}, {"amount": "Must be more than 0."}),
        ({"amount": "5.00", "external_id": "till-7"}, {"external_id": "Belongs to record 1 of this order."}),
    ):
        await act(maria, f"{url}/pay", **fields)
        assert maria.faults == faults
    await act(maria, f"{url}/pay", amount="39.00")
    assert (await stored(shop, order))["payment_status"] == "paid"
    await maria.open(f"{url}/pay")
    assert maria.notice.endswith("cannot be changed in this way now.")
    actions = [each.action for each in await audit.newest(db, shop.store_id, 2)]
    assert actions == ["order.payment_recorded"] * 2


async def test_a_person_refunds_a_removed_line_item(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    extra = {"name": "Engraving", "unit_price": "7.00", "quantity": 1}
    order = await place_order(shop, line_items=[{"sku": "LS-S", "quantity": 1}, extra], payment_status="paid")
    gone = order["line_items"][1]["id"]
    await shop.client.patch(f"/orders/{order['id']}/products/{gone}", json={"quantity": 0})
    url = f"{store_url}/orders/{order['id']}"
    await maria.open(url)
    assert "Removed after payment" in maria.text
    await act(maria, f"{url}/refund", **{f"quantities[{gone}]": "1"})
    assert maria.notice == "Refunded 7.00 USD."
    assert (await stored(shop, order))["balance"] == "0.00"


async def test_a_person_holds_an_order_changes_the_hold_and_ends_it(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    await shop.add(SHIRT)
    order = await place_order(shop)
    url = f"{store_url}/orders/{order['id']}"
    await maria.open(f"{url}/hold")
    assert 'name="end_hold"' not in maria.text, "there is no hold to end"
    form = {**hidden(maria.text), "hold_hours": "48"}
    await maria.submit(f"{url}/hold", form)
    assert maria.notice == "The hold was changed."
    held = await stored(shop, order)
    assert (datetime.fromisoformat(held["expires_at"]) - datetime.now(UTC)) // timedelta(hours=1) == 47
    await maria.submit(f"{url}/hold", form)
    assert maria.notice.startswith("This form was already submitted."), "a second click does not extend the hold"
    assert (await stored(shop, order))["expires_at"] == held["expires_at"]
    await maria.open(url)
    assert "Held:" in maria.text
    await act(maria, f"{url}/hold", hold_hours="1")
    assert (await stored(shop, order))["expires_at"] < held["expires_at"]
    await act(maria, f"{url}/hold", end_hold="on", hold_hours="5")
    assert (await stored(shop, order))["expires_at"] is None
    assert [each.action for each in await audit.newest(db, shop.store_id, 3)] == ["order.hold_changed"] * 3


async def test_a_hold_that_cannot_be_is_refused_beside_its_field(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    order = await place_order(shop)
    url = f"{store_url}/orders/{order['id']}"
    for hours in ("", "0", "721", "-1", "two"):
        await act(maria, f"{url}/hold", hold_hours=hours)
        assert maria.faults == {"hold_hours": "Enter a number of hours from 1 to 720."}
    assert (await stored(shop, order))["version"] == order["version"]
    paid = await place_order(shop, payment_status="paid")
    await maria.open(f"{store_url}/orders/{paid['id']}/hold")
    assert maria.notice == f"Order #{paid['number']} cannot be changed in this way now."


async def test_a_pending_order_is_shipped_in_one_step(shop: Shop, maria: User, store_url: str) -> None:
    await shop.add(SHIRT)
    order = await place_order(shop, line_items=[{"sku": "LS-S", "quantity": 3}])
    line, url = order["line_items"][0]["id"], f"{store_url}/orders/{order['id']}"
    await act(maria, f"{url}/ship", **{f"quantities[{line}]": "1"})
    assert maria.notice == "Shipped."
    now = await stored(shop, order)
    assert (now["status"], now["fulfillment_status"]) == ("processing", "partially_fulfilled")
    await act(maria, f"{url}/ship", **{f"quantities[{line}]": "3"})
    assert maria.faults == {f"quantities[{line}]": "Must be at most 2, the units that can be shipped."}


async def test_units_are_shipped_from_each_location_where_they_are_reserved(
    shop: Shop, maria: User, store_url: str
) -> None:
    await shop.add(SHIRT)
    await open_locations(shop, east=20)
    await spread(shop, "LS-S", east=2)
    order = await place_order(shop, line_items=[{"sku": "LS-S", "quantity": 4}], status="processing")
    line, url = order["line_items"][0]["id"], f"{store_url}/orders/{order['id']}"
    await maria.open(f"{url}/ship")
    assert re.findall(r'name="(quantities[^"]+)"', maria.text) == [
        f"quantities[{line}@default]",
        f"quantities[{line}@east]",
    ]
    assert 'name="location"' not in maria.text, "each row has its own"
    await act(maria, f"{url}/ship", **{f"quantities[{line}@default]": "0", f"quantities[{line}@east]": "3"})
    assert f"quantities[{line}@east]" in maria.faults
    await act(maria, f"{url}/ship", **{f"quantities[{line}@default]": "1", f"quantities[{line}@east]": "2"})
    assert maria.notice == "Shipped."
    assert await levels(shop, "LS-S") == {"default": (1, 1)}
    await maria.open(url)
    assert "<b>Maria Stone</b> shipped 3 \N{MULTIPLICATION SIGN} Linen Shirt" in maria.text


async def test_a_person_changes_the_units_of_line_items_together_or_not_at_all(
    shop: Shop, maria: User, store_url: str, db: Database
) -> None:
    await shop.add(SHIRT)
    lines = [{"sku": "LS-S", "quantity": 2}, {"name": "Engraving", "unit_price": "3.00", "quantity": 2}]
    order = await place_order(shop, line_items=lines)
    shirt, engraving = (f"quantities[{line['id']}]" for line in order["line_items"])
    url = f"{store_url}/orders/{order['id']}"
    before = await audit.head(db, shop.store_id)
    await act(maria, f"{url}/edit", **{engraving: "1", shirt: "5"})
    assert maria.faults.keys() == {shirt}, maria.faults
    await act(maria, f"{url}/edit", **{engraving: "0", shirt: "0"})
    assert maria.response.status_code in (409, 422)
    await act(maria, f"{url}/edit", **{engraving: "one"})
    assert maria.faults.keys() == {engraving}
    assert (await stored(shop, order))["version"] == order["version"]
    assert await audit.head(db, shop.store_id) == before, "nothing is written on refusal"
    await act(maria, f"{url}/edit", **{engraving: "0", shirt: "4"})
    assert maria.notice == "The line items were changed."
    now = await stored(shop, order)
    assert [(line["name"], line["quantity"]) for line in now["line_items"]] == [("Linen Shirt", 4)]
    assert (now["total"], await levels(shop, "LS-S")) == ("236.00", {"default": (4, 4)})


async def test_a_second_submit_of_edited_units_does_not_undo_what_somebody_else_changed(
    shop: Shop, maria: User, store_url: str
) -> None:
    await shop.add(SHIRT)
    lines = [{"sku": sku, "quantity": 1} for sku in ("LS-S", "LS-S")]
    order = await place_order(shop, line_items=lines)
    first, second = (each["id"] for each in order["line_items"])
    url = f"{store_url}/orders/{order['id']}/edit"
    await maria.open(url)
    sent = shown_form(maria.response.text, url)
    assert (await shop.client.patch(f"/orders/{order['id']}/products/{first}", json={"quantity": 2})).status_code == 200
    for _ in range(2):
        assert sent is not None
        await maria.submit(url, {**sent, f"quantities[{second}]": "3"})
        assert maria.response.status_code == 409
        sent = shown_form(maria.response.text, url)
    assert [each["quantity"] for each in (await stored(shop, order))["line_items"]] == [2, 1]


async def test_a_transaction_that_is_repeated_compares_the_version_again(
    shop: Shop, maria: User, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.add(SHIRT)
    order = await place_order(shop)
    url, tries = f"{store_url}/orders/{order['id']}/ship", 0
    await maria.open(url)
    sent = shown_form(maria.response.text, url)

    async def losing(call: Call, order_id: int) -> None:
        nonlocal tries
        tries += 1
        if tries == 2:
            assert (await shop.client.patch(f"/orders/{order_id}", json={"note": "Wait."})).status_code == 200
        await process_pending(call, order_id)
        if tries == 1:
            await call.db.fetch("DO $$ BEGIN RAISE EXCEPTION 'a deadlock' USING ERRCODE = '40P01'; END $$")

    monkeypatch.setattr(order_actions, "process_pending", losing)
    await maria.submit(url, sent)
    assert (maria.response.status_code, tries) == (409, 2)
    now = await stored(shop, order)
    assert (now["status"], now["note"]) == ("pending", "Wait.")


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"payment_status": "refunded"}, "payment_status"),
        ({"payment_status": "partially_refunded"}, "payment_status"),
        ({"status": "shipped"}, "status"),
        ({"status": "returned"}, "status"),
        ({"status": "cancelled"}, "status"),
    ],
)
async def test_a_forged_status_does_not_skip_the_form_of_its_own(
    shop: Shop, maria: User, store_url: str, sent: dict[str, str], field: str
) -> None:
    order = await paid_order(shop)
    await act(maria, f"{store_url}/orders/{order['id']}/status", **sent)
    assert (maria.response.status_code, maria.faults.keys()) == (422, {field})
    assert await stored(shop, order) == order


async def test_the_units_of_a_line_item_are_found_by_any_spelling_of_its_id(
    shop: Shop, maria: User, store_url: str
) -> None:
    await shop.add(SHIRT)
    order = await place_order(shop)
    line, url = order["line_items"][0]["id"], f"{store_url}/orders/{order['id']}/edit"
    await maria.open(url)
    sent = {name: value for name, value in hidden(maria.text).items() if name in ("key", "version")}
    await maria.submit(url, {**sent, f"quantities[00{line}]": "2"})
    assert maria.notice == "The line items were changed.", maria.response.status_code
    assert (await stored(shop, order))["line_items"][0]["quantity"] == 2
