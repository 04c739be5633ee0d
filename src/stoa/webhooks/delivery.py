"""One request to a receiver: signed, guarded, bounded in time and size, its answer told without an exception."""

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver
from yarl import URL

from stoa.webhooks.guard import AddressRefused, Allowed, host_of, open_socket, refuse_url
from stoa.webhooks.schedule import Clock, read_retry_after
from stoa.webhooks.signing import base_string, sign

MOST_ANSWER_BYTES = 4096
_KEEP_ALIVE_S = 4.0  # less than the five seconds after which many servers hang up
_DNS_S = 10
_AGENT = "Stoa-Webhooks/3"
_AGAIN_WITHIN_S = 1.0
_MOST_PLACES = 10_000
_HEADERS = {"content-type": "application/json", "accept-encoding": "identity"}


class Target(msgspec.Struct):
    """Where a delivery goes, what signs it (newest first), and the subscriber's own headers."""

    url: str
    secrets: Sequence[str]
    headers: Mapping[str, str] = {}


class Timings(msgspec.Struct):
    """Milliseconds from the start to the end of each part; None for a part that was not reached or not needed."""

    dns_ms: float | None = None
    connect_ms: float | None = None
    tls_ms: float | None = None
    first_byte_ms: float | None = None
    total_ms: float = 0


class Answer(msgspec.Struct):
    """What a receiver said, or what kept it from being heard."""

    status: int | None
    error: str | None
    headers: dict[str, str]
    body: str | None
    seconds: float
    retry_after: float | None
    signed_headers: dict[str, str]
    timestamp: int
    timings: Timings | None = None


def unanswered(error: str) -> Answer:
    """What is told when nothing was sent."""
    return Answer(None, error, {}, None, 0, None, {}, 0)


class _Place(NamedTuple):
    url: URL
    trusted: bool
    refused: str | None


class Sender:
    """The HTTP client of deliveries: connections are kept alive, redirects are not followed, nothing is believed."""

    def __init__(self, allowed: Allowed, clock: Clock, resolver: AbstractResolver | None = None) -> None:
        self._allowed = allowed
        self._resolver = resolver
        self._timeout = aiohttp.ClientTimeout(total=clock.request, sock_connect=clock.connect)
        self._tls = ssl.create_default_context()
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._places: dict[str, _Place] = {}
        self._sessions: dict[tuple[bool, bool], aiohttp.ClientSession] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def send(self, target: Target, event_id: str, body: bytes, *, traced: bool = False) -> Answer:
        """Send it now; whatever happens is an answer."""
        timestamp = int(time.time())
        signed = sign(target.secrets, event_id, timestamp, body)
        started = time.perf_counter()
        timings = Timings() if traced else None
        place = self._places.get(target.url) or self._look_up(target.url)
        answer = Answer(None, None, {}, None, 0, None, signed, timestamp, timings)
        if place.refused is not None:
            answer.error = f"address_refused: {place.refused}"
            return answer
        headers = {**target.headers, **signed, **_HEADERS}
        session = self._session(trusted=place.trusted, traced=traced)
        for last in (False, True):
            try:
                await self._ask(session, place.url, headers, body, answer, started)
            except (TimeoutError, aiohttp.ClientError, OSError, ValueError, ssl.SSLError) as error:
                answer.error = _told(error)
                # A kept connection that the receiver closed meanwhile says nothing about the receiver.
                stale = answer.status is None and isinstance(error, (aiohttp.ServerDisconnectedError, ConnectionError))
                if stale and not last and time.perf_counter() - started < _AGAIN_WITHIN_S:
                    continue
            break
        answer.seconds = time.perf_counter() - started
        if timings is not None:
            timings.total_ms = _ms(started)
        return answer

    def _look_up(self, url: str) -> "_Place":
        if len(self._places) >= _MOST_PLACES:
            self._places.clear()
        trusted = host_of(urlsplit(url)) in self._allowed.hosts
        place = self._places[url] = _Place(URL(url, encoded=True), trusted, refuse_url(url, self._allowed))
        return place

    async def _ask(
        self,
        session: aiohttp.ClientSession,
        url: URL,
        headers: dict[str, str],
        body: bytes,
        answer: Answer,
        started: float,
    ) -> None:
        answer.error = None
        context = {"started": started, "timings": answer.timings}
        async with session.post(
            url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=context
        ) as response:
            answer.status = response.status
            if answer.timings is not None:
                answer.timings.first_byte_ms = _ms(started)
                answer.headers = {name.lower(): value[:1024] for name, value in response.headers.items()}
            answer.retry_after = read_retry_after(response.headers.get("retry-after"), datetime.now(UTC))
            try:
                answer.body = await _read(response)
            except BaseException:
                answer.status = None  # half an answer is none
                raise

    def _session(self, *, trusted: bool, traced: bool) -> aiohttp.ClientSession:
        session = self._sessions.get((trusted, traced))
        if session is None:
            connector = aiohttp.TCPConnector(
                limit=0,
                ssl=self._tls,
                ttl_dns_cache=_DNS_S,
                keepalive_timeout=None if traced else _KEEP_ALIVE_S,
                force_close=traced,
                resolver=self._resolver,
                socket_factory=None if trusted else partial(open_socket, allowed=self._allowed),
            )
            session = self._sessions[trusted, traced] = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                auto_decompress=False,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"user-agent": _AGENT},
                trace_configs=[_tracing()] if traced else [],
            )
        return session


async def send_once(sender: Sender, target: Target, event_id: str, body: bytes) -> tuple[Answer, str]:
    """Send outside any lane, for somebody who wants to see all of it: the answer with timings, and what was signed."""
    answer = await sender.send(target, event_id, body, traced=True)
    return answer, base_string(event_id, answer.timestamp, body).decode()


async def _read(response: aiohttp.ClientResponse) -> str:
    """The beginning of the body; a longer one is cut, and its connection with it."""
    read = b""
    while len(read) < MOST_ANSWER_BYTES:
        part = await response.content.read(MOST_ANSWER_BYTES - len(read))
        if not part:
            break
        read += part
    if not response.content.at_eof():
        response.close()
    return read.decode("utf-8", "replace").replace("\x00", "\ufffd")


_WORDS: list[tuple[type[BaseException], str]] = [
    (TimeoutError, "timeout"),
    (aiohttp.ClientConnectorDNSError, "dns_failed"),
    (aiohttp.ClientConnectorCertificateError, "tls_failed"),
    (aiohttp.ClientSSLError, "tls_failed"),
    (ssl.SSLError, "tls_failed"),
    (aiohttp.ClientConnectorError, "connection_refused"),
    (aiohttp.ClientResponseError, "invalid_answer"),
    (aiohttp.InvalidURL, "invalid_url"),
    (aiohttp.ClientError, "connection_lost"),
    (OSError, "connection_lost"),
]


def _told(error: BaseException) -> str:
    """A word for what went wrong; the exception's own text may say more of our network than a subscriber may know."""
    inner = getattr(error, "os_error", None)
    if isinstance(inner, AddressRefused) or isinstance(error, AddressRefused):
        return "address_refused: the address is not public"
    if isinstance(inner, asyncio.TimeoutError):
        return "timeout"
    return next((word for kind, word in _WORDS if isinstance(error, kind)), "invalid_url")


def _tracing() -> aiohttp.TraceConfig:
    tracing = aiohttp.TraceConfig()

    async def resolved(_session: Any, context: Any, _params: Any) -> None:
        context.trace_request_ctx["timings"].dns_ms = _ms(context.trace_request_ctx["started"])

    async def connected(_session: Any, context: Any, _params: Any) -> None:
        context.trace_request_ctx["timings"].connect_ms = _ms(context.trace_request_ctx["started"])

    tracing.on_dns_resolvehost_end.append(resolved)
    tracing.on_connection_create_end.append(connected)
    return tracing


def _ms(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 2)
