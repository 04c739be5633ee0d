"""Page requests are bounded, and leave time for the app API."""

import asyncio
import threading
from collections.abc import AsyncIterator, MutableMapping
from concurrent.futures import Future
from typing import Any

import httpx
import msgspec
import pytest
from tests.support.shops import service_client

from stoa.app import Application
from stoa.reference.kept import maker
from stoa.rest.page_requests import PageRequests
from stoa.rest.problems import RateLimited, ServiceUnavailable
from stoa.settings import Settings

HERE, THERE = "192.0.2.1", "192.0.2.2"


async def test_pages_of_one_address_are_bounded_before_all_are() -> None:
    pages = PageRequests(3, 2)
    held = [await pages.admit(HERE) for _ in range(2)]
    with pytest.raises(RateLimited):
        await pages.admit(HERE)
    held.append(await pages.admit(THERE))
    with pytest.raises(ServiceUnavailable):
        await pages.admit(THERE)
    for each in held:
        each.leave()
        each.leave()
    assert pages.in_flight == 0
    (await pages.admit(HERE)).leave()


async def test_a_client_that_sends_its_body_slowly_does_not_count() -> None:
    pages, arrived = PageRequests(1, 1), asyncio.Event()

    async def receive() -> MutableMapping[str, Any]:
        await arrived.wait()
        return {"type": "http.request"}

    slow = await pages.admit(HERE)
    receiving = asyncio.ensure_future(slow.receiving(receive)())
    await asyncio.sleep(0)
    (await pages.admit(HERE)).leave()
    arrived.set()
    await receiving
    assert pages.in_flight == 1
    slow.leave()
    assert pages.in_flight == 0


async def test_a_page_begins_after_the_steps_before_it_had_a_pause() -> None:
    pages, order = PageRequests(10, 10), list[str]()
    pages.took(0.05)
    waiting = asyncio.create_task(pages.admit(HERE))
    waiting.add_done_callback(lambda _: order.append("page"))
    for _ in range(3):
        await asyncio.sleep(0)
        order.append("api")
    (await waiting).leave()
    assert order == ["api", "api", "api", "page"]


async def test_a_handler_runs_as_if_it_was_not_measured() -> None:
    pages, seen = PageRequests(1, 1), list[str]()
    page = await pages.admit(HERE)

    async def works() -> None:
        async with asyncio.timeout(10):
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(10)
        except TimeoutError:
            seen.append("timeout")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError

    async def waits() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            seen.append("cancelled")

    async def run(work: Any) -> None:
        await page.run(work)

    await run(works())
    with pytest.raises(ValueError):  # noqa: PT011
        await run(fails())
    task = asyncio.create_task(run(waits()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["timeout", "cancelled"]


@pytest.fixture
async def service(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """An application that serves one page to an address at a time."""
    application = Application(msgspec.structs.replace(settings, address_pages_in_flight=1))
    async with service_client(application) as client:
        yield client
    await application.close()


@pytest.fixture
async def search_in_progress(service: httpx.AsyncClient) -> AsyncIterator[asyncio.Task[httpx.Response]]:
    """A search that waits for its thread."""
    assert (await service.get("/docs")).status_code == 200, "this page is kept from now on"
    continued: threading.Event = threading.Event()
    blocked: Future[bool] = maker.submit(continued.wait, 60)
    task = asyncio.create_task(service.get("/docs/search", params={"q": f"sku {id(blocked)}"}))
    await asyncio.sleep(0)
    yield task
    continued.set()
    assert (await task).status_code == 200


async def test_excess_pages_are_refused_and_everything_else_is_served(
    service: httpx.AsyncClient, search_in_progress: asyncio.Task[httpx.Response]
) -> None:
    while (page := await service.get("/docs", headers={"accept": "text/html"})).status_code == 200:
        assert not search_in_progress.done()
    assert (page.status_code, page.headers["retry-after"]) == (429, "1")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    refused = await service.get("/portal/sign-in")
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert (await service.get("/live")).status_code == 200, "the search does not hold the event loop"
    assert (await service.post("/oauth/token")).status_code in (400, 401)
    assert (await service.get("/.well-known/oauth-authorization-server")).status_code == 200
    assert not search_in_progress.done()


async def test_a_search_is_answered_from_the_cache_the_second_time(service: httpx.AsyncClient) -> None:
    for path in ("/docs/search", "/docs/search.json"):
        answers = [await service.get(path, params={"q": "idempotency keys"}) for _ in range(2)]
        assert answers[0].status_code == 200
        assert answers[0].content == answers[1].content
