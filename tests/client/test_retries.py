"""Retries are safe: a write whose response was lost takes effect once."""

import httpx
import pytest

from stoa.client import Client, ConnectionFailed, codes, errors
from tests.client.lossy import instead, lost_at_first, through, unchanged
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


def test_a_retry_after_beyond_the_longest_pause_is_an_error(account: Account) -> None:
    def later(_request: httpx.Request, _response: httpx.Response, _times: int) -> httpx.Response:
        return httpx.Response(429, headers={"retry-after": "120"}, json={"code": "rate_limited", "retryable": True})

    with through(account, later) as (client, transport), pytest.raises(codes.RateLimited) as refused:
        client.products.list().page()
    assert refused.value.retry_after_s == 120
    assert len(transport.seen) == 1


async def test_the_client_waits_for_the_real_rate_limit(account: Account) -> None:
    narrow = await account.service.account(f"{account.handle}-narrow", burst=2, refill=2)
    with through(narrow, unchanged, retries=8) as (client, transport):
        for _ in range(4):
            client.products.list().page()
    assert 429 in {answer.status_code for _, answer in transport.seen}


def test_an_unreachable_service_raises_connection_failed() -> None:
    with (
        Client(f"http://127.0.0.1:{free_port()}/stores/demo", token="x", retries=1) as client,
        pytest.raises(ConnectionFailed),
    ):
        client.products.list().page()


def test_a_response_that_is_not_from_the_service_is_unexpected(account: Account) -> None:
    with (
        through(account, instead(200, "<html>welcome</html>")) as (client, _),
        pytest.raises(errors.UnexpectedAnswer),
    ):
        client.products.list().page()
    with (
        through(account, instead(404, "<html>nothing here</html>")) as (client, _),
        pytest.raises(errors.NotFound),
    ):
        client.products.get(1)
