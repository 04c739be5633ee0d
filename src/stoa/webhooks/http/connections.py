"""HTTP/1 connections: opened to checked addresses only, read until the response ends, kept alive, closed at any error."""

import asyncio
import socket
import ssl
import time
from functools import partial
from typing import Any, cast

import msgspec
from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from stoa.webhooks.http.address_guard import AddressRefused, Allowed, open_socket
from stoa.webhooks.http.resolver import Resolve, Resolver, look_up

_KEEP_S = 4.0  # many servers close idle connections after five seconds
_SWEEP_S = 1.0
_NEXT_ADDRESS_S = 0.25
MAX_BODY_BYTES = 4096
_MAX_OTHER_BYTES = 32_768  # headers, trailers and chunk sizes: everything but the body
_FINAL, _LAST, _BODILESS = 200, 599, (204, 304)


class Unreachable(OSError):
    """The address refuses or ignores connections."""


class InvalidResponse(ValueError):
    """The received bytes are not a valid HTTP/1 response."""


class Origin(msgspec.Struct, frozen=True):
    """The destination of connections; all subscriptions with the same origin share them."""

    host: str
    port: int
    tls: bool
    trusted: bool  # allowed by the operator, so its addresses need not be public


class Steps(msgspec.Struct):
    """When each step of a request ended, by `time.perf_counter`."""

    resolved: float | None = None
    connected: float | None = None
    secured: float | None = None
    first_byte: float | None = None


class ResponseReader:
    """One response as far as it was received; `reusable` is true if its connection can carry another request."""

    __slots__ = (
        "_body_size",
        "_done",
        "_fed",
        "_most",
        "_parser",
        "_until_closed",
        "body",
        "fields",
        "reusable",
        "status",
    )

    def __init__(self, most: int = MAX_BODY_BYTES) -> None:
        self.status = 0
        self.fields: list[tuple[bytes, bytes]] = []
        self.body = bytearray()
        self._most = most
        self.reusable = False
        self._parser = HttpResponseParser(self)
        self._fed = 0
        self._body_size = 0
        self._done = False
        self._until_closed = False

    def feed(self, data: bytes) -> bool:
        """Parse received bytes; returns whether the response is complete, or its body long enough."""
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self._done:  # otherwise only the bytes after the response are wrong
                raise InvalidResponse from error
            self.reusable = False
        if self.status > _LAST or self._fed - self._body_size > _MAX_OTHER_BYTES:
            raise InvalidResponse
        if self._done:
            return True
        if len(self.body) == self._most:
            self.reusable = False
            return True
        return False

    def end(self) -> bool:
        """The receiver closed the connection; returns whether that completes the response."""
        self.reusable = False
        return self._until_closed

    def all(self, name: bytes) -> list[bytes]:
        """The values of a header, named in lower case."""
        return [value for each, value in self.fields if each == name]

    # --- callbacks of the parser --------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._done:
            self.reusable = False  # an unrequested second response

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._done and not self.status:
            self.fields.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._done:
            return
        if status < _FINAL:  # an interim response
            self.fields.clear()
            return
        self.status = status
        codings, lengths = self.all(b"transfer-encoding"), self.all(b"content-length")
        self._until_closed = status not in _BODILESS and not lengths and b"chunked" not in b",".join(codings).lower()
        self.reusable = self._parser.should_keep_alive() and not (codings and lengths)

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        self.body += body[: self._most - len(self.body)]

    def on_message_complete(self) -> None:
        self._done = self._done or bool(self.status)


class Connection(asyncio.Protocol):
    """One connection, which carries one request at a time."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.first_byte_at: float | None = None
        self._reader: ResponseReader | None = None
        self._waiter: asyncio.Future[ResponseReader] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    async def request(self, request: bytes, deadline: float, most: int = MAX_BODY_BYTES) -> ResponseReader:
        """Send a request and wait until the deadline, by the loop's clock, for the response or the first `most` bytes of its
        body."""
        loop = asyncio.get_running_loop()
        self._reader, self._waiter, self.first_byte_at = ResponseReader(most), loop.create_future(), None
        timer = loop.call_at(deadline, self._fail, TimeoutError())
        try:
            self._transport.write(request)
            return await self._waiter
        except BaseException:
            self._transport.abort()
            raise
        finally:
            timer.cancel()
            self._reader = self._waiter = None

    def usable(self) -> bool:
        return not self._transport.is_closing()

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        reader, waiter = self._reader, self._waiter
        if reader is None or waiter is None or waiter.done():
            self._transport.abort()  # unrequested data
            return
        if self.first_byte_at is None:
            self.first_byte_at = time.perf_counter()
        try:
            if reader.feed(data):
                waiter.set_result(reader)
        except InvalidResponse as error:
            waiter.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        reader, waiter = self._reader, self._waiter
        if reader is not None and waiter is not None and not waiter.done():
            if exc is None and reader.end():
                waiter.set_result(reader)
            else:
                waiter.set_exception(exc if isinstance(exc, ssl.SSLError) else ConnectionResetError())

    def _fail(self, error: BaseException) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


class Connections:
    """The connections of a client, by origin."""

    def __init__(self, allowed: Allowed, connect_s: float, resolve: Resolve | None = None) -> None:
        self._allowed = allowed
        self._connect_s = connect_s
        self._tls = ssl.create_default_context()
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._names = Resolver(resolve or look_up)
        self._idle: dict[Origin, list[Connection]] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        for several in self._idle.values():
            for connection in several:
                connection.close()
        self._idle.clear()

    def take(self, origin: Origin) -> Connection | None:
        """An idle connection, the most recent first."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if connection.usable():
                return connection
        return None

    def keep(self, origin: Origin, connection: Connection) -> None:
        """Keep a connection for the next request."""
        connection.idle_since = time.monotonic()
        self._idle.setdefault(origin, []).append(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        oldest, self._sweeping = time.monotonic() - _KEEP_S, None
        for origin in list(self._idle):
            several = self._idle[origin]
            while several and (several[0].idle_since < oldest or not several[0].usable()):
                several.pop(0).close()
            if not several:
                del self._idle[origin]
        if self._idle:
            self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    async def connect(self, origin: Origin, steps: Steps | None = None) -> Connection:
        """Open a connection to an address that is checked after name resolution."""
        infos = await self._names.resolve(origin.host, origin.port)
        if steps is not None:
            steps.resolved = time.perf_counter()
        checked_socket = None if origin.trusted else partial(open_socket, allowed=self._allowed)
        try:
            async with asyncio.timeout(self._connect_s):
                opened = await start_connection(
                    cast("Any", infos),
                    happy_eyeballs_delay=_NEXT_ADDRESS_S,
                    interleave=1,
                    socket_factory=checked_socket,
                )
        except (TimeoutError, AddressRefused):
            raise
        except (OSError, RuntimeError) as error:  # uvloop raises some system errors as RuntimeError
            raise Unreachable from error
        if steps is not None:
            steps.connected = time.perf_counter()
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _, connection = await asyncio.get_running_loop().create_connection(
                Connection,
                sock=opened,
                ssl=self._tls if origin.tls else None,
                server_hostname=origin.host if origin.tls else None,
            )
        except BaseException:
            opened.close()
            raise
        if steps is not None and origin.tls:
            steps.secured = time.perf_counter()
        return connection
