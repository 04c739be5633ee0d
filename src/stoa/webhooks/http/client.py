"""The HTTP client of deliveries: one signed request with a guarded address, a time limit and a size limit."""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import msgspec

from stoa.webhooks.http.address_guard import DEFAULT_PORTS, AddressRefused, Allowed, host_of, refuse_url
from stoa.webhooks.http.connections import (
    Connection,
    Connections,
    InvalidResponse,
    Origin,
    ResponseReader,
    Steps,
    Unreachable,
)
from stoa.webhooks.http.message import base_string, key_of, redacted, signed_headers, spellings
from stoa.webhooks.http.resolver import Resolve, UnknownHost

_AGENT_LINE = b"user-agent: Stoa-Webhooks/3\r\n"
_FIXED_HEADERS = {"content-type": "application/json", "accept": "*/*", "accept-encoding": "identity"}
_MAX_URLS = 10_000
_MAX_VALUE = 1024
MAX_IN_FLIGHT = 2000
MAX_PER_HOST = MAX_IN_FLIGHT // 4  # only a slow host reaches this


class Target(msgspec.Struct):
    """The receiver of a delivery: its URL, the signing secrets (newest first) and the custom headers. `store_id` is set if the
    secrets serve all stores of an app, so that the signature must name the store."""

    url: str
    secrets: Sequence[str]
    headers: Mapping[str, str] = {}
    keys: list[bytes] = []
    host: str = ""
    store_id: int | None = None
    hidden: list[str] = []  # must not appear in what is kept of a response

    def __post_init__(self) -> None:
        self.keys = [key_of(secret) for secret in self.secrets]
        self.hidden = spellings([*self.secrets, *self.headers.values()])
        self.host = urlsplit(self.url).netloc


class Timings(msgspec.Struct):
    """Milliseconds from the start to the end of each step; None for a step that was not reached or not needed."""

    dns_ms: float | None = None
    connect_ms: float | None = None
    tls_ms: float | None = None
    first_byte_ms: float | None = None
    total_ms: float = 0


class Response(msgspec.Struct):
    """The response of a receiver, or the error that prevented one."""

    status: int | None
    error: str | None
    headers: dict[str, str]
    body: str | None
    seconds: float
    retry_after: float | None
    signed_headers: dict[str, str]
    timestamp: int
    timings: Timings | None = None


def failed_response(error: str) -> Response:
    """The response to a request that was never sent."""
    return Response(None, error, {}, None, 0, None, {}, 0)


class _Endpoint(NamedTuple):
    """A parsed URL: the origin, the first lines of each request, and why the URL is refused."""

    origin: Origin
    head: bytes
    refused: str | None


class HostLimits:
    """Counts the requests in flight, in total and per host, so that one slow host leaves room for all others."""

    def __init__(self, max_in_flight: int = MAX_IN_FLIGHT, max_per_host: int = MAX_PER_HOST) -> None:
        self.slots = asyncio.Semaphore(max_in_flight)
        self._max_per_host = max_per_host
        self._in_flight: Counter[str] = Counter()

    def full(self, host: str) -> bool:
        return self._in_flight.get(host, 0) >= self._max_per_host

    def acquire(self, host: str) -> None:
        self._in_flight[host] += 1

    def release(self, host: str) -> None:
        self._in_flight[host] -= 1
        if not self._in_flight[host]:
            del self._in_flight[host]


class Sender:
    """Sends deliveries over kept-alive connections, follows no redirects and trusts nothing that it receives."""

    def __init__(
        self,
        allowed: Allowed,
        *,
        request_timeout_s: float = 15,
        connect_timeout_s: float = 5,
        resolve: Resolve | None = None,
    ) -> None:
        self.limits = HostLimits()  # for callers that send many requests
        self._allowed = allowed
        self._request_timeout_s = request_timeout_s
        self._connections = Connections(allowed, connect_timeout_s, resolve)
        self._endpoints: dict[str, _Endpoint] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connections.close()

    async def send(self, target: Target, event_id: str, body: bytes, *, traced: bool = False) -> Response:
        """Send a request; every failure becomes a response too. A traced request uses a new connection."""
        timestamp = int(time.time())
        signed = signed_headers(target.keys, event_id, timestamp, body, target.store_id)
        started = time.perf_counter()
        response = Response(None, None, {}, None, 0, None, signed, timestamp)
        endpoint = self._endpoints.get(target.url) or self._parse(target.url)
        if endpoint.refused is not None:
            response.error = f"address_refused: the URL {endpoint.refused}"
            return response
        steps = Steps() if traced else None
        try:
            lines = "".join(f"{name}: {value}\r\n" for name, value in signed.items()).encode()
            request = b"%b%bcontent-length: %d\r\n%b\r\n%b" % (
                endpoint.head, lines, len(body), _custom_headers(target.headers, close=traced), body
            )  # fmt: skip
            reader = await self._exchange(endpoint.origin, request, steps)
        except (TimeoutError, OSError, ValueError) as error:
            response.error = _error_code(error)
        else:
            _read(response, reader, target.hidden, traced=traced)
        response.seconds = time.perf_counter() - started
        if steps is not None:
            response.timings = _timings(steps, started, response.seconds)
        return response

    def _parse(self, url: str) -> _Endpoint:
        if len(self._endpoints) >= _MAX_URLS:
            self._endpoints.clear()
        endpoint = self._endpoints[url] = _endpoint(url, self._allowed)
        return endpoint

    async def _exchange(self, origin: Origin, request: bytes, steps: Steps | None) -> ResponseReader:
        deadline = asyncio.get_running_loop().time() + self._request_timeout_s
        reused = self._connections.take(origin) if steps is None else None
        if reused is not None:
            try:
                return await self._request(origin, reused, request, deadline)
            except ConnectionError:
                # The receiver may have closed an idle connection: retry, unless it had started to respond.
                if reused.first_byte_at is not None:
                    raise
        async with asyncio.timeout_at(deadline):
            fresh = await self._connections.connect(origin, steps)
        try:
            return await self._request(origin, fresh, request, deadline, keep=steps is None)
        finally:
            if steps is not None:
                steps.first_byte = fresh.first_byte_at

    async def _request(
        self, origin: Origin, connection: Connection, request: bytes, deadline: float, *, keep: bool = True
    ) -> ResponseReader:
        reader = await connection.request(request, deadline)
        if keep and reader.reusable:
            self._connections.keep(origin, connection)
        else:
            connection.close()
        return reader


async def send_once(sender: Sender, target: Target, event_id: str, body: bytes) -> tuple[Response, str]:
    """Send outside of any lane; returns the response with timings, and the signed text."""
    response = await sender.send(target, event_id, body, traced=True)
    return response, base_string(event_id, response.timestamp, body).decode()


def _endpoint(url: str, allowed: Allowed) -> _Endpoint:
    refused = refuse_url(url, allowed)
    if refused is not None:
        return _Endpoint(Origin("", 0, tls=False, trusted=False), b"", refused)
    return _Endpoint(origin_of(url, allowed), first_lines("POST", url, _FIXED_HEADERS), None)


def origin_of(url: str, allowed: Allowed) -> Origin:
    """The destination of requests to a URL that `refuse_url` accepts."""
    parts = urlsplit(url)
    host, port = host_of(parts), parts.port or DEFAULT_PORTS[parts.scheme]
    return Origin(host, port, tls=parts.scheme == "https", trusted=host in allowed.hosts)


def first_lines(method: str, url: str, headers: Mapping[str, str]) -> bytes:
    """The first lines of a request to a URL that `refuse_url` accepts."""
    parts = urlsplit(url)
    host, port = host_of(parts), parts.port or DEFAULT_PORTS[parts.scheme]
    named = f"[{host}]" if ":" in host else host
    named = named if port == DEFAULT_PORTS[parts.scheme] else f"{named}:{port}"
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    lines = [f"{method} {path} HTTP/1.1", f"host: {named}", *(f"{name}: {value}" for name, value in headers.items())]
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def _custom_headers(headers: Mapping[str, str], *, close: bool) -> bytes:
    """The header lines of the subscription, and those that it may override."""
    if not headers and not close:
        return _AGENT_LINE
    lines = {
        name.lower(): f"{name}: {value}\r\n" for name, value in headers.items() if name.lower() not in _FIXED_HEADERS
    }
    if close:
        lines["connection"] = "connection: close\r\n"
    text = "".join(lines.values()).encode()
    if text.count(b"\n") != len(lines) or text.count(b"\r") != len(lines) or b"\x00" in text:
        raise ValueError("a header contains a line break")
    return text if "user-agent" in lines else _AGENT_LINE + text


def _read(response: Response, reader: ResponseReader, hidden: Sequence[str], *, traced: bool) -> None:
    response.status = reader.status
    response.body = redacted(_text(bytes(reader.body)), hidden)
    waits = reader.all(b"retry-after")
    if waits:
        response.retry_after = read_retry_after(_text(waits[0]), datetime.now(UTC))
    if traced:
        response.headers = {
            redacted(_text(name), hidden): redacted(_text(value), hidden)[:_MAX_VALUE] for name, value in reader.fields
        }


def read_retry_after(text: str | None, now: datetime) -> float | None:
    """The seconds in a Retry-After header, which is a number or a date."""
    if text is None:
        return None
    plain = text.strip()
    if plain.isascii() and plain.isdigit():
        return float(plain[:9])
    try:
        moment = parsedate_to_datetime(plain)
    except (ValueError, TypeError, OverflowError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").replace("\x00", "\ufffd")


_ERROR_CODES: list[tuple[type[BaseException], str]] = [
    (TimeoutError, "timeout"),
    (AddressRefused, "address_refused: the URL must have a public address"),
    (UnknownHost, "dns_failed"),
    (ssl.SSLError, "tls_failed"),
    (Unreachable, "connection_refused"),
    (InvalidResponse, "invalid_answer"),
    (OSError, "connection_lost"),
]


def _error_code(error: BaseException) -> str:
    """A code for an error; the text of the exception could expose details of the internal network."""
    return next((code for kind, code in _ERROR_CODES if isinstance(error, kind)), "invalid_url")


def _timings(steps: Steps, started: float, seconds: float) -> Timings:
    def ms(moment: float | None) -> float | None:
        return None if moment is None else round((moment - started) * 1000, 2)

    return Timings(
        ms(steps.resolved), ms(steps.connected), ms(steps.secured), ms(steps.first_byte), round(seconds * 1000, 2)
    )
