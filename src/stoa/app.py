"""The service as one ASGI application: the app API by store, and beside it tokens, documentation and health."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from stoa import site
from stoa.access.admission import Admission
from stoa.access.oauth import routes as oauth_routes
from stoa.access.sealing import Sealer
from stoa.api import ENDPOINTS
from stoa.db.pool import Database
from stoa.events.notify import Notifier
from stoa.housekeeping import tidy_for_ever
from stoa.portal.site_map import routes as portal_routes
from stoa.rest.dispatch import PREFIX, Dispatcher, Observed
from stoa.rest.endpoint import Endpoint
from stoa.rest.problems import HeadersTooLarge
from stoa.rest.request import Receive, Scope, Send, check_headers, trust_proxies
from stoa.settings import Settings, load, secret_key
from stoa.shifts import LEAVE, take_no_more, until_all_left
from stoa.telemetry import Observer, configure_logging
from stoa.usage.recorder import Recorder
from stoa.webhooks.api.feed import stop_waiting

_STORES = "/stores/"


class Application:
    """Sends each request where it belongs."""

    def __init__(self, settings: Settings, endpoints: Sequence[Endpoint] = ENDPOINTS) -> None:
        self.settings = settings
        self.database = Database(settings.database_url, size=settings.database_pool)
        self.access = Admission(self.database, settings)
        self.usage = Recorder()
        self._observe = Observer(settings, self.usage)
        self.notifier = Notifier(settings.database_url)
        self._dispatch = Dispatcher(
            endpoints,
            database=self.database,
            access=self.access,
            public_url=settings.public_url,
            settings=settings,
            seal=Sealer(secret_key(settings)),
            app_concurrency=settings.app_concurrency,
            max_in_flight=settings.max_in_flight,
            observe=self._observe,
            committed=self.notifier,
        )
        tokens = oauth_routes(self.database, self.access, settings)
        portal = portal_routes(self.database, settings, self.notifier)
        routes = [*site.routes(self.database), *tokens, *portal]
        self._named = {route.path for route in routes if "{" not in route.path}
        self._site: Callable[[Scope, Receive, Send], Awaitable[None]] = Starlette(
            routes=[*routes, Mount("/stores/{handle}", routes=tokens)],
            exception_handlers=site.EXCEPTION_HANDLERS,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._leaves = False

    async def close(self) -> None:
        """Give back every connection."""
        await self.notifier.close()
        await self.database.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._live(receive, send)
            return
        if kind != "http":
            return
        if self.settings.proxies:
            trust_proxies(scope, self.settings.proxies)
        if self._leaves:
            send = _last_answer(send)
        path: str = scope["path"]
        if path.startswith(PREFIX):
            await self._dispatch(scope, receive, send, sub_path=path[len(PREFIX) :])
            return
        if path.startswith(_STORES):
            handle, _, rest = path[len(_STORES) :].partition("/")
            if handle and rest.startswith(PREFIX[1:]):
                await self._dispatch(scope, receive, send, sub_path=rest[len(PREFIX) - 1 :], handle=handle)
                return
        await self._page(scope, receive, send)

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is not the app API, under the same limit on headers and noted in the same log and metrics."""
        started = time.perf_counter()
        status, request_id, streamed = 0, "", 0.0

        async def noting(message: MutableMapping[str, Any]) -> None:
            nonlocal status, request_id, streamed
            if message["type"] == "http.response.start":
                status, headers = message["status"], dict(message["headers"])
                request_id = headers.get(b"x-request-id", b"").decode()
                if headers.get(b"content-type", b"").startswith(b"text/event-stream"):
                    streamed = time.perf_counter()  # it stays open for as long as somebody watches
            await send(message)

        with contextlib.suppress(Exception):  # Starlette raises again what its handler has answered and logged
            try:
                check_headers(scope["headers"])
                await self._site(scope, receive, noting)
            except HeadersTooLarge as refusal:
                await site.problem_response(Request(scope), refusal)(scope, receive, noting)
        operation = scope["path"] if scope["path"] in self._named else "page"
        seconds = (streamed or time.perf_counter()) - started
        self._observe(Observed(request_id, scope["method"], operation, status, "", seconds, None, None, None))

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._end_with_parent()
                self._tasks = [
                    asyncio.create_task(tidy_for_ever(self.database)),
                    asyncio.create_task(self.usage.flush_forever(self.database)),
                ]
                await send({"type": "lifespan.startup.complete"})
            else:
                for task in self._tasks:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                await self.usage.finish(self.database)
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    def _end_with_parent(self) -> None:
        """A worker must not outlive the process that started it: kill -9 of that one leaves no other sign."""
        parent = multiprocessing.parent_process()
        if parent is not None:
            loop = asyncio.get_running_loop()
            loop.add_reader(parent.sentinel, _orphaned)

            def told_to_stop(*_: object) -> None:
                loop.call_soon_threadsafe(stop_waiting)

            # The server hears of signals by its own wake-up; this is beside it, and lets nobody hold up the end by waiting.
            signal.signal(signal.SIGTERM, told_to_stop)
            loop.add_signal_handler(LEAVE, lambda: self._tasks.append(asyncio.create_task(self._leave())))

    async def _leave(self) -> None:
        """Make room for a new worker: no new connection, a last answer on each that there is, and then the end."""
        self._leaves = True
        ports = take_no_more()
        stop_waiting()
        await until_all_left(ports)
        os.kill(os.getpid(), signal.SIGTERM)


def _last_answer(send: Send) -> Send:
    """Tell the caller not to send anything more on this connection."""

    async def closing(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (b"connection", b"close")]
        await send(message)

    return closing


def _orphaned() -> None:
    structlog.get_logger().error("the serving process is gone")
    os._exit(1)


def create() -> Application:
    """Build the application in a worker process, from the settings in its environment."""
    settings = load()
    configure_logging(settings)
    return Application(settings)
