"""Hooks see every attempt with its outcome, and nothing that a log must not contain."""

import asyncio
import logging
from typing import Any

import httpx
import msgspec
import pytest

from stoa_client import AsyncClient, Client, ConnectionFailed, RequestInfo, ResponseInfo, codes
from stoa_client.testing import FakeTransport


class Seen:
    """Records what the hooks receive."""

    def __init__(self) -> None:
        self.requests: list[RequestInfo] = []
        self.responses: list[ResponseInfo] = []
        self.hooks: Any = {"on_request": self.requests.append, "on_response": self.responses.append}

    def outcomes(self) -> list[tuple[Any, ...]]:
        return [(each.operation, each.path, each.attempt, each.status or each.error) for each in self.responses]


async def test_every_attempt_of_both_clients_is_seen() -> None:
    wanted = [
        ("update_product", "/products/{product_id}", 1, 503),
        ("update_product", "/products/{product_id}", 2, "ReadError"),
        ("update_product", "/products/{product_id}", 3, 200),
    ]
    for awaited in (False, True):
        fake, seen = FakeTransport(), Seen()
        fake.refuse("update_product", "overloaded", times=1)
        fake.disconnect("update_product", times=1)
        if awaited:
            await fake.async_client(**seen.hooks).products.update(7, name="Mug")
        else:
            fake.client(**seen.hooks).products.update(7, name="Mug")
        assert seen.outcomes() == wanted
        first, lost, last = seen.responses
        assert (first.code, first.request_id) == ("overloaded", "req_test0000000000000001")
        assert (lost.code, lost.request_id, lost.status) == (None, None, None)
        assert (last.code, last.error, last.method) == (None, None, "PATCH")
        assert all(each.duration_s >= 0 and each.base_url == "https://store.example" for each in seen.responses)
        sent = [msgspec.structs.asdict(each) for each in seen.requests]
        assert [{name: getattr(each, name) for name in sent[0]} for each in seen.responses] == sent


def test_hooks_receive_no_secret_no_query_and_no_body() -> None:
    fake, seen = FakeTransport(), Seen()
    with httpx.Client(transport=fake) as http:
        client = Client("https://shop.example.com", client_id="ci", client_secret="cs-hidden", http=http, **seen.hooks)
        client.customers.list(email="maya@example.com").page()
        client.customers.create(email="maya@example.com", first_name="Maya", idempotency_key="key-of-maya")
        fake.refuse(
            "create_customer", "validation_failed", errors=[{"pointer": "/email", "detail": "maya@example.com"}]
        )
        with pytest.raises(codes.ValidationFailed):
            client.customers.create(email="maya@example.com")
        with pytest.raises(LookupError):
            client.request("GET", "/unknown/maya@example.com")
    shown = repr([*seen.requests, *seen.responses])
    for hidden in ("cs-hidden", "test'", "maya", "Maya", "Bearer", "key-of-maya"):
        assert hidden not in shown
    assert [each[:2] for each in seen.outcomes()] == [
        ("request_token", "/oauth/token"),
        ("list_customers", "/customers"),
        ("create_customer", "/customers"),
        ("create_customer", "/customers"),
        (None, None),
    ]
    assert [each.code for each in seen.responses][3] == "validation_failed"


async def test_a_cancelled_call_is_seen() -> None:
    class Silent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            arrived.set()
            await asyncio.Event().wait()
            raise AssertionError

    arrived, seen = asyncio.Event(), Seen()
    async with httpx.AsyncClient(transport=Silent()) as http:
        client = AsyncClient("https://shop.example.com", token="t", http=http, **seen.hooks)
        call = asyncio.create_task(client.products.get(1))
        await arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert seen.outcomes() == [("get_product", "/products/{product_id}", 1, "CancelledError")]


def test_a_hook_that_fails_is_logged_and_does_not_fail_the_call(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no metrics")

    fake = FakeTransport()
    with caplog.at_level(logging.ERROR, "stoa_client"):
        assert fake.client(on_request=fail, on_response=fail).products.get(7).id == 7
    assert [record.message for record in caplog.records] == ["a hook failed"] * 2


def test_hooks_of_a_client_also_see_its_calls_to_other_stores() -> None:
    fake, seen = FakeTransport(), Seen()
    other = fake.client(**seen.hooks).at("https://other.example")
    fake.disconnect("get_order")
    with pytest.raises(ConnectionFailed):
        Client("https://third.example", token="t", retries=0, http=httpx.Client(transport=fake)).orders.get(1)
    other.products.get(1)
    assert [each.base_url for each in seen.responses] == ["https://other.example"]
