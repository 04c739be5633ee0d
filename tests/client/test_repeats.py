"""A service that repeats itself does not make a client iterate for ever."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from stoa_client import AsyncClient, Client, installations
from stoa_client.errors import UnexpectedAnswer

NEXT = {None: "a", "a": "b", "b": "a"}


def circle(request: httpx.Request) -> httpx.Response:
    """Each page names the next one, and the third names the second again."""
    cursor = NEXT[request.url.params.get("cursor")]
    return httpx.Response(200, json={"data": [], "meta": {"total": 1, "next_cursor": cursor}})


def same_events(_request: httpx.Request) -> httpx.Response:
    resource = {"type": "product", "id": 1}
    delivery = {"event_id": "1", "event_type": "product.created", "created_at": "2026-01-01T00:00:00Z"}
    return httpx.Response(200, json={"data": [{**delivery, "sequence": 7, "resource": resource}], "meta": {}})


def client(answer: Callable[[httpx.Request], httpx.Response]) -> Client:
    return Client("http://localhost", token="t", http=httpx.Client(transport=httpx.MockTransport(answer)))


def async_client(answer: Callable[[httpx.Request], httpx.Response]) -> AsyncClient:
    return AsyncClient("http://localhost", token="t", http=httpx.AsyncClient(transport=httpx.MockTransport(answer)))


async def test_a_repeated_cursor_raises() -> None:
    with pytest.raises(UnexpectedAnswer, match="repeated the cursor"):
        list(client(circle).products.list())
    with pytest.raises(UnexpectedAnswer, match="repeated the cursor"):
        assert [each async for each in async_client(circle).products.list()] == []


def test_a_repeated_cursor_of_the_installations_raises() -> None:
    with pytest.raises(UnexpectedAnswer, match="repeated the cursor"):
        list(installations("http://localhost/oauth/token", "a", "b", transport=httpx.MockTransport(circle)))


async def test_a_feed_that_repeats_an_event_raises() -> None:
    found: list[Any] = []
    with pytest.raises(UnexpectedAnswer, match="sequence 7 after 7"):
        found.extend(event for event in client(same_events).webhooks.deliveries.feed(1))
    feed = async_client(same_events).webhooks.deliveries.feed(1)
    with pytest.raises(UnexpectedAnswer, match="sequence 7 after 7"):
        assert [event async for event in feed] == []
