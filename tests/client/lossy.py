"""Transports that lose what they carry, as networks do; the service behind them is the real one."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

import httpx

from stoa.client import Client
from tests.client.conftest import base_url
from tests.support.service import Account

Lose = Callable[[httpx.Request, httpx.Response, int], httpx.Response]


class Lossy(httpx.BaseTransport):
    """Carries every request and keeps a note of it; `lose` says what becomes of each answer."""

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
        """What was sent to a path so far."""
        return [(ask, got) for ask, got in self.seen if (ask.url.path, ask.method) == (path, method)]

    def close(self) -> None:
        self._inner.close()


class AsyncCounting(httpx.AsyncBaseTransport):
    """Carries every request and counts those to each path."""

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
    """A client behind such a transport."""
    transport = Lossy(lose)
    with httpx.Client(transport=transport, timeout=60) as http:
        yield Client(base_url(account), http=http, token=account.token, retries=retries), transport


def whole(_request: httpx.Request, response: httpx.Response, _times: int) -> httpx.Response:
    return response


def lost_at_first(request: httpx.Request, response: httpx.Response, times: int) -> httpx.Response:
    """The first answer to a write is lost on its way."""
    if times == 1 and request.method != "GET":
        raise httpx.ReadError("the line is dead")
    return response


def instead(status: int, text: str) -> Lose:
    """Somebody else answers."""

    def answer(_request: httpx.Request, _response: httpx.Response, _times: int) -> httpx.Response:
        return httpx.Response(status, text=text)

    return answer
