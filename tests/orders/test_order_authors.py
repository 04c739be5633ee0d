"""Whom an order, its timeline, its events and the stock ledger name: the app, an operator, or a person."""

import msgspec
import pytest

from stoa.orders.bodies import NewComment, NewCopy, NewOrder, StatusChange
from stoa.orders.comments import create_order_comment
from stoa.orders.duplicates import duplicate_order
from stoa.orders.endpoints import create_order
from stoa.orders.status import update_order_status
from stoa.rest.body import convert
from stoa.rest.call import Call, Caller, NamedOperator, NamedPerson
from tests.orders.sample_store import ADA, SampleStore

TILL = NamedOperator("Till")
AUTHOR = {"type": "operator", "id": None, "name": "Till"}


async def test_an_app_is_the_author_of_its_orders(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), customer=ADA)
    assert order["source"] == {"app_id": store.shop.app_id, "name": "Test app"}
    assert [entry["author"] for entry in await store.timeline(order)] == [
        {"type": "app", "id": store.shop.app_id, "name": "Test app"}
    ]
    assert await _actors(store) == {("app", store.shop.app_id)}


async def test_an_operator_is_the_author_of_an_order_without_an_app(store: SampleStore) -> None:
    body = {"line_items": [{"sku": "TEA", "quantity": 1}], "customer": ADA}
    async with store.shop.db.transaction() as db:
        call = Call(db, store.shop.store, TILL, "req_tests", "")
        created = await create_order(call, convert(body, NewOrder, digits=2))
        order = msgspec.json.decode(created.doc)
        await update_order_status(call, order["id"], StatusChange(status="processing"))
        await create_order_comment(call, order["id"], NewComment("Packed."))
        copied = await duplicate_order(call, order["id"], NewCopy())
    for placed in (order, msgspec.json.decode(copied.doc)):
        assert placed["source"] == {"app_id": None, "name": "Till"}
        assert all(entry["author"] == AUTHOR for entry in await store.timeline(placed))
    assert await _actors(store) == {("operator", None)}


async def test_a_person_is_named_in_the_timeline_and_not_in_events(store: SampleStore) -> None:
    order = await store.place(("TEA", 1))
    store.last_event = (await store.shop.db.fetch("SELECT max(position) FROM events"))[0][0]
    async with store.shop.db.transaction() as db:
        call = Call(db, store.shop.store, NamedPerson(7, "Maria Stone"), "req_tests", "")
        await update_order_status(call, order["id"], StatusChange(status="processing"))
        await update_order_status(call, order["id"], StatusChange(status="cancelled"))
    assert call.actor == "account:7"
    entries = await store.timeline(order)
    assert [each["author"] for each in entries[:2]] == [{"type": "account", "id": None, "name": "Maria Stone"}] * 2
    assert ("account", None) in await _actors(store)


async def test_a_handler_that_needs_an_app_refuses_an_operator(store: SampleStore) -> None:
    call = Call(store.shop.db, store.shop.store, TILL, "req_tests", "")
    with pytest.raises(TypeError, match="Till is an operator"):
        _ = call.caller


async def test_an_operator_may_use_every_scope(store: SampleStore) -> None:
    app = Caller(1, "App", frozenset({"orders:write"}), 1, 1)
    for scope, allowed in (("orders:read", True), ("customers:read", False)):
        assert Call(store.shop.db, store.shop.store, app, "req_tests", "").may(scope) is allowed
        assert Call(store.shop.db, store.shop.store, TILL, "req_tests", "").may(scope)


async def _actors(store: SampleStore) -> set[tuple[str, int | None]]:
    """The actors of the events since the products were added, and of the ledger rows of orders."""
    rows = await store.shop.db.fetch(
        """SELECT actor FROM events WHERE store_id = $1 AND position > $2
            UNION ALL SELECT actor FROM stock_movements WHERE store_id = $1 AND order_id IS NOT NULL""",
        store.shop.store_id,
        store.last_event,
    )
    actors = [msgspec.json.decode(row[0]) for row in rows]
    assert len(actors) > 2
    return {(actor["type"], actor.get("app_id")) for actor in actors}
