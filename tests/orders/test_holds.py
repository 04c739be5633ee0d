"""Holds of pending orders: begun, extended, ended by a payment, and expired exactly once."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from stoa.db.pool import Database
from stoa.orders import expiry, placement
from stoa.orders.expiry import REASON, expire_orders
from stoa.settings import Settings
from tests.orders.sample_store import ADA, TEA, SampleStore, codes
from tests.support.shops import Shop

MONTH_S = 30 * 24 * 3600


async def end_holds(store: SampleStore, *orders: dict[str, Any]) -> None:
    """Let the holds of orders end now, in the column and in the document."""
    await store.shop.db.execute(
        """UPDATE orders SET expires_at = now() - interval '1 second',
                  head = regexp_replace(head, '"expires_at":"[^"]*"', '"expires_at":"' || rfc3339(now() - interval '1 second') || '"')
            WHERE store_id = $1 AND id = ANY ($2::bigint[])""",
        store.shop.store_id,
        [order["id"] for order in orders],
    )


def later(**delta: float) -> str:
    return (datetime.now(UTC) + timedelta(**delta)).isoformat()


async def test_an_order_that_is_not_paid_in_time_is_cancelled(store: SampleStore, db: Database) -> None:
    order = await store.place(("TEA", 3), customer=ADA, hold_for=3600)
    assert abs(datetime.fromisoformat(order["expires_at"]) - datetime.now(UTC) - timedelta(hours=1)) < timedelta(
        minutes=5
    )
    assert (await store.stock("TEA"), await expire_orders(db)) == ((10, 3), 0)
    assert (await store.get(order))["status"] == "pending"
    await end_holds(store, order)
    held = await store.get(order)
    await store.skip_events()
    assert await expire_orders(db) == 1
    expired = await store.get(order)
    assert (expired["status"], expired["expires_at"], expired["cancel_reason"]) == ("cancelled", None, REASON)
    assert (expired["cancelled_at"] > held["expires_at"], await store.stock("TEA")) == (True, (10, 0))
    events = await store.events()
    assert [event["type"] for event in events] == ["order.status_changed", "order.expired"]
    assert events[1]["changes"]["status"] == ["pending", "cancelled"]
    assert events[1]["changes"]["expires_at"] == [held["expires_at"], None]
    assert events[1]["data"] == expired
    entry = (await store.timeline(order))[0]
    assert (entry["body"], entry["author"]) == (REASON, {"type": "operator", "id": None, "name": "Stoa"})
    assert (await store.ledger(order))[-1] == ("release", 0, -3)
    assert await expire_orders(db) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"payment_status": "paid"},
        {"payment_status": "authorized"},
        {"status": "processing"},
        {"status": "on_hold"},
        {"status": "cancelled"},
    ],
)
async def test_a_hold_ends_when_the_order_is_paid_or_moves_on(
    store: SampleStore, db: Database, change: dict[str, Any]
) -> None:
    order = await store.place(("TEA", 3), hold_for=3600)
    await store.skip_events()
    moved = (await store.put_status(order, **change)).json()["data"]
    assert moved["expires_at"] is None
    assert "order.updated" not in [event["type"] for event in await store.events()]
    await end_holds(store, order)  # a column that a writer left behind
    assert (await expire_orders(db), (await store.get(order))["status"]) == (0, moved["status"])


async def test_a_failed_payment_does_not_end_the_hold(store: SampleStore, db: Database) -> None:
    order = await store.place(("TEA", 3), hold_for=3600)
    failed = (await store.put_status(order, payment_status="failed")).json()["data"]
    assert failed["expires_at"] == order["expires_at"]
    await end_holds(store, order)
    assert await expire_orders(db) == 1


async def test_a_hold_is_begun_extended_and_ended_by_a_patch(store: SampleStore, db: Database) -> None:
    order = await store.place(("TEA", 3))
    assert order["expires_at"] is None
    until = later(days=2)
    await store.skip_events()
    held = (await store.patch(order, expires_at=until)).json()["data"]
    assert datetime.fromisoformat(held["expires_at"]) == datetime.fromisoformat(until)
    assert await store.event_names() == ["updated"]
    assert (await store.patch(order, expires_at=until)).json()["data"]["version"] == held["version"]
    await end_holds(store, order)
    extended = (await store.patch(order, hold_for=3600)).json()["data"]
    assert (extended["expires_at"] is not None, await expire_orders(db)) == (True, 0)
    assert [each["number"] for each in (await listed(store, **{"expires_at[lt]": later(hours=1)}))] == [order["number"]]
    assert (await store.patch(order, expires_at=None)).json()["data"]["expires_at"] is None
    assert await listed(store, **{"expires_at[lt]": later(hours=1)}) == []


async def listed(store: SampleStore, **params: Any) -> list[dict[str, Any]]:
    return (await store.client.get("/orders", params=params)).json()["data"]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"expires_at": "2020-01-01T00:00:00Z"}, ("/expires_at", "out_of_range")),
        ({"expires_at": "2999-01-01T00:00:00Z"}, ("/expires_at", "out_of_range")),
        ({"hold_for": 0}, ("/hold_for", "out_of_range")),
        ({"hold_for": -1}, ("/hold_for", "out_of_range")),
        ({"hold_for": MONTH_S + 1}, ("/hold_for", "out_of_range")),
        ({"hold_for": "60"}, ("/hold_for", "invalid_type")),
        ({"hold_for": 60, "expires_at": "2999-01-01T00:00:00Z"}, ("/hold_for", "invalid_format")),
    ],
)
async def test_an_invalid_hold_is_refused_and_nothing_is_written(
    store: SampleStore, body: dict[str, Any], fault: tuple[str, str]
) -> None:
    for path in ("/orders", "/orders?dry_run=true"):
        answer = await store.client.post(path, json={"line_items": [{"sku": "TEA", "quantity": 1}], **body})
        assert (answer.status_code, codes(answer)) == (422, [fault])
    assert (await listed(store), await store.stock("TEA")) == ([], (10, 0))
    order = await store.place(("TEA", 1), hold_for=MONTH_S)
    assert codes(await store.patch(order, **body)) == [fault]
    assert await store.get(order) == order


@pytest.mark.parametrize("state", [{"status": "draft"}, {"status": "processing"}, {"payment_status": "paid"}])
async def test_only_a_pending_order_that_is_not_paid_is_held(store: SampleStore, state: dict[str, Any]) -> None:
    refused = await store.post(("TEA", 1), hold_for=60, **state)
    assert codes(refused) == [("/hold_for", "invalid_format")]
    order = await store.place(("TEA", 1), **state)
    assert codes(await store.patch(order, expires_at=later(hours=1))) == [("/expires_at", "invalid_format")]
    assert (await store.patch(order, expires_at=None)).json()["data"] == order


async def test_a_copy_of_an_order_is_not_held(store: SampleStore) -> None:
    order = await store.place(("TEA", 1), hold_for=3600)
    copy = (await store.client.post(f"/orders/{order['id']}/duplicates", json={"status": "pending"})).json()["data"]
    assert copy["expires_at"] is None


async def test_workers_at_the_same_time_expire_each_order_once(store: SampleStore, db: Database) -> None:
    orders = [await store.place(("CLASS", 1), ("TEA", 1), hold_for=3600, customer=ADA) for _ in range(8)]
    await end_holds(store, *orders)
    await store.skip_events()
    assert sum(await asyncio.gather(*(expire_orders(db) for _ in range(3)))) <= 8
    await expire_orders(db)  # what a worker left to another one that failed
    names = [event["resource_id"] for event in await store.events("order.expired")]
    assert sorted(names) == sorted(order["id"] for order in orders)
    assert await store.stock("TEA") == (10, 0)
    await store.assert_stock_is_consistent()


async def test_a_payment_and_the_expiry_at_the_same_time_leave_one_of_them(store: SampleStore, db: Database) -> None:
    orders = [await store.place(("CLASS", 1), hold_for=3600) for _ in range(10)]
    await end_holds(store, *orders)
    payments = [partial(store.put_status, order, payment_status="paid", status="processing") for order in orders]
    expiring = asyncio.create_task(expire_orders(db))
    answers = await asyncio.gather(*(store.patiently(pay) for pay in payments))
    await expiring
    for order, answer in zip(orders, answers, strict=True):
        now = await store.get(order)
        assert (now["status"], answer.status_code) in (("processing", 200), ("cancelled", 409))


async def test_an_order_that_fails_does_not_keep_others_from_expiring(
    store: SampleStore, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = [await store.place(("TEA", 1), hold_for=3600) for _ in range(2)]
    await end_holds(store, first, second)
    due = await store.get(first)
    working = expiry.expire_all

    async def fail(db: Any, store: Any, ids: Sequence[int]) -> int:
        expired = await working(db, store, ids)
        if first["id"] in ids:
            raise ValueError("broken")
        return expired

    monkeypatch.setattr(expiry, "expire_all", fail)
    await store.skip_events()
    assert (await expire_orders(db), (await store.get(second))["status"]) == (1, "cancelled")
    assert (await store.get(first), await store.stock("TEA")) == (due, (10, 1))
    monkeypatch.undo()
    assert (await expire_orders(db), (await store.get(first))["status"]) == (1, "cancelled")
    events = await store.events("order.expired")
    assert [event["resource_id"] for event in events] == [second["id"], first["id"]]


async def caused(store: SampleStore) -> dict[str, list[str]]:
    """The types of the events since the last `skip_events` by the request that caused them, oldest first."""
    statement = "SELECT request_id, type FROM events WHERE store_id = $1 AND position > $2 ORDER BY position"
    found: dict[str, list[str]] = {}
    for request_id, name in await store.shop.db.fetch(statement, store.shop.store_id, store.last_event):
        found.setdefault(request_id, []).append(name)
    return found


async def test_orders_of_one_store_expire_in_one_transaction_as_they_would_alone(
    store: SampleStore, db: Database
) -> None:
    alone = await store.place(("TEA", 2), ("POT-B", 1), customer=ADA, hold_for=3600)
    await end_holds(store, alone)
    await store.skip_events()
    assert await expire_orders(db) == 1
    [expected] = (await caused(store)).values()
    assert len(expected) == 4, "two of the order, and one of each variant"
    orders = [
        await store.place(*lines, customer={"email": f"{n}@example.com"}, hold_for=3600)
        for n, lines in enumerate(
            [[("TEA", 2), ("POT-B", 1)], [("TEA", 1)], [("POT-W", 1)], [("POT-B", 1), ("TEA", 1)]]
        )
    ]
    await end_holds(store, *orders)
    await store.skip_events()
    assert await expire_orders(db) == 4
    rows = await db.fetch(
        "SELECT DISTINCT xmin::text FROM orders WHERE store_id = $1 AND id > $2", store.shop.store_id, alone["id"]
    )
    assert len(rows) == 1, "one transaction"
    requests = list((await caused(store)).values())
    assert (len(requests), requests[0]) == (4, expected), "each order has a request of its own"
    expired = [event["resource_id"] for event in await store.events("order.expired")]
    assert expired == [order["id"] for order in orders]
    for order, moves in zip(orders, ([-2, -1], [-1], [-1], [-1, -1]), strict=True):
        released = [entry for entry in await store.ledger(order) if entry[0] == "release"]
        assert released == [("release", 0, units) for units in moves]
        entry = (await store.timeline(order))[0]
        assert (entry["body"], entry["author"]["name"]) == (REASON, "Stoa")
    assert [await store.stock(sku) for sku in ("TEA", "POT-B", "POT-W")] == [(10, 0), (3, 0), (1, 0)]
    await store.assert_stock_is_consistent()


async def test_a_group_that_the_database_refuses_is_expired_one_by_one(store: SampleStore, db: Database) -> None:
    orders = [await store.place((sku, 1), hold_for=3600) for sku in ("TEA", "POT-B", "POT-W")]
    await end_holds(store, *orders)
    taken = "UPDATE variants SET reserved = reserved - 1 WHERE store_id = $1 AND sku = 'POT-B'"
    await db.execute(taken, store.shop.store_id)  # to release what is not reserved violates a constraint
    assert await expire_orders(db) == 2
    assert [(await store.get(order))["status"] for order in orders] == ["cancelled", "pending", "cancelled"]
    assert [await store.stock(sku) for sku in ("TEA", "POT-W")] == [(10, 0), (1, 0)]


async def test_an_order_with_suspected_duplicates_expires_beside_the_others(store: SampleStore, db: Database) -> None:
    plain = await store.place(("POT-B", 1), hold_for=3600)
    suspect, kept = [await store.place(("TEA", 1), customer=ADA, **body) for body in ({"hold_for": 3600}, {})]
    assert kept["suspected_duplicates_count"] == 1
    await end_holds(store, plain, suspect)
    await store.skip_events()
    assert await expire_orders(db) == 2
    assert (await store.get(kept))["suspected_duplicates_count"] == 0
    assert [(await store.get(each))["status"] for each in (plain, suspect, kept)] == [
        "cancelled",
        "cancelled",
        "pending",
    ]
    assert len(await store.events("order.expired")) == 2


async def test_an_order_that_is_locked_is_left_out_of_its_group(store: SampleStore, db: Database) -> None:
    locked, other = [await store.place(("TEA", 1), hold_for=3600) for _ in range(2)]
    await end_holds(store, locked, other)
    async with db.transaction(store.shop.store_id) as transaction:
        lock = "SELECT 1 FROM orders WHERE store_id = $1 AND id = $2 FOR NO KEY UPDATE"
        await transaction.execute(lock, store.shop.store_id, locked["id"])
        assert await expire_orders(db) == 1
    assert [(await store.get(order))["status"] for order in (locked, other)] == ["pending", "cancelled"]
    assert await expire_orders(db) == 1


async def test_a_store_with_very_many_orders_does_not_delay_those_of_others(
    store: SampleStore, other_shop: Shop, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await SampleStore(other_shop).add_products(TEA)
    many = [await store.place(("CLASS", 1), hold_for=3600) for _ in range(6)]
    await end_holds(store, *many)
    one = await other.place(("TEA", 1), hold_for=3600)
    await end_holds(other, one)
    done: list[int] = []
    working = expiry.expire_all

    async def note(db: Any, of: Any, ids: Sequence[int]) -> int:
        if of.id in (store.shop.store_id, other_shop.store_id):
            done.extend(ids)
        return await working(db, of, ids)

    monkeypatch.setattr(expiry, "expire_all", note)
    monkeypatch.setattr(expiry, "_TURN", 2)
    assert await expire_orders(db) == 7
    assert done.index(one["id"]) <= 2
    assert [each for each in done if each != one["id"]] == [order["id"] for order in many], "the earliest first"


async def test_the_clock_of_the_service_does_not_matter(
    store: SampleStore, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Jumped(datetime):
        """A clock that is two hours ahead."""

        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
            return datetime.now(tz) + timedelta(hours=2)

    for module in (placement, expiry):
        monkeypatch.setattr(module, "datetime", Jumped)
    held = await store.place(("TEA", 1), hold_for=3600)
    assert datetime.fromisoformat(held["expires_at"]) < datetime.now(UTC) + timedelta(hours=1, minutes=5)
    assert (await store.post(("TEA", 1), expires_at=later(hours=1))).status_code == 201
    assert (await expire_orders(db), (await store.get(held))["status"]) == (0, "pending")


WORKER = """
import asyncio, sys
from stoa.db.pool import Database
from stoa.orders import expiry
from stoa.orders.expiry import expire_orders

async def main():
    database = Database(sys.argv[1], size=2)
    working = expiry.expire_all
    async def expire_all(db, store, ids):
        done = await working(db, store, ids)
        print(ids, flush=True)  # not committed yet
        await asyncio.sleep(0.02)
        return done
    expiry.expire_all = expire_all
    await expire_orders(database)

asyncio.run(main())
"""


async def test_a_worker_that_is_killed_leaves_each_order_whole(
    store: SampleStore, db: Database, settings: Settings
) -> None:
    orders = [await store.place(("TEA", 1), hold_for=3600) for _ in range(6)]
    await end_holds(store, *orders)
    await store.skip_events()
    for _ in range(3):
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WORKER, db.url, stdout=asyncio.subprocess.PIPE
        )
        assert worker.stdout is not None
        await worker.stdout.readline()  # killed inside its first transaction
        worker.send_signal(signal.SIGKILL)
        await worker.wait()
    async with asyncio.timeout(60):
        while (await store.stock("TEA"))[1]:
            await expire_orders(db)
    events = await store.events("order.expired")
    assert sorted(event["resource_id"] for event in events) == sorted(order["id"] for order in orders)
    await store.assert_stock_is_consistent()


async def test_an_order_that_the_previous_release_moved_on_does_not_expire(store: SampleStore, db: Database) -> None:
    order = await store.place(("TEA", 1), hold_for=3600)
    # It keeps the member that it does not know, and calls the function of this release.
    ends = [
        (await db.fetch("SELECT held_until($1, $2, $3)", status, payment, order["expires_at"]))[0][0]
        for status, payment in (("processing", "unpaid"), ("pending", "paid"), ("pending", "unpaid"))
    ]
    assert ends == [None, None, datetime.fromisoformat(order["expires_at"])]
    assert await expire_orders(db) == 0
