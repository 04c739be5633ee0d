"""Every call can be ended by its caller: by a deadline in a thread, and by cancellation or a deadline in an event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

from stoa_client import AsyncClient, Client, ConnectionFailed, DeadlineExceeded, deadline, errors
from stoa_client.testing import FakeTransport

DEADLINE_S = 0.3
# On a busy machine the deadline may pass before a request is sent. The one line of the report is not a row.
ENDED = (ConnectionFailed, DeadlineExceeded, errors.UnexpectedAnswer)
ROW = b'{"id":1}\n{"meta":{"cursor":"c1"}}\n'


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A stream that sends a row, and then nothing."""

    def __init__(self, released: threading.Event) -> None:
        self._released = released

    def __iter__(self) -> Iterator[bytes]:
        yield ROW
        self._released.wait()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield ROW
        await asyncio.Event().wait()


class Stalling(FakeTransport):
    """Answers like the fake, but to later pages, to feeds, to tests of subscriptions and to streams only in part or never."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()
        self.answer("list_products", [{"id": 1}, {"id": 2}])
        self.answer("get_product_import", {"finished_at": None, "status": "running"})

    def _stalls(self, request: httpx.Request) -> bool:
        return any(part in str(request.url) for part in ("cursor=", "wait=", "/test", "/products/9"))

    def _streams(self, request: httpx.Request) -> httpx.Response | None:
        if request.headers.get("accept") != "application/x-ndjson":
            return None
        return httpx.Response(200, headers={"content-type": "application/x-ndjson"}, stream=_Body(self.released))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._stalls(request):
            self.released.wait()
        return self._streams(request) or super().handle_request(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._stalls(request):
            await asyncio.Event().wait()
        return self._streams(request) or await super().handle_async_request(request)


@pytest.fixture
def stalling() -> Iterator[Stalling]:
    made = Stalling()
    yield made
    made.released.set()  # so that no thread stays behind


CALLS: dict[str, Callable[[Client], Any]] = {
    "a call": lambda client: client.products.get(9),
    "a write": lambda client: client.products.update(9, name="Mug"),
    "a list": lambda client: list(client.products.list(limit=1)),
    "an export": lambda client: list(client.products.export()),
    "a file": lambda client: client.products.export().to_file("never.ndjson"),
    "a test of a subscription": lambda client: client.webhooks.send_test(1),
    "a feed": lambda client: list(client.webhooks.deliveries.feed(1)),
    "a report": lambda client: list(client.products.imports.rows("imp_1")),
}


async def _all(items: AsyncIterator[Any]) -> list[Any]:
    return [each async for each in items]


ASYNC_CALLS: dict[str, Callable[[AsyncClient], Awaitable[Any]]] = {
    "a call": lambda client: client.products.get(9),
    "a write": lambda client: client.products.update(9, name="Mug"),
    "a list": lambda client: _all(aiter(client.products.list(limit=1))),
    "an export": lambda client: _all(aiter(client.products.export())),
    "a file": lambda client: client.products.export().to_file("never.ndjson"),
    "a test of a subscription": lambda client: client.webhooks.send_test(1),
    "a feed": lambda client: _all(client.webhooks.deliveries.feed(1)),
    "a report": lambda client: _all(client.products.imports.rows("imp_1")),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_deadline_ends_every_call_of_a_thread(
    name: str, stalling: Stalling, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with deadline(DEADLINE_S), pytest.raises(ENDED):
        CALLS[name](stalling.client())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ASYNC_CALLS)
async def test_a_deadline_ends_every_call_of_an_event_loop(
    name: str, stalling: Stalling, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with deadline(DEADLINE_S), pytest.raises(ENDED):
        await ASYNC_CALLS[name](stalling.async_client())


@pytest.mark.parametrize("name", [name for name in ASYNC_CALLS if name != "a report"])
async def test_a_task_that_is_cancelled_ends_its_call_and_frees_its_place(
    name: str, stalling: Stalling, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    client = stalling.async_client()
    for _ in range(20):  # more than the calls that a client has in progress at once
        task = asyncio.ensure_future(ASYNC_CALLS[name](client))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await task
        assert task.cancelled()
    assert (await client.products.get(1)).id == 1


async def test_the_wait_for_an_import_ends_at_the_deadline(stalling: Stalling) -> None:
    with deadline(DEADLINE_S), pytest.raises(errors.WaitedTooLong):
        stalling.client().products.imports.wait("imp_1")
    with deadline(DEADLINE_S), pytest.raises(errors.WaitedTooLong):
        await stalling.async_client().products.imports.wait("imp_1")


def test_a_call_after_the_deadline_is_not_sent() -> None:
    fake = FakeTransport()
    client = fake.client()
    with deadline(0.01):
        threading.Event().wait(0.02)
        for call in (
            lambda: client.products.get(1),
            lambda: list(client.orders.list()),
            lambda: list(client.orders.export()),
        ):
            with pytest.raises(DeadlineExceeded):
                call()
    assert fake.requests == []
    assert client.products.get(1).id == 1  # the block has ended


def test_a_deadline_inside_another_can_only_be_earlier() -> None:
    fake = FakeTransport()
    with deadline(0.01), deadline(60):
        threading.Event().wait(0.02)
        with pytest.raises(DeadlineExceeded):
            fake.client().products.get(1)
    with pytest.raises(ValueError, match="more than 0"), deadline(0):
        pass


def test_a_deadline_applies_to_its_own_thread_only() -> None:
    fake = FakeTransport()
    found: list[int] = []
    with deadline(0.01):
        threading.Event().wait(0.02)
        other = threading.Thread(target=lambda: found.append(fake.client().products.get(3).id))
        other.start()
        other.join()
    assert found == [3]
