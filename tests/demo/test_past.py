"""The past of the demo: every date, sum, event, delivery and count of it agrees with the others."""

import re
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from stoa.access import audit
from stoa.db.pool import Database
from stoa.demo.run import FAILING, prepare
from stoa.portal.stores import home_queries
from stoa.settings import Settings
from tests.support.service import new_database

LOOPBACK = "localhost,127.0.0.0/8,::1"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class Demo(msgspec.Struct):
    """A prepared demo: its database, when its preparation began and ended, and the ids of its stores and its app."""

    db: Database
    settings: Settings
    began: datetime
    ended: datetime
    stores: dict[str, int]
    app_id: int

    async def orders(self, handle: str) -> dict[int, dict[str, Any]]:
        rows = await self.db.fetch(
            """SELECT id, head, lines, person, placed_at, created_at, updated_at, version, number, status, total,
                      suspected_duplicates AS suspected
                 FROM orders WHERE store_id = $1 AND number > 1000 ORDER BY id""",
            self.stores[handle],
        )
        names = (
            "id",
            "head",
            "lines",
            "person",
            "placed_at",
            "created_at",
            "updated_at",
            "version",
            "number",
            "status",
            "total",
            "suspected",
        )
        return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


@pytest.fixture(scope="module")
async def demo(settings: Settings, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> AsyncIterator[Demo]:
    url = await new_database(f"demo_past_{worker_id}")
    folder: Path = tmp_path_factory.mktemp("past")
    ours = msgspec.structs.replace(settings, database_url=url, data_dir=folder, demo=True, webhook_allow=LOOPBACK)
    began = datetime.now(UTC)
    await prepare(ours)
    db = Database(url, size=2)
    stores = {str(row[0]): int(row[1]) for row in await db.fetch("SELECT handle, id FROM stores")}
    [(app_id,)] = await db.fetch("SELECT id FROM apps")
    yield Demo(db, ours, began, datetime.now(UTC), stores, app_id)
    await db.close()


def times_in(*texts: str) -> list[datetime]:
    return [datetime.fromisoformat(found) for text in texts for found in _TIME.findall(text)]


@pytest.mark.parametrize("handle", ["demo", "atelier"])
async def test_all_that_happened_to_an_order_happened_after_it_was_placed(demo: Demo, handle: str) -> None:
    orders = await demo.orders(handle)
    comments = await demo.db.fetch(
        "SELECT order_id, created_at FROM order_comments WHERE store_id = $1 ORDER BY id", demo.stores[handle]
    )
    for each in orders.values():
        head = re.sub(r'"expires_at":"[^"]*"', "", each["head"])
        timeline = [at for order_id, at in comments if order_id == each["id"]]
        assert each["placed_at"] < demo.began - timedelta(minutes=20), each["number"]
        assert timedelta() <= each["created_at"] - each["placed_at"] < timedelta(seconds=2), each["number"]
        assert timeline == sorted(timeline)
        for moment in [*times_in(head, each["lines"]), *timeline, each["updated_at"]]:
            assert each["placed_at"] <= moment < demo.began, (each["number"], moment)
        # The timeline shows every change except a suspected duplicate, which is found when a later order comes.
        assert each["suspected"] or each["updated_at"] - max(timeline) < timedelta(seconds=1), each["number"]


async def test_orders_are_numbered_in_the_order_of_their_times(demo: Demo) -> None:
    orders = await demo.orders("demo")
    assert [each["id"] for each in sorted(orders.values(), key=lambda each: each["placed_at"])] == list(orders)
    assert [each["number"] for each in orders.values()] == list(range(1001, 1001 + len(orders)))


async def test_each_of_the_last_thirty_days_has_sales(demo: Demo) -> None:
    zone = ZoneInfo("America/Los_Angeles")
    days = Counter(each["placed_at"].astimezone(zone).date() for each in (await demo.orders("demo")).values())
    today = demo.began.astimezone(zone).date()
    assert all(days[today - timedelta(days=back)] for back in range(1, 31))
    assert sum(days.values()) > 80


async def test_the_statuses_of_a_working_shop_are_there(demo: Demo) -> None:
    statuses = Counter(each["status"] for each in (await demo.orders("demo")).values())
    assert {
        "pending",
        "processing",
        "on_hold",
        "shipped",
        "delivered",
        "completed",
        "returned",
        "cancelled",
        "draft",
    } <= set(statuses)
    [(refunded, returned)] = await demo.db.fetch(
        """SELECT count(*) FILTER (WHERE refunded_at IS NOT NULL), count(*) FILTER (WHERE status = 'returned')
             FROM orders WHERE store_id = $1 AND placed_at > now() - interval '31 days'""",
        demo.stores["demo"],
    )
    assert refunded >= 3
    assert returned >= 1


async def test_the_sums_of_the_home_page_are_those_of_the_orders(demo: Demo) -> None:
    first = demo.began - timedelta(days=56)
    rows = await home_queries.SALES.all(demo.db, demo.stores["demo"], [first], first, demo.ended)
    sold = [
        each
        for each in (await demo.orders("demo")).values()
        if each["placed_at"] >= first and each["status"] not in ("draft", "cancelled")
    ]
    assert [(row.orders, row.total) for row in rows] == [(len(sold), sum(each["total"] for each in sold))]


@pytest.mark.parametrize("handle", ["demo", "atelier"])
async def test_the_last_event_of_an_order_contains_the_order_as_it_is(demo: Demo, handle: str) -> None:
    events = await demo.db.fetch(
        """SELECT resource_id, resource_version, data, created_at, routed_on, type FROM events
            WHERE store_id = $1 AND type IN ('order.created', 'order.updated', 'order.status_changed') ORDER BY position""",
        demo.stores[handle],
    )
    orders = await demo.orders(handle)
    assert [row[3] for row in events] == sorted(row[3] for row in events), "positions rise with the times"
    for row in events:
        assert row[4] == row[3].astimezone(UTC).date(), "an event was routed on its day"
        assert max(times_in(re.sub(r'"expires_at":"[^"]*"', "", row[2]))) <= row[3] + timedelta(seconds=1)
    recent = [each for each in orders.values() if each["updated_at"] > demo.began - timedelta(days=28)]
    last = {row[0]: row for row in events}
    assert recent
    for each in recent:
        data = msgspec.json.decode(last[each["id"]][2])
        assert (data["status"], data["number"]) == (each["status"], each["number"])
        assert last[each["id"]][1] <= each["version"]


async def test_nothing_of_the_past_waits_to_be_routed(demo: Demo) -> None:
    rows = await demo.db.fetch("SELECT type FROM events WHERE routed_on = 'infinity'")
    assert list(rows) == []


async def test_the_ledger_adds_up_to_the_stock(demo: Demo) -> None:
    rows = await demo.db.fetch(
        """SELECT v.sku FROM variants v JOIN (
                  SELECT variant_id, sum(delta_on_hand) AS on_hand, sum(delta_reserved) AS reserved FROM stock_movements
                   WHERE store_id = $1 GROUP BY variant_id) m ON m.variant_id = v.id
            WHERE v.store_id = $1 AND (v.on_hand, v.reserved) <> (m.on_hand, m.reserved)""",
        demo.stores["demo"],
    )
    assert list(rows) == []
    movements = await demo.db.fetch(
        "SELECT created_at FROM stock_movements WHERE store_id = $1 ORDER BY id", demo.stores["demo"]
    )
    times = [row[0] for row in movements]
    assert times == sorted(times)
    assert times[-1] < demo.began


@pytest.mark.parametrize("handle", ["demo", "atelier"])
async def test_the_delivery_log_agrees_with_the_lanes(demo: Demo, handle: str) -> None:
    store_id = demo.stores[handle]
    lanes = await demo.db.fetch(
        """SELECT w.id, w.name, l.next_sequence, l.waiting, l.last_attempt_at FROM webhooks w
             JOIN lanes l ON l.store_id = w.store_id AND l.webhook_id = w.id WHERE w.store_id = $1 AND w.url IS NOT NULL""",
        store_id,
    )
    assert {row[1] for row in lanes} == {"Orders", FAILING}
    for webhook_id, name, next_sequence, waiting, last_attempt_at in lanes:
        log = await demo.db.fetch(
            """SELECT sequence, status, attempts, created_at, finished_at, event_id, attempt_count FROM delivery_log
                WHERE store_id = $1 AND webhook_id = $2 ORDER BY sequence""",
            store_id,
            webhook_id,
        )
        assert [row[0] for row in log] == list(range(1, next_sequence))
        assert sum(row[1] in ("pending", "retrying") for row in log) == waiting
        attempts = [msgspec.json.decode(row[2]) for row in log]
        moments = [datetime.fromisoformat(each["at"]) for made in attempts for each in made]
        assert max(moments) == last_attempt_at < demo.began
        for row, made in zip(log, attempts, strict=True):
            assert all(datetime.fromisoformat(each["at"]) >= row[3] for each in made)
            if row[1] == "succeeded":
                assert made[-1]["response_status"] == 200
                assert datetime.fromisoformat(made[-1]["at"]) <= row[4] < demo.began
        pattern = "order.%" if name == "Orders" else "order.status_changed"
        events = await demo.db.fetch("SELECT id FROM events WHERE store_id = $1 AND type LIKE $2", store_id, pattern)
        assert {row[5] for row in log} == {row[0] for row in events}


async def test_one_receiver_is_healthy_and_the_other_fails(demo: Demo) -> None:
    rows = await demo.db.fetch(
        """SELECT w.name, l.breaker, l.failing_since, l.waiting, l.last_success_at, l.due_at FROM webhooks w
             JOIN lanes l ON l.store_id = w.store_id AND l.webhook_id = w.id WHERE w.store_id = $1 AND w.url IS NOT NULL""",
        demo.stores["demo"],
    )
    lanes = {row[0]: row[1:] for row in rows}
    assert lanes["Orders"][:3] == ("closed", None, 0)
    breaker, since, waiting, success, due = lanes[FAILING]
    assert breaker == "open"
    assert success < since < demo.began
    assert timedelta(hours=1) < demo.began - since < timedelta(hours=41)
    assert waiting > 0
    assert due is not None


async def test_the_hours_of_deliveries_are_the_attempts_of_the_log(demo: Demo) -> None:
    [(succeeded, attempts)] = await demo.db.fetch(
        "SELECT sum(succeeded)::bigint, sum(attempts)::bigint FROM delivery_hours WHERE store_id = $1",
        demo.stores["demo"],
    )
    log = await demo.db.fetch(
        "SELECT status, attempts FROM delivery_log WHERE store_id = $1 AND status = 'succeeded'", demo.stores["demo"]
    )
    assert succeeded == len(log)
    assert attempts >= sum(len(msgspec.json.decode(row[1])) for row in log)


async def test_the_counts_of_usage_are_the_requests_of_the_log(demo: Demo) -> None:
    days = await demo.db.fetch(
        """SELECT day, sum(requests)::bigint, sum(client_errors)::bigint FROM usage_days WHERE app_id = $1 GROUP BY day""",
        demo.app_id,
    )
    counted: dict[date, tuple[int, int]] = {row[0]: (row[1], row[2]) for row in days}
    assert len(counted) >= 30
    logged = await demo.db.fetch(
        """SELECT (at AT TIME ZONE 'UTC')::date, count(*), count(*) FILTER (WHERE status >= 400) FROM request_log
            WHERE app_id = $1 AND at < $2 GROUP BY 1 ORDER BY 1""",
        demo.app_id,
        demo.began,
    )
    assert len(logged) >= 7
    for day, requests, errors in logged[1:]:
        assert counted[day] == (requests, errors), day
    hours = await demo.db.fetch("SELECT sum(requests)::bigint FROM usage_hours WHERE app_id = $1", demo.app_id)
    assert hours[0][0] > 0


async def test_every_order_of_the_app_is_one_of_its_requests(demo: Demo) -> None:
    placed = await demo.db.fetch("SELECT count(*) FROM events WHERE type = 'order.created' AND actor LIKE '%app_id%'")
    counted = await demo.db.fetch("SELECT sum(requests)::bigint FROM usage_days WHERE operation = 'create_order'")
    assert placed[0][0] == counted[0][0] > 40


async def test_the_audit_log_is_sealed_and_in_order(demo: Demo) -> None:
    for store_id in (*demo.stores.values(), audit.SERVICE):
        assert await audit.verify(demo.db, store_id) is None
    rows = await demo.db.fetch(
        "SELECT created_at FROM audit_entries WHERE store_id = $1 ORDER BY position", demo.stores["demo"]
    )
    times = [row[0] for row in rows]
    assert times == sorted(times)
    assert times[0] < demo.began - timedelta(days=60)


async def test_one_import_succeeded_and_rows_of_a_later_one_failed(demo: Demo) -> None:
    rows = await demo.db.fetch(
        "SELECT status, failed, created_at, finished_at FROM imports WHERE store_id = $1 ORDER BY created_at",
        demo.stores["demo"],
    )
    assert [(row[0], row[1]) for row in rows] == [("succeeded", 0), ("partially_succeeded", 2)]
    for row in rows:
        assert row[2] <= row[3] < demo.began - timedelta(days=1)


async def test_a_second_start_adds_nothing(demo: Demo) -> None:
    counts = "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM events), (SELECT count(*) FROM audit_entries), (SELECT count(*) FROM service_audit_entries)"
    before = await demo.db.fetch(counts)
    await prepare(demo.settings)
    assert list(await demo.db.fetch(counts)) == list(before)
