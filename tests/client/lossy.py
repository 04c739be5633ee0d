"""Transports that lose responses, in front of a real service."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

import httpx

from stoa_client import Client
from tests.client.conftest import base_url
from tests.support.service import Account

Lose = Callable[[httpx.Request, httpx.Response, int], httpx.Response]


class Lossy(httpx.BaseTransport):
    """Sends and records every request; `lose` decides what happens to each response."""

    def __init__(self, lose: Lose) -> None:
        self._inner = httpx.HTTPTransport()
        self._lose = lose
        self.seen: list[tuple[httpx.Request, httpx.Response]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._inner.handle_request(request)
        response.read()
        self.seen.append((request, response))
        return self._lose(request, response, len(self.to(request.url.path, request.method)))

    def to(self, path: str, method: str) -> list[tuple[httpx.Request, httpx.Response]]:
        """The requests to a path so far, with their responses."""
        return [pair for pair in self.seen if (pair[0].url.path, pair[0].method) == (path, method)]

    def close(self) -> None:
        self._inner.close()


class AsyncCounting(httpx.AsyncBaseTransport):
    """Sends every request and records its path."""

    def __init__(self) -> None:
        self._inner = httpx.AsyncHTTPTransport()
        self.paths: list[str] = []
        self.authorization = ""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path)
        self.authorization = request.headers["authorization"]
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


@contextmanager
def through(account: Account, lose: Lose, *, retries: int = 4) -> Generator[tuple[Client, Lossy]]:
    """A client with such a transport."""
    transport = Lossy(lose)
    with httpx.Client(transport=transport, timeout=60) as http:
        yield Client(base_url(account), http=http, token=account.token, retries=retries), transport


def unchanged(_request: httpx.Request, response: httpx.Response, _times: int) -> httpx.Response:
    return response


def lost_at_first(request: httpx.Request, response: httpx.Response, times: int) -> httpx.Response:
    """Lose the first response to a write."""
    if times == 1 and request.method != "GET":
        raise httpx.ReadError("connection lost")
    return response


def instead(status: int, body: str | bytes) -> Lose:
    """Replace every response."""

    def answer(_request: httpx.Request, _response: httpx.Response, _times: int) -> httpx.Response:
        return httpx.Response(status, content=body, headers={"content-type": "text/html"})

    return answer
