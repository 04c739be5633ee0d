"""Follow the three walks of ARCHITECTURE.md through the code, and compare the files in the order of their first call."""

import re
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

import stoa
from stoa.db.connection import Connection, connect
from stoa.events.notify import CHANNEL
from stoa.settings import Settings
from tests.docs.pages import ROOT
from tests.support.receivers import Receiver
from tests.support.shops import Shop
from tests.webhooks.workers import QUICK, subscribe, until, working

SOURCE = Path(stoa.__file__).parent
LONGEST = {"Read a list": 12, "Place an order": 22, "Deliver an event": 10}


def documented(walk: str) -> list[str]:
    """The files that ARCHITECTURE.md lists for a walk."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.partition(f"### {walk}\n")[2].partition("\n#")[0]
    return re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.MULTILINE)


@cache
def name_of(path: str) -> str:
    """The name of a file of the service; empty for other files. A walk that is traced slowly outlives its caches."""
    return Path(path).relative_to(SOURCE).as_posix() if Path(path).is_relative_to(SOURCE) else ""


@contextmanager
def traced(until: Callable[[str, str], bool]) -> Generator[list[str]]:
    """Record the files of the service in the order of their first call, up to the call that `until` recognizes."""
    seen: list[str] = []
    ended = False

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal ended
        if ended or event != "call" or not (name := name_of(frame.f_code.co_filename)):
            return
        ended = until(name, frame.f_code.co_name)
        if not ended and name not in seen:
            seen.append(name)

    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("walk", LONGEST)
def test_a_walk_is_short_and_names_existing_files(walk: str) -> None:
    files = documented(walk)
    assert files, f"ARCHITECTURE.md has no section {walk}"
    assert all((SOURCE / name).is_file() for name in files)
    assert len(set(files)) == len(files) <= LONGEST[walk]


async def follow(
    walk: str,
    go: Callable[[int], Awaitable[None]],
    until: Callable[[str, str], bool] = lambda _name, _function: False,
    without: str = "",
) -> None:
    """Go until one walk visits the documented files; in others, a cache or the prefetched rate limit expires on the way."""
    walks: list[list[str]] = []
    for n in range(50):
        with traced(until) as seen:
            await go(n)
        walks.append([name for name in seen if name != without])
        if walks[-1] == documented(walk):
            return
    pytest.fail(f"ARCHITECTURE.md says {documented(walk)}; the shortest walk is {min(walks, key=len)}")


async def test_reading_a_list_visits_the_documented_files(shop: Shop) -> None:
    async def read(_: int) -> None:
        assert (await shop.client.get("/products")).status_code == 200

    # Telemetry is called once the response is sent.
    await follow("Read a list", read, lambda name, _: name == "operations/telemetry.py")


async def test_placing_an_order_visits_the_documented_files(shop: Shop) -> None:
    product = {"name": "Mug", "price": "3.00", "sku": "MUG", "stock": {"on_hand": 99}}
    assert (await shop.client.post("/products", json=product)).status_code == 201

    async def order(n: int) -> None:
        body = {"line_items": [{"sku": "MUG", "quantity": 1}]}
        response = await shop.client.post("/orders", json=body, headers={"Idempotency-Key": f"walk-{n}"})
        assert response.status_code == 201

    # Workers are notified after the commit.
    notify = "events/notify.py"
    await follow("Place an order", order, lambda name, function: (name, function) == (notify, "__call__"), notify)


async def test_delivering_an_event_visits_the_documented_files(shop: Shop, settings: Settings) -> None:
    db = await connect(settings.database_url)
    quiet = msgspec.structs.replace(
        QUICK, poll=30, maintenance_every=30, heartbeat=30, takeover_after=60, stop_after=60, lease=90
    )
    # The lanes of other tests in this database would be on the way.
    await db.execute("UPDATE webhooks SET status = 'paused' WHERE status = 'active'")
    async with Receiver() as receiver, working(settings, quiet):
        hook = await subscribe(shop, receiver.url, "product.created")
        await _emit(db, shop.store_id, 0)
        await until(lambda: _notified_and_finished(db, shop.store_id, hook.id), "the first delivery")

        async def deliver(n: int) -> None:
            await _emit(db, shop.store_id, n + 1)
            await until(lambda: _finished(db, hook.id, n + 2), "a delivery")

        await follow("Deliver an event", deliver)
    await db.close()


async def _emit(db: Connection, store_id: int, number: int) -> None:
    """Commit an event as a write does, and notify the workers."""
    await db.execute(
        """INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data, request_id)
           VALUES ($1, $2, 'product.created', 'product', 1, 1, '{"type":"operator"}', '{}', '{"id":1}', 'req_walk')""",
        store_id,
        f"evt_walk{number}",
    )
    await db.execute(f"NOTIFY {CHANNEL}, '{store_id}'")


async def _notified_and_finished(db: Connection, store_id: int, webhook_id: int) -> bool:
    """Notify the workers again, because the worker may have started to listen after the event."""
    await db.execute(f"NOTIFY {CHANNEL}, '{store_id}'")
    return await _finished(db, webhook_id, 1)


async def _finished(db: Connection, webhook_id: int, count: int) -> bool:
    rows = await db.fetch("SELECT count(*) FROM deliveries WHERE webhook_id = $1 AND status = 'succeeded'", webhook_id)
    return rows[0][0] == count
