"""One request to a receiver: signed, guarded, bounded in time and size, its answer told without an exception."""

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import msgspec

from stoa.webhooks.delivery.retry_policy import Clock, read_retry_after
from stoa.webhooks.http.address_guard import AddressRefused, Allowed, host_of, refuse_url
from stoa.webhooks.http.connections import Connection, Connections, NameUnknown, Origin, Resolve, Steps, Unreachable
from stoa.webhooks.http.response import InvalidAnswer, Reading
from stoa.webhooks.http.signing import base_string, key_of, marks

_AGENT_LINE = b"user-agent: Stoa-Webhooks/3\r\n"
_OURS = {"content-type": "application/json", "accept": "*/*", "accept-encoding": "identity"}
_PORTS = {"https": 443, "http": 80}
_MOST_PLACES = 10_000
_MOST_VALUE = 1024


class Target(msgspec.Struct):
    """Where a delivery goes, what signs it (newest first), and the subscriber's own headers."""

    url: str
    secrets: Sequence[str]
    headers: Mapping[str, str] = {}
    keys: list[bytes] = []
    host: str = ""

    def __post_init__(self) -> None:
        self.keys = [key_of(secret) for secret in self.secrets]
        self.host = urlsplit(self.url).netloc


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
    """What is known of a URL: where connections lead, and the lines that every request to it begins with."""

    origin: Origin
    head: bytes
    refused: str | None


class Sender:
    """The HTTP client of deliveries: connections are kept alive, redirects are not followed, nothing is believed."""

    def __init__(self, allowed: Allowed, clock: Clock, resolve: Resolve | None = None) -> None:
        self._allowed = allowed
        self._request_s = clock.request
        self._connections = Connections(allowed, clock.connect, resolve)
        self._places: dict[str, _Place] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connections.close()

    async def send(self, target: Target, event_id: str, body: bytes, *, traced: bool = False) -> Answer:
        """Send it now; whatever happens is an answer. One that is traced has a connection of its own."""
        timestamp = int(time.time())
        signature = marks(target.keys, event_id, timestamp, body)
        started = time.perf_counter()
        signed = {"webhook-id": event_id, "webhook-timestamp": str(timestamp), "webhook-signature": signature}
        answer = Answer(None, None, {}, None, 0, None, signed, timestamp)
        place = self._places.get(target.url) or self._look_up(target.url)
        if place.refused is not None:
            answer.error = f"address_refused: {place.refused}"
            return answer
        steps = Steps() if traced else None
        try:
            request = b"%bwebhook-id: %b\r\nwebhook-timestamp: %d\r\nwebhook-signature: %b\r\ncontent-length: %d\r\n%b\r\n%b" % (
                place.head, event_id.encode(), timestamp, signature.encode(), len(body), _own(target.headers, close=traced), body
            )  # fmt: skip
            reading = await self._exchange(place.origin, request, steps)
        except (TimeoutError, OSError, ValueError) as error:
            answer.error = _told(error)
        else:
            _tell(answer, reading, traced=traced)
        answer.seconds = time.perf_counter() - started
        if steps is not None:
            answer.timings = _timings(steps, started, answer.seconds)
        return answer

    def _look_up(self, url: str) -> _Place:
        if len(self._places) >= _MOST_PLACES:
            self._places.clear()
        place = self._places[url] = _place(url, self._allowed)
        return place

    async def _exchange(self, origin: Origin, request: bytes, steps: Steps | None) -> Reading:
        deadline = asyncio.get_running_loop().time() + self._request_s
        kept = self._connections.take(origin) if steps is None else None
        if kept is not None:
            try:
                return await self._ask(origin, kept, request, deadline)
            except ConnectionError:
                # One that the receiver closed meanwhile says nothing about the receiver; one that began to answer does.
                if kept.answered_at is not None:
                    raise
        async with asyncio.timeout_at(deadline):
            fresh = await self._connections.dial(origin, steps)
        try:
            return await self._ask(origin, fresh, request, deadline, keep=steps is None)
        finally:
            if steps is not None:
                steps.answered = fresh.answered_at

    async def _ask(
        self, origin: Origin, connection: Connection, request: bytes, deadline: float, *, keep: bool = True
    ) -> Reading:
        reading = await connection.ask(request, deadline)
        if keep and reading.reusable:
            self._connections.keep(origin, connection)
        else:
            connection.close()
        return reading


async def send_once(sender: Sender, target: Target, event_id: str, body: bytes) -> tuple[Answer, str]:
    """Send outside any lane, for somebody who wants to see all of it: the answer with timings, and what was signed."""
    answer = await sender.send(target, event_id, body, traced=True)
    return answer, base_string(event_id, answer.timestamp, body).decode()


def _place(url: str, allowed: Allowed) -> _Place:
    refused = refuse_url(url, allowed)
    if refused is not None:
        return _Place(Origin("", 0, tls=False, trusted=False), b"", refused)
    parts = urlsplit(url)
    host, port = host_of(parts), parts.port or _PORTS[parts.scheme]
    named = f"[{host}]" if ":" in host else host
    named = named if port == _PORTS[parts.scheme] else f"{named}:{port}"
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    lines = [f"POST {path} HTTP/1.1", f"host: {named}", *(f"{name}: {value}" for name, value in _OURS.items())]
    origin = Origin(host, port, tls=parts.scheme == "https", trusted=host in allowed.hosts)
    return _Place(origin, "".join(f"{line}\r\n" for line in lines).encode("ascii"), None)


def _own(headers: Mapping[str, str], *, close: bool) -> bytes:
    """The subscriber's lines, and those that it may have its own word on."""
    if not headers and not close:
        return _AGENT_LINE
    lines = {name.lower(): f"{name}: {value}\r\n" for name, value in headers.items() if name.lower() not in _OURS}
    if close:
        lines["connection"] = "connection: close\r\n"
    text = "".join(lines.values()).encode()
    if text.count(b"\n") != len(lines) or text.count(b"\r") != len(lines) or b"\x00" in text:
        raise ValueError("a header cannot be sent")
    return text if "user-agent" in lines else _AGENT_LINE + text


def _tell(answer: Answer, reading: Reading, *, traced: bool) -> None:
    answer.status = reading.status
    answer.body = _text(reading.body)
    waits = reading.all(b"retry-after")
    if waits:
        answer.retry_after = read_retry_after(_text(waits[0]), datetime.now(UTC))
    if traced:
        answer.headers = {_text(name): _text(value)[:_MOST_VALUE] for name, value in reading.fields}


def _text(told: bytes) -> str:
    return told.decode("utf-8", "replace").replace("\x00", "\ufffd")


_WORDS: list[tuple[type[BaseException], str]] = [
    (TimeoutError, "timeout"),
    (AddressRefused, "address_refused: the address is not public"),
    (NameUnknown, "dns_failed"),
    (ssl.SSLError, "tls_failed"),
    (Unreachable, "connection_refused"),
    (InvalidAnswer, "invalid_answer"),
    (OSError, "connection_lost"),
]


def _told(error: BaseException) -> str:
    """A word for what went wrong; the exception's own text may say more of our network than a subscriber may know."""
    return next((word for kind, word in _WORDS if isinstance(error, kind)), "invalid_url")


def _timings(steps: Steps, started: float, seconds: float) -> Timings:
    def ms(moment: float | None) -> float | None:
        return None if moment is None else round((moment - started) * 1000, 2)

    return Timings(
        ms(steps.resolved), ms(steps.connected), ms(steps.secured), ms(steps.answered), round(seconds * 1000, 2)
    )
