"""A server on this machine from which pictures are fetched, in good and in hostile ways."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web

from tests.pictures.samples import picture


class Source:
    """Serves a picture at every path, unless the path names something else to do."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: Counter[str] = Counter()
        self.failing: set[str] = set()
        self.silent = {"silent"}
        self.files: dict[str, bytes] = {}

    def at(self, path: str) -> str:
        return f"{self.url}/{path}"

    async def respond(self, request: web.Request) -> web.StreamResponse:
        path = request.path.strip("/")
        self.requests[path] += 1
        if path in self.failing:
            return web.Response(status=503)
        if path == "missing":
            return web.Response(status=404)
        if path == "text":
            return web.Response(text="Dear reader, ...", content_type="image/png")
        if path in self.silent:
            await asyncio.sleep(600)
        if path.startswith("redirect/"):
            return web.Response(status=302, headers={"location": request.query["to"]})
        if path == "loop":
            return web.Response(status=302, headers={"location": "/loop"})
        if path == "endless":
            return await self._endless(request)
        return web.Response(body=self.files[path] if path in self.files else picture(), content_type="image/jpeg")

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1024):
            await response.write(b"\xff" * (1 << 20))
        return response


@asynccontextmanager
async def running_source() -> AsyncGenerator[Source]:
    source = Source()
    app = web.Application()
    app.router.add_route("GET", "/{path:.*}", source.respond)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    source.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield source
    finally:
        await runner.cleanup()
