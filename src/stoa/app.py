"""The service as one ASGI application: the app API of each store, tokens, the portal, documentation and health."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, MutableMapping, Sequence
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount, Router

from stoa import site
from stoa.access.admission import Admission
from stoa.access.encryption import Cipher, shard_url
from stoa.access.installations import routes as installation_routes
from stoa.access.oauth import TOKEN_PATH
from stoa.access.oauth import routes as oauth_routes
from stoa.api import ENDPOINTS
from stoa.app_file.endpoint import routes as app_file_routes
from stoa.background import RECEIVERS
from stoa.db.directory_outbox import collect
from stoa.db.pool import Database
from stoa.db.replica import Replica
from stoa.db.shards import Shards
from stoa.demo import receiver
from stoa.events.notify import Notifiers
from stoa.media.addresses import PREFIX as MEDIA
from stoa.media.files import close_media
from stoa.media.serving import PictureFiles
from stoa.media.storage import open_storage
from stoa.operations import telemetry
from stoa.operations.maintenance import maintain_forever
from stoa.operations.measuring import Sampler, measure_forever, measure_replica_forever
from stoa.operations.readiness import Readiness
from stoa.operations.telemetry import Observer, configure_logging, log_start, log_stop
from stoa.operations.tracing import RequestHandler, Tracing
from stoa.portal.site_map import routes as portal_routes
from stoa.reference.routes import routes as documentation_routes
from stoa.reference.sample_store import SampleStore
from stoa.rest.dispatch import PREFIX, Dispatcher, overloaded
from stoa.rest.endpoint import Endpoint
from stoa.rest.headers import address_of, check_headers, method_label, trust_proxies
from stoa.rest.page_requests import PageRequest, PageRequests
from stoa.rest.problems import Refusal
from stoa.rest.request import Observed, Peer, Receive, Scope, Send
from stoa.rest.response import send_body, send_response
from stoa.rest.unsent import UnsentResponses
from stoa.rest.uploads import UploadSpace
from stoa.settings import Settings, load, secret_key
from stoa.usage.recorder import Recorder, Recorders
from stoa.usage.request_log import RequestLog
from stoa.usage.rules import path_words
from stoa.webhooks.api.feed import stop_waiting

_STORES = "/stores/"
_FOR_APPS = (
    *site.HEALTH,
    "/oauth/",
    "/.well-known/",
    "/schemas/",
    receiver.PATH,
    _STORES,
)  # not pages, though outside the app API


class Application:
    """Routes each request to the app API or to the site."""

    def __init__(
        self, settings: Settings, endpoints: Sequence[Endpoint] = ENDPOINTS, tracing: Tracing | None = None
    ) -> None:
        self.settings = settings
        self.database = Database(settings.database_url, size=settings.database_pool)
        read_url = settings.database_read_url
        self.replica = Replica(read_url, self.database, size=settings.database_pool) if read_url else None
        cipher = Cipher(secret_key(settings))
        self.shards = Shards(self.database, partial(shard_url, cipher), size=settings.database_pool)
        self.access = Admission(self.database, settings, self.shards)
        words = path_words(endpoint.path for endpoint in endpoints)
        self.usage = Recorders(lambda: Recorder(RequestLog(words, settings.request_log_rows)))
        self._tracing = tracing or (Tracing(settings, "web") if settings.otlp_endpoint else None)
        self._observe: Callable[[Observed], None] = Observer(settings, self.usage)
        if self._tracing is not None:
            self._observe = self._tracing.observing(self._observe)
        self._readiness = Readiness(self.database, self.shards)
        self._notifiers = Notifiers()
        self.notifier = self._notifiers(self.database)
        self._unsent = UnsentResponses(settings.max_unsent_bytes, settings.address_unsent_bytes, settings.port)
        self._pages = PageRequests(settings.max_pages_in_flight, settings.address_pages_in_flight)
        uploads = UploadSpace(settings.max_upload_bytes, settings.app_upload_bytes)
        pools = {
            "requests": self.database,
            "autocommit": self.database.autocommit,
            "notifications": self.notifier.database,
            **({"replica": self.replica.database} if self.replica else {}),
        }
        dispatcher = Dispatcher(
            endpoints,
            database=self.database,
            access=self.access,
            unsent=self._unsent,
            uploads=uploads,
            replica=self.replica,
            shards=self.shards,
            public_url=settings.public_url,
            settings=settings,
            encryption=cipher,
            app_concurrency=settings.app_concurrency,
            max_in_flight=settings.max_in_flight,
            observe=self._observe,
            committed=self._notifiers,
        )
        self.streams = dispatcher.streams
        self._dispatch: RequestHandler = self._tracing.requests(dispatcher) if self._tracing else dispatcher
        self._handle_page: RequestHandler = self._tracing.requests(self._page) if self._tracing else self._page
        gauges = {
            telemetry.IN_FLIGHT: lambda: dispatcher.in_flight,
            telemetry.PAGES_IN_FLIGHT: lambda: self._pages.in_flight,
            telemetry.UPLOAD_BYTES: lambda: uploads.held,
        }
        self._sampler = Sampler("web", pools, gauges, self._unsent, self.replica, self.shards)
        tokens = oauth_routes(self.database, self.access, settings, self.shards)
        hand_over = partial(collect, directory=self.database, receivers=RECEIVERS)
        portal = portal_routes(self.database, settings, uploads, self._notifiers, self.shards, hand_over)
        installations = [
            *installation_routes(self.database, settings, self.shards),
            *app_file_routes(self.database, settings, self.shards),
        ]
        documentation = documentation_routes(settings.public_url, SampleStore(self.database))
        received = receiver.routes(self.database, settings)
        # Starlette tries routes in order, so those that apps call most come first.
        routes = [*tokens, *installations, *site.routes(self._readiness), *documentation, *portal, *received]
        self._named = {route.path for route in routes if "{" not in route.path}
        site_app = Starlette(
            routes=[*routes, Mount("/stores/{handle}", app=Router(tokens, redirect_slashes=False))],
            exception_handlers=site.EXCEPTION_HANDLERS,
        )
        # A redirect would name the scheme and host that we see behind a proxy, and a client would repeat its secret there.
        site_app.router.redirect_slashes = False
        self._site: Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]] = site_app
        self._issue_token = site.answered_by(next(route.endpoint for route in tokens if route.path == TOKEN_PATH))
        self._pictures = PictureFiles(open_storage(settings))
        self._tasks: list[asyncio.Task[None]] = []
        self._draining = False

    async def close(self) -> None:
        """Close every database connection."""
        await self._notifiers.close()
        await self._pictures.close()
        await close_media()
        await self.shards.close()
        if self.replica is not None:
            await self.replica.close()
        await self.database.close()
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.close)

    def end_waiting(self) -> None:
        """Answer the requests that wait for an event and end the streams, because this worker is about to exit."""
        stop_waiting(self.shards.databases.values())
        self.streams.drain()

    def leave(self) -> None:
        """Let proxies notice that this service is about to exit; until then, each connection ends with its next response."""
        self._readiness.stopping = self._draining = True

    def drain(self) -> None:
        """Close each connection after its next response, because another worker takes over."""
        self._draining = True
        self.end_waiting()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._live(receive, send)
            return
        if kind != "http":
            return
        host, port = scope.get("client") or ("", 0)
        peer: Peer = (host, int(port))  # Granian names the port as text
        scope["peer"] = peer
        if self.settings.proxies:
            trust_proxies(scope, self.settings.proxies)
            self._unsent.forwarded(peer, scope["client"][0])
        if self._draining:
            send = _closing(send)
        path: str = scope["path"]
        if path.startswith(MEDIA):
            await self._picture(scope, receive, send)
            return
        if path.startswith(PREFIX):
            await self._dispatch(scope, receive, send, sub_path=path[len(PREFIX) :])
            return
        if path.startswith(_STORES):
            handle, _, rest = path[len(_STORES) :].partition("/")
            if handle and rest.startswith(PREFIX[1:]):
                await self._dispatch(scope, receive, send, sub_path=rest[len(PREFIX) - 1 :], handle=handle)
                return
        await self._handle_page(scope, receive, send)

    async def _page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request outside the app API, with the same header limits, log and metrics."""
        started = time.perf_counter()
        status, request_id, code, shed, streamed = 0, "", "", "", 0.0
        page: PageRequest | None = None

        async def observed(message: MutableMapping[str, Any]) -> None:
            nonlocal status, request_id, streamed
            if message["type"] == "http.response.start":
                if page is not None:
                    page.leave()
                status, headers = message["status"], dict(message["headers"])
                request_id = headers.get(b"x-request-id", b"").decode()
                if headers.get(b"content-type", b"").startswith(b"text/event-stream"):
                    streamed = time.perf_counter()  # the response stays open until its reader leaves
            elif not message.get("more_body"):
                sent = await send_body(send, message.get("body", b""), self._unsent)
                streamed = streamed or sent
                return
            await send(message)

        with contextlib.suppress(Exception):  # Starlette re-raises exceptions that its handler answered and logged
            try:
                check_headers(scope)
                unsent = self._unsent
                if unsent.at_most > unsent.check_above and unsent.exceeded() and scope["path"] not in site.HEALTH:
                    raise overloaded("unsent")
                if scope["path"] == TOKEN_PATH and scope["method"] == "POST":
                    await self._issue_token(scope, receive, observed)
                elif scope["path"].startswith(_FOR_APPS):
                    await self._site(scope, receive, observed)
                else:
                    page = await self._pages.admit(address_of(scope["client"][0] if scope.get("client") else ""))
                    await page.run(self._site(scope, page.receiving(receive), observed))
            except Refusal as refusal:
                code, shed = refusal.code, refusal.shed
                await site.refusal_response(Request(scope), refusal)(scope, receive, observed)
            finally:
                if page is not None:
                    page.leave()
        operation = scope["path"] if scope["path"] in self._named else "page"
        seconds = (streamed or time.perf_counter()) - started
        self._observe(
            Observed(
                request_id,
                method_label(scope["method"]),
                operation,
                status,
                code,
                seconds,
                None,
                None,
                None,
                of_api=False,
                shed=shed,
            )
        )

    async def _picture(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a stored picture, which needs neither the database nor a place among the pages."""
        started = time.perf_counter()
        head, code = scope["method"] == "HEAD", ""
        try:
            headers = check_headers(scope)
            unsent = self._unsent
            if unsent.at_most > unsent.check_above and unsent.exceeded():
                raise overloaded("unsent")
            response = await self._pictures.respond(scope["method"], scope["path"], scope["query_string"], headers)
        except Refusal as refusal:
            status, code = refusal.status, refusal.code
            await site.problem_response(Request(scope), refusal)(scope, receive, send)
        else:
            status = response.status
            await send_response(send, response, self._unsent, scope["peer"], head=head)
        method, seconds = method_label(scope["method"]), time.perf_counter() - started
        self._observe(Observed("", method, "picture", status, code, seconds, None, None, None, of_api=False))

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._tasks = [
                    asyncio.create_task(maintain_forever(self.shards, self.settings)),
                    asyncio.create_task(self.usage.flush_forever(self.shards)),
                    asyncio.create_task(self.shards.watch()),
                ]
                if self.settings.metrics != "off":
                    sends, workers = bool(self.settings.smtp_url), self.settings.workers
                    self._tasks += [
                        asyncio.create_task(self._sampler.run()),
                        asyncio.create_task(measure_forever(self.shards, sends=sends, workers=workers)),
                    ]
                    if self.replica is not None:
                        self._tasks.append(asyncio.create_task(measure_replica_forever(self.replica)))
                log_start("web")
                await send({"type": "lifespan.startup.complete"})
            else:
                for task in self._tasks:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                await self.usage.flush(self.shards)
                await self.close()
                log_stop("web")
                await send({"type": "lifespan.shutdown.complete"})
                return


def _closing(send: Send) -> Send:
    """Ask the caller to send nothing more on this connection."""

    async def send_closing(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (b"connection", b"close")]
        await send(message)

    return send_closing


def create() -> Application:
    """Build the application in a worker process, from the settings in its environment."""
    settings = load()
    configure_logging(settings)
    return Application(settings)
