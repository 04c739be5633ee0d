"""Retries are safe: a write whose response was lost takes effect once."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from stoa_client import AsyncClient, Client, ConnectionFailed, codes, errors
from stoa_client.connection import CONCURRENCY
from stoa_client.limiter import Limiter
from tests.client.conftest import base_url
from tests.client.lossy import lost_at_first, through, unchanged
from tests.support.service import Account, free_port


def test_a_write_whose_response_was_lost_takes_effect_once(account: Account) -> None:
    with through(account, lost_at_first) as (client, transport):
        made = client.products.create(name="Mug", price="12.50", sku="MUG-1")
        sent = transport.to(f"/stores/{account.handle}/api/v3/app/products", "POST")
        assert [answer.status_code for _, answer in sent] == [201, 201]
        assert len({request.headers["idempotency-key"] for request, _ in sent}) == 1
        assert made.answer.replayed
        assert client.products.list().page().total == 1


def test_two_writes_have_two_keys(account: Account) -> None:
    with through(account, unchanged) as (client, transport):
        for _ in range(2):
            client.products.create(name="Mug", price="12.50")
    assert len({request.headers["idempotency-key"] for request, _ in transport.seen}) == 2


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_retry_after_is_respected(account: Account, status: int) -> None:
    def busy(_request: httpx.Request, response: httpx.Response, times: int) -> httpx.Response:
        return httpx.Response(status, headers={"retry-after": "0"}) if times <= 2 else response

    with through(account, busy) as (client, transport):
        assert client.products.list().page().total == 0
    assert len(transport.seen) == 3


def test_a_permanent_error_is_not_retried(account: Account) -> None:
    with through(account, unchanged) as (client, transport), pytest.raises(codes.ValidationFailed):
        client.products.create(name="", price="much")
    assert len(transport.seen) == 1


def test_the_number_of_retries_is_bounded(account: Account) -> None:
    def dead(_request: httpx.Request, _response: httpx.Response, _times: int) -> httpx.Response:
        raise httpx.ConnectError("no way")

    with (
        through(account, dead, retries=2) as (client, transport),
        pytest.raises(ConnectionFailed, match="3 attempts") as failed,
    ):
        client.products.list().page()
    assert isinstance(failed.value.__cause__, httpx.ConnectError)
    assert len(transport.seen) == 3


def test_a_retry_after_beyond_the_deadline_is_an_error_at_once(account: Account) -> None:
    def later(_request: httpx.Request, _response: httpx.Response, _times: int) -> httpx.Response:
        return httpx.Response(429, headers={"retry-after": "120"}, json={"code": "rate_limited", "retryable": True})

    with through(account, later) as (client, transport), pytest.raises(codes.RateLimited) as refused:
        client.products.list().page()
    assert refused.value.retry_after_s == 120
    assert len(transport.seen) == 1


async def test_the_client_waits_for_the_real_rate_limit(account: Account) -> None:
    narrow = await account.service.account(f"{account.handle}-narrow", burst=2, refill=2)
    with through(narrow, unchanged, retries=0) as (client, transport):
        for _ in range(4):
            client.products.list().page()
    assert [answer.status_code for _, answer in transport.seen].count(200) == 4


@pytest.mark.parametrize("status", [429, 503])
def test_the_deadline_and_not_the_number_of_retries_ends_the_wait_for_a_busy_service(
    account: Account, status: int
) -> None:
    def busy(_request: httpx.Request, response: httpx.Response, times: int) -> httpx.Response:
        return httpx.Response(status, headers={"retry-after": "0"}) if times <= 3 else response

    with through(account, busy, retries=0) as (client, transport):
        assert client.products.list().page().total == 0
    assert len(transport.seen) == 4


def test_a_service_that_refuses_for_ever_is_not_flooded_until_the_deadline(account: Account) -> None:
    busy = httpx.MockTransport(lambda _: httpx.Response(429, headers={"retry-after": "0"}))
    sent: list[httpx.Request] = []
    with httpx.Client(transport=busy, event_hooks={"request": [sent.append]}) as http:
        client = Client(base_url(account), http=http, token=account.token, deadline_s=1)
        with pytest.raises(errors.TooManyRequests):
            client.products.list().page()
    assert 2 <= len(sent) <= 6


def _calls(client: Client) -> int:
    return sum(client.products.list().page().total + 1 for _ in range(25))


async def test_300_calls_of_12_threads_succeed_under_the_rate_limit(account: Account) -> None:
    narrow = await account.service.account(f"{account.handle}-threads", burst=60, refill=60)
    with through(narrow, unchanged) as (client, transport), ThreadPoolExecutor(12) as pool:
        made = await asyncio.gather(
            *(asyncio.get_running_loop().run_in_executor(pool, _calls, client) for _ in range(12))
        )
    assert made == [25] * 12
    refused = [answer.status_code for _, answer in transport.seen].count(429)
    assert refused <= 60, refused  # one refusal holds all threads back


async def test_300_calls_of_12_tasks_succeed_under_the_rate_limit(account: Account) -> None:
    narrow = await account.service.account(f"{account.handle}-tasks", burst=60, refill=60)

    async def calls(client: AsyncClient) -> int:
        return sum([(await client.products.list().page()).total + 1 for _ in range(25)])

    async with AsyncClient(base_url(narrow), token=narrow.token) as client:
        assert await asyncio.gather(*(calls(client) for _ in range(12))) == [25] * 12


async def test_a_cancelled_call_does_not_keep_its_slot(account: Account) -> None:
    async with AsyncClient(base_url(account), token=account.token) as client:
        for _ in range(2 * CONCURRENCY):
            call = asyncio.create_task(client.products.list().page())
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(30):
            assert (await client.products.list().page()).total == 0


def test_a_refusal_with_requests_remaining_holds_no_other_call_back() -> None:
    limiter = Limiter(threading.Semaphore())
    asked = {"retry-after": "30", "ratelimit-policy": '"default";q=600;w=60'}
    limiter.observe(httpx.Response(429, headers={**asked, "x-ratelimit-remaining": "5"}))
    assert limiter.reserve()[1] == 0
    early, _ = limiter.reserve()
    limiter.observe(httpx.Response(429, headers={**asked, "x-ratelimit-remaining": "0"}))
    assert limiter.is_held(early)
    (first, seconds), (second, _) = limiter.reserve(), limiter.reserve()
    assert 29 < seconds < 31
    assert second - first == pytest.approx(0.1)  # 600 requests in 60 seconds
    limiter.observe(httpx.Response(200, headers={**asked, "x-ratelimit-remaining": "500"}))
    third, fourth = limiter.reserve()[0], limiter.reserve()[0]
    assert third == fourth  # calls are not spaced while enough requests remain


def test_an_unreachable_service_raises_connection_failed() -> None:
    with (
        Client(f"http://127.0.0.1:{free_port()}/stores/demo", token="x", retries=1) as client,
        pytest.raises(ConnectionFailed),
    ):
        client.products.list().page()
