"""The live tail: streamed deliveries, access checks and stream limits."""

import asyncio
import time
from typing import Any

import msgspec

from stoa.accounts.sessions import sign_out
from stoa.app import Application
from stoa.db.pool import Database
from stoa.operations.telemetry import SECONDS
from stoa.settings import Settings
from stoa.webhooks.api.feed import watch_of
from tests.portal.installed_app import InstalledApp, install_app
from tests.portal.webhook_data import emit_products, finish_delivery
from tests.support.people import User, create_user


class StreamReader:
    """A browser that reads a stream until it disconnects."""

    def __init__(self, user: User, path: str) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.text = ""
        self._more, self._disconnected = asyncio.Event(), asyncio.Event()
        cookie = f"stoa_session={user.client.cookies['stoa_session']}".encode()
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"testserver"), (b"cookie", cookie), (b"accept", b"text/event-stream")],
            "client": ("127.0.0.1", 1),
            "server": ("testserver", 80),
        }
        self.task = asyncio.create_task(user.application(self._scope, self._receive, self._send))

    async def _receive(self) -> Any:
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message["headers"])
        else:
            self.text += message.get("body", b"").decode()
        self._more.set()

    async def wait_for(self, text: str) -> None:
        async with asyncio.timeout(20):
            while text not in self.text:
                self._more.clear()
                await self._more.wait()

    async def disconnect(self) -> None:
        self._disconnected.set()
        await self.task

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line[6:]) for line in self.text.splitlines() if line.startswith("data: {")]


async def test_the_tail_streams_deliveries_and_their_results(app: InstalledApp) -> None:
    number = await app.add_deliveries("Mug")
    reader = StreamReader(app.user, f"{app.path}/tail")
    await reader.wait_for(f'"{app.store_id}-{number}-1"')
    assert reader.status == 200
    assert reader.headers[b"content-type"].startswith(b"text/event-stream")
    assert reader.headers[b"cache-control"] == b"no-store"
    await emit_products(await app.at_store(), app.store_id, "Cup")
    await reader.wait_for(f'"{app.store_id}-{number}-2"')
    await finish_delivery(await app.at_store(), app.store_id, number, 2, "succeeded")
    await reader.wait_for("succeeded")
    last = reader.entries[-1]
    assert (last["id"], last["status"], last["response_status"]) == (f"{app.store_id}-{number}-2", "succeeded", 200)
    assert last["url"] == app.hook(number, "/deliveries/2")
    assert "Cup" not in reader.text
    await reader.disconnect()


def page_seconds() -> float:
    return next(
        sample.value
        for metric in SECONDS.collect()
        for sample in metric.samples
        if sample.name == "stoa_request_seconds_sum" and sample.labels["operation"] == "page"
    )


async def test_the_duration_of_a_stream_is_not_request_latency(settings: Settings, db: Database) -> None:
    application = Application(msgspec.structs.replace(settings, metrics="127.0.0.1:1"))
    user = await create_user(application, db)
    app = await install_app(user, db)
    await app.add_deliveries("Mug")
    await user.open(f"{app.path}/tail")
    before, started = page_seconds(), time.perf_counter()
    reader = StreamReader(user, f"{app.path}/tail")
    await reader.wait_for("product.created")
    idle = time.perf_counter()
    await reader.wait_for(":\n\n")
    idle = time.perf_counter() - idle
    await reader.disconnect()
    assert page_seconds() - before <= time.perf_counter() - started - idle
    await user.client.aclose()
    await application.close()


async def test_the_tail_ends_with_the_session(app: InstalledApp) -> None:
    await app.add_deliveries("Mug")
    reader = StreamReader(app.user, f"{app.path}/tail")
    await reader.wait_for("product.created")
    await sign_out(app.by, app.user.client.cookies["stoa_session"])
    await reader.wait_for("event: over")
    await reader.task


async def test_the_tail_shows_nothing_once_the_scope_is_revoked(app: InstalledApp) -> None:
    await app.add_deliveries("Mug")
    reader = StreamReader(app.user, f"{app.path}/tail")
    await reader.wait_for("product.created")
    before = len(reader.entries)
    await app.grant("products:read")
    await emit_products(await app.at_store(), app.store_id, "Cup")
    polls = reader.text.count(":\n\n")
    async with asyncio.timeout(20):
        while reader.text.count(":\n\n") < polls + 2:
            await asyncio.sleep(0.05)
    assert len(reader.entries) == before
    await reader.disconnect()


async def test_a_stopping_service_does_not_wait_for_streams(settings: Settings, db: Database) -> None:
    application = Application(settings)
    user = await create_user(application, db)
    app = await install_app(user, db)
    await app.add_deliveries("Mug")
    reader = StreamReader(user, f"{app.path}/tail")
    await reader.wait_for("product.created")
    watch_of(application.database).stop()
    async with asyncio.timeout(10):
        await reader.task
    await user.client.aclose()
    await application.close()


async def test_the_number_of_streams_per_account_is_limited(app: InstalledApp) -> None:
    await app.add_deliveries("Mug")
    readers = [StreamReader(app.user, f"{app.path}/tail") for _ in range(4)]
    for reader in readers:
        await reader.wait_for("product.created")
    fifth = StreamReader(app.user, f"{app.path}/tail")
    await fifth.task
    assert fifth.status == 429
    for reader in readers:
        await reader.disconnect()
    again = StreamReader(app.user, f"{app.path}/tail")
    await again.wait_for("product.created")
    await again.disconnect()


async def test_the_tail_of_another_account_is_not_found(app: InstalledApp, zeno: User) -> None:
    reader = StreamReader(zeno, f"{app.path}/tail")
    await reader.task
    assert reader.status == 404


async def test_without_javascript_the_tail_is_a_list_to_refresh(app: InstalledApp) -> None:
    number = await app.add_deliveries("Mug")
    await app.user.open(f"{app.path}/tail")
    assert f'id="t-{app.store_id}-{number}-1"' in app.user.text
    assert "<noscript>" in app.user.text
    assert "Refresh" in app.user.text
