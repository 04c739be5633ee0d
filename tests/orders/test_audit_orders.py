"""Orders as a hostile reader of the contract tries them: each of these was once not as it is written."""

import asyncio
from typing import Any

import msgspec
import pytest

from stoa.webhooks.delivery import envelope
from tests.orders.counter import ADA, Counter, codes
from tests.orders.test_review import waits_for_a_row


@pytest.mark.parametrize("way", ["create", "patch"])
async def test_whoever_loses_the_race_for_an_external_id_is_told_who_won(counter: Counter, way: str) -> None:
    other = await counter.place(("CLASS", 1))
    async with counter.shop.db.transaction() as db:
        await db.fetch("SELECT id FROM variants WHERE store_id = $1 AND sku = 'TEA' FOR UPDATE", counter.shop.store_id)
        first = asyncio.create_task(counter.post(("TEA", 1), external_id="web-1"))
        await waits_for_a_row(counter)
        second = asyncio.create_task(
            counter.post(("CLASS", 1), external_id="web-1")
            if way == "create"
            else counter.patch(other, external_id="web-1")
        )
        await waits_for_a_row(counter, 2)
    won, lost = await first, await second
    assert (won.status_code, lost.status_code) == (201, 409), lost.text
    assert (lost.json()["code"], lost.json()["existing_id"]) == ("external_id_taken", won.json()["data"]["id"])
    assert codes(lost) == [("/external_id", "external_id_taken")]


async def test_a_copy_that_cannot_be_had_points_at_what_was_sent(counter: Counter) -> None:
    order = await counter.place(("TEA", 8), ("POT-B", 3))
    refused = await counter.client.post(f"/orders/{order['id']}/duplicates", json={"status": "pending"})
    assert refused.status_code == 409
    assert [(fault["pointer"], fault["meta"]["available"]) for fault in refused.json()["errors"]] == [
        ("/status", 2),
        ("/status", 0),
    ]
    lines: list[dict[str, Any]] = order["line_items"]
    assert [fault["meta"]["line_item_id"] for fault in refused.json()["errors"]] == [line["id"] for line in lines]


async def test_a_cancelled_order_tells_that_nothing_is_due(counter: Counter) -> None:
    order = await counter.place(("TEA", 1), customer=ADA)
    await counter.forget()
    await counter.move(order, "cancelled")
    [event] = await counter.events()
    assert event["changes"]["amount_due"] == ["8.00", "0.00"]


async def test_a_thin_event_of_a_comment_says_where_the_comment_is(counter: Counter) -> None:
    order = await counter.place(("TEA", 1))
    await counter.client.post(f"/orders/{order['id']}/comments", json={"body": 'Says "order_id":1.'})
    [[event_id]] = await counter.shop.db.fetch(
        "SELECT id FROM events WHERE store_id = $1 AND type = 'order.comment_created'", counter.shop.store_id
    )
    event = await envelope.EVENT_ANY_DAY.one(counter.shop.db, counter.shop.store_id, event_id)
    told = msgspec.json.decode(envelope.body(event, 1, payload="thin"))
    assert told["resource"]["url"] == f"/api/v3/app/orders/{order['id']}/comments"
