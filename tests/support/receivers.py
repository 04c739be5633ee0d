"""Webhook receivers for tests: real servers on this machine with configurable behavior."""

import asyncio
import json
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web
from standardwebhooks import Webhook

PATIENCE_S = 30


@dataclass(frozen=True)
class Received:
    """One received request."""

    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)

    def verify(self, secret: str) -> Any:
        """Verify the signature with the reference library; returns the event."""
        return Webhook(secret).verify(self.body, self.headers)


Behaviour = Callable[[web.Request, Received], Awaitable[web.StreamResponse]]


async def accept(_request: web.Request, _received: Received) -> web.StreamResponse:
    return web.Response(text="thanks")


def answering(status: int, **headers: str) -> Behaviour:
    """Answer every request with this status; `retry_after` sets the header Retry-After."""

    async def behave(_request: web.Request, _received: Received) -> web.StreamResponse:
        return web.Response(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return behave


@dataclass
class Receiver:
    """A server on loopback that records the requests it receives."""

    behave: Behaviour = accept
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    at_port: int = 0  # 0 selects a free port
    received: list[Received] = field(default_factory=list[Received])
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.at_port, ssl_context=self.tls)
        await site.start()
        self.port: int = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}/hook"

    @property
    def events(self) -> list[dict[str, Any]]:
        return [each.event for each in self.received]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = Received(headers, await request.read(), time.monotonic())
        self.received.append(received)
        self._more.set()
        return await self.behave(request, received)

    async def until(self, count: int, *, seconds: float = PATIENCE_S) -> list[Received]:
        """Wait until this many requests were received."""
        async with asyncio.timeout(seconds):
            while len(self.received) < count:
                self._more.clear()
                await self._more.wait()
        return self.received
