"""Orders in unusual situations: concurrent erasure, stock rules that change, extreme and contradictory values."""

import asyncio
from typing import Any

import httpx
import msgspec
import pytest

from stoa.webhooks.api.queries import EVENT_ANY_DAY
from stoa.webhooks.http import message
from tests.orders.sample_store import ADA, HOME, SampleStore, codes
from tests.support.canaries import traces
from tests.support.races import until_somebody_waits


async def test_values_sent_with_the_order_win_over_those_of_the_stored_customer(store: SampleStore) -> None:
    known = await store.place(("TEA", 1), customer=ADA)
    given = {"email": "ada.new@example.com", "phone": ADA["phone"], "first_name": "Augusta"}
    order = await store.place(("CLASS", 1), customer=given)
    assert order["customer_id"] == known["customer_id"]
    assert order["contact"] == {**given, "last_name": "Moor"}
    other = await store.place(("CLASS", 2), customer=given, contact={"first_name": "Reception"})
    assert other["contact"]["first_name"] == "Reception"


async def test_a_dry_run_finds_a_stored_customer_and_creates_none(store: SampleStore) -> None:
    known = await store.place(("TEA", 1), customer=ADA)
    for customer, found in ((ADA, known["customer_id"]), ({"email": "new@example.com"}, None)):
        body = {"line_items": [{"sku": "TEA", "quantity": 1}], "customer": customer}
        answer = await store.client.post("/orders?dry_run=true", json=body)
        assert (answer.status_code, answer.json()["data"]["customer_id"]) == (200, found)


@pytest.mark.parametrize("who", ["guest", "new"])
async def test_the_stored_response_of_a_dry_run_is_erased_with_the_person(store: SampleStore, who: str) -> None:
    person = {"email": "Linnet.Dunnock@aviary.example", "phone": "+442079460779", "first_name": "Linnet"}
    body = {"line_items": [{"sku": "TEA", "quantity": 1}], "contact" if who == "guest" else "customer": person}
    keyed = {"idempotency-key": f"dry-{who}"}
    first = await store.client.post("/orders?dry_run=true", json=body, headers=keyed)
    assert first.status_code == 200
    other = {**body, "contact": {"email": "someone.else@aviary.example"}}
    other.pop("customer", None)
    kept = await store.client.post("/orders?dry_run=true", json=other, headers={"idempotency-key": f"else-{who}"})
    assert [
        each
        for each in await traces(store.shop.db, ["linnet"], store_id=store.shop.store.id)
        if each.startswith("idempotency_keys.body")
    ]
    customer = (await store.client.post("/customers", json=person)).json()["data"]
    assert (await store.client.delete(f"/customers/{customer['id']}")).status_code == 204
    assert await traces(store.shop.db, ["linnet", "2079460779"], store_id=store.shop.store.id) == []
    again = await store.client.post("/orders?dry_run=true", json=body, headers=keyed)
    assert (again.status_code, again.json()["data"]) == (200, {"id": 0})
    replay = await store.client.post("/orders?dry_run=true", json=other, headers={"idempotency-key": f"else-{who}"})
    assert replay.content == kept.content


async def test_a_cancel_reason_is_erased_with_the_person(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), customer={**ADA, "email": "c@example.com", "phone": None})
    await store.change_status(order, "cancelled", reason='Mrs "Siskin" rang')
    await store.client.delete(f"/customers/{order['customer_id']}")
    assert await traces(store.shop.db, ["siskin"], store_id=store.shop.store.id) == []
    assert (await store.get(order))["cancel_reason"] is None


async def test_a_status_change_records_its_reason_and_its_comment(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), payment_status="paid")
    await store.put_status(order, payment_status="refunded", reason="Damaged.", comment="Sent a photo.")
    assert (await store.timeline(order))[0]["body"] == "Damaged.\nSent a photo."


async def test_placing_waits_for_a_suspected_duplicate_without_locking_the_customer(store: SampleStore) -> None:
    """Orders are locked before their customer; otherwise placing and erasing could deadlock."""
    order = await store.place(("CLASS", 1), customer=ADA)
    async with store.shop.db.transaction() as db:
        await db.fetch("SELECT id FROM orders WHERE store_id = $1 FOR NO KEY UPDATE", store.shop.store_id)
        placing = asyncio.create_task(store.post(("CLASS", 1), customer_id=order["customer_id"]))
        await until_blocked(store)
        lock = "SELECT id FROM customers WHERE store_id = $1 AND id = $2 FOR UPDATE NOWAIT"
        assert await db.fetch(lock, store.shop.store_id, order["customer_id"])
    assert (await placing).status_code == 201


async def test_an_order_of_a_concurrently_erased_customer_is_refused(store: SampleStore) -> None:
    for status in ("draft", "pending"):
        customer = (await store.client.post("/customers", json={"email": f"{status}@example.com"})).json()["data"]
        order = await store.place(("CLASS", 1), customer_id=customer["id"])
        async with store.shop.db.transaction() as db:
            await db.fetch(
                "SELECT id FROM orders WHERE store_id = $1 AND id = $2 FOR UPDATE", store.shop.store_id, order["id"]
            )
            placing = asyncio.create_task(store.post(("CLASS", 1), customer_id=customer["id"], status=status))
            await until_blocked(store)
            await db.execute(
                "UPDATE customers SET status = 'erased', deleted_at = now() WHERE store_id = $1 AND id = $2",
                store.shop.store_id,
                customer["id"],
            )
        refused = await placing
        assert (refused.status_code, codes(refused)) == (422, [("/customer_id", "unknown_customer")])


async def test_an_erasure_waits_for_a_concurrent_order_and_includes_it(store: SampleStore) -> None:
    wren = {"email": "wrenlet@aviary.example", "first_name": "Wrenlet"}
    customer = (await store.client.post("/customers", json=wren)).json()["data"]
    async with store.shop.db.transaction() as db:
        await db.fetch("SELECT id FROM products WHERE store_id = $1 FOR NO KEY UPDATE", store.shop.store_id)
        placing = asyncio.create_task(store.post(("TEA", 1), customer_id=customer["id"]))
        await until_blocked(store)
        erasing = asyncio.create_task(store.client.delete(f"/customers/{customer['id']}"))
        await until_blocked(store, 2)
        assert not erasing.done()
    assert [(await placing).status_code, (await erasing).status_code] == [201, 204]
    assert await traces(store.shop.db, ["wrenlet"], store_id=store.shop.store.id) == []


async def until_blocked(store: SampleStore, calls: int = 1) -> None:
    await until_somebody_waits(store.shop.db, calls)


async def test_orders_of_a_backordered_variant_can_be_cancelled_when_backorders_end(store: SampleStore) -> None:
    soap = {
        "name": "Soap",
        "price": "3.00",
        "variants": [{"sku": "SOAP", "allow_backorder": True, "stock": {"on_hand": 1}}],
    }
    await store.add_products(soap)
    orders = [await store.place(("SOAP", 3)) for _ in range(2)]
    ended = await store.client.patch(
        "/products/variants", json={"items": [{"sku": "SOAP", "data": {"allow_backorder": False}}]}
    )
    assert ended.status_code < 500, ended.text
    for order in orders:
        answer = await store.put_status(order, status="cancelled")
        assert answer.status_code == 200, answer.text
    await store.assert_stock_is_consistent()


async def test_a_variant_can_become_tracked_while_orders_are_open(store: SampleStore) -> None:
    order = await store.place(("CLASS", 3), status="processing")
    changed = await store.client.patch(
        "/products/variants", json={"items": [{"sku": "CLASS", "data": {"track_inventory": True}}]}
    )
    assert changed.status_code < 500, changed.text
    answer = await store.put_status(order, status="shipped")
    assert answer.status_code < 500
    await store.assert_stock_is_consistent()


async def test_the_list_of_duplicates_can_be_filtered_by_updated_since(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), customer=ADA)
    duplicate = await store.place(("TEA", 1), customer=ADA)
    path = f"/orders/{order['id']}/duplicates"
    for since, found in (("2000-01-01T00:00:00Z", [duplicate["id"]]), ("2999-01-01T00:00:00Z", [])):
        page = (await store.client.get(path, params={"updated_since": since})).json()
        assert [each["order_id"] for each in page["data"]] == found


async def test_a_copy_of_a_guests_order_waits_for_an_erasure(store: SampleStore) -> None:
    order = await store.place(("CLASS", 1), contact={"email": "pipit@aviary.example"}, shipping_address=HOME)
    async with store.shop.db.transaction() as db:
        sql = "SELECT id FROM orders WHERE store_id = $1 AND id = $2 FOR NO KEY UPDATE"
        await db.fetch(sql, store.shop.store_id, order["id"])
        copying = asyncio.create_task(store.client.post(f"/orders/{order['id']}/duplicates", json={}))
        done, _ = await asyncio.wait({copying}, timeout=0.3)
        assert not done
    assert (await copying).status_code == 201


HOSTILE: list[tuple[str, str, Any]] = [
    ("POST", "/orders", {"line_items": [{"sku": "TEA", "quantity": 1}], "placed_at": "0001-01-01T00:00:00Z"}),
    ("POST", "/orders", {"line_items": [{"sku": "TEA", "quantity": 1}], "placed_at": "9999-12-31T23:59:59.999999-14:00"}),
    ("POST", "/orders", {"line_items": [{"sku": "TEA", "quantity": 1}], "placed_at": "0001-01-01T00:00:00+14:00"}),
    ("POST", "/orders", {"line_items": [{"variant_id": 10**18 - 1, "quantity": 1}]}),
    ("POST", "/orders", {"line_items": [{"variant_id": 2**63, "quantity": 1}]}),
    ("POST", "/orders", {"line_items": [{"sku": "TEA", "quantity": 10**6}] * 500}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 10**6, "unit_price": "9999999999999.99"}]}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 1, "unit_price": "9999999999999.99"}] * 500}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 1, "tax_total": "9999999999999.99", "discount_total": "9999999999999.99"}] * 500}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 1}], "customer_id": 10**18 - 1}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 1}], "customer": {}}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 1}], "contact": {"phone": "+999999999999999999999"}}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 1}], "contact": {"email": "İ" * 120 + "@x.example", "first_name": "'\\\\'" * 60}}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 1, "metadata": {"a": 1e308}}], "metadata": {"a": -1e308, "b": 2**63 - 1}}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 1}], "tags": ["'", "\\", "a'b\\:*", " "], "note": "\u2028\u0001"}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 1}], "shipping_address": {"address1": "\u0301\u0301", "country_code": "zz", "latitude": 90, "longitude": -180}}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 1}], "external_id": "\U0001d54f" * 255}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 1}], "total": "1e20"}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": True}]}),
    ("POST", "/orders", {"line_items": [{"sku": "CLASS", "quantity": 1.0}]}),
    ("PUT", "{order}/status", {"status": "shipped", "line_items": [{"id": 10**18 - 1, "quantity": 1}] * 500}),
    ("PUT", "{order}/status", {"amount_refunded": "1"}),
    ("PUT", "{order}/status", {"payment_status": "partially_refunded", "amount_refunded": "0"}),
    ("PATCH", "{order}", {"contact": {"phone": "x"}, "metadata": {str(n): n for n in range(101)}}),
    ("PATCH", "{order}", {"contact": None, "shipping_address": None, "metadata": None, "tags": None, "note": None, "external_id": None}),
    ("PATCH", "{order}", {"shipping_total": None}),
    ("PATCH", "{order}", {"contact": {"email": None, "nope": 1}}),
    ("PATCH", "{order}", {"shipping_address": []}),
    ("PATCH", "{order}", {"discount_total": "9999999999999.99"}),
    ("PATCH", "{order}", {"line_items": []}),
    ("PATCH", "{order}", {"id": "x", "source": {}, "version": 10**30}),
    ("PATCH", "{order}/products/{line}", {"quantity": 0, "unit_price": None}),
    ("PATCH", "{order}/products/{line}", {"sku": "OTHER", "id": 4}),
    ("PATCH", "{order}/products/999999999999999999", {"quantity": 1}),
    ("PATCH", "{order}/products/9999999999999999999999", {"quantity": 1}),
    ("POST", "{order}/products", {"line_items": [{"sku": "TEA", "variant_id": 1, "quantity": 1}, {"quantity": 1}]}),
    ("POST", "{order}/duplicates", {"status": "shipped"}),
    ("POST", "{order}/duplicates", []),
    ("POST", "{order}/comments", {"body": "\u0000"}),
    ("GET", "/orders?number=99999999999999999999", None),
    ("GET", "/orders?total[gte]=99999999999999999999.99", None),
    ("GET", "/orders?total[gte]=-1", None),
    ("GET", "/orders?placed_at[gte]=0001-01-01T00:00:00%2B14:00", None),
    ("GET", "/orders?customer_id=99999999999999999999,1", None),
    ("GET", "/orders?ids=" + ",".join(map(str, range(1, 300))), None),
    ("GET", "/orders?q='%5C%3A*&tag='%5C", None),
    ("GET", "/orders?metadata[a'b]=%5C'", None),
    ("GET", "/orders?email=%00", None),
    ("GET", "/orders?phone=%2B%2B", None),
    ("GET", "/orders?sku=%ff", None),
    ("GET", "/orders?updated_since=9999-12-31T23:59:59-14:00", None),
    ("GET", "{order}/comments?type=comment,nope", None),
    ("GET", "{order}/duplicates?kind=copy&sort=-id&limit=250&page=40", None),
]  # fmt: skip


async def test_no_value_causes_an_internal_error(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), customer=ADA)
    failed: list[tuple[str, str, Any, int]] = []
    for method, path, body in HOSTILE:
        target = path.replace("{order}", f"/orders/{order['id']}").replace("{line}", str(order["line_items"][0]["id"]))
        answer: httpx.Response = (
            await store.client.request(method, target, json=body)
            if body is not None
            else (await store.client.request(method, target))
        )
        if answer.status_code >= 500:
            failed.append((method, path, body, answer.status_code))
    assert failed == []
    await store.assert_stock_is_consistent()


async def test_a_line_with_a_negative_total_is_reported_along_with_an_unknown_variant(store: SampleStore) -> None:
    lines = [
        {"sku": "NOPE", "quantity": 1},
        {"sku": "TEA", "quantity": 1, "discount_total": "9.00"},
        {"variant_id": 999_999_999, "quantity": 1},
    ]
    address = {"address1": "1 Row", "country_code": "zz"}
    refused = await store.post(line_items=lines, shipping_address=address, billing_address=address)
    assert sorted(codes(refused)) == [
        ("/billing_address/country_code", "invalid_format"),
        ("/line_items/0/sku", "unknown_sku"),
        ("/line_items/1/discount_total", "out_of_range"),
        ("/line_items/2/variant_id", "unknown_variant"),
        ("/shipping_address/country_code", "invalid_format"),
    ]


async def test_an_address_must_be_in_an_existing_country(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), shipping_address=HOME)
    refused = await store.patch(order, shipping_address={"country_code": "ZZ"}, contact={"phone": "12"})
    assert sorted(codes(refused)) == [
        ("/contact/phone", "invalid_format"),
        ("/shipping_address/country_code", "invalid_format"),
    ]


async def test_an_erasure_emits_an_event_for_each_order(store: SampleStore) -> None:
    orders = [await store.place(("TEA", 1), customer=ADA), await store.place(("CLASS", 1), contact=ADA)]
    await store.skip_events()
    assert (await store.client.delete(f"/customers/{orders[0]['customer_id']}")).status_code == 204
    events = await store.events()
    assert [(event["type"], event["resource_id"], event["version"]) for event in events] == [
        ("order.updated", order["id"], 2) for order in orders
    ]
    assert [event["data"] for event in events] == [await store.get(order) for order in orders]
    assert [event["changes"] for event in events] == [{}, {}]


async def test_a_customer_cannot_spend_more_than_the_largest_amount(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), customer=ADA)
    await store.shop.db.execute(
        "UPDATE customers SET total_spent = 9223372036854775807 WHERE store_id = $1", store.shop.store_id
    )
    refused = await store.put_status(order, payment_status="paid")
    assert (refused.status_code, codes(refused)) == (422, [("/payment_status", "out_of_range")])
    assert (await store.get(order))["payment_status"] == "unpaid"


@pytest.mark.parametrize("way", ["create", "patch"])
async def test_the_loser_of_a_race_for_an_external_id_gets_the_winners_id(store: SampleStore, way: str) -> None:
    other = await store.place(("CLASS", 1))
    async with store.shop.db.transaction() as db:
        await db.fetch("SELECT id FROM variants WHERE store_id = $1 AND sku = 'TEA' FOR UPDATE", store.shop.store_id)
        first = asyncio.create_task(store.post(("TEA", 1), external_id="web-1"))
        await until_blocked(store)
        second = asyncio.create_task(
            store.post(("CLASS", 1), external_id="web-1")
            if way == "create"
            else store.patch(other, external_id="web-1")
        )
        await until_blocked(store, 2)
    won, lost = await first, await second
    assert (won.status_code, lost.status_code) == (201, 409), lost.text
    assert (lost.json()["code"], lost.json()["existing_id"]) == ("external_id_taken", won.json()["data"]["id"])
    assert codes(lost) == [("/external_id", "external_id_taken")]


async def test_a_copy_without_enough_stock_points_at_the_request(store: SampleStore) -> None:
    order = await store.place(("TEA", 8), ("POT-B", 3))
    refused = await store.client.post(f"/orders/{order['id']}/duplicates", json={"status": "pending"})
    assert refused.status_code == 409
    assert [(fault["pointer"], fault["meta"]["available"]) for fault in refused.json()["errors"]] == [
        ("/status", 2),
        ("/status", 0),
    ]
    lines: list[dict[str, Any]] = order["line_items"]
    assert [fault["meta"]["line_item_id"] for fault in refused.json()["errors"]] == [line["id"] for line in lines]


async def test_the_event_of_a_cancelled_order_shows_that_nothing_is_due(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), customer=ADA)
    await store.skip_events()
    await store.change_status(order, "cancelled")
    [event] = await store.events()
    assert event["changes"]["amount_due"] == ["8.00", "0.00"]


async def test_a_thin_event_of_a_comment_links_to_the_comment(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    await store.client.post(f"/orders/{order['id']}/comments", json={"body": 'Says "order_id":1.'})
    [[event_id]] = await store.shop.db.fetch(
        "SELECT id FROM events WHERE store_id = $1 AND type = 'order.comment_created'", store.shop.store_id
    )
    event = await EVENT_ANY_DAY.one(store.shop.db, store.shop.store_id, event_id)
    shown = message.EventStore(store.shop.store_id, store.shop.store.handle, "https://api.example.com/stores/demo")
    thin = msgspec.json.decode(message.body(event, 1, shown, payload="thin"))
    assert thin["resource"]["url"] == f"/api/v3/app/orders/{order['id']}/comments"
