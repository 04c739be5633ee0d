"""Connections to receivers: opened to checked addresses only, kept alive for the next request, closed at any error."""

import asyncio
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, cast

import msgspec
from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]

from stoa.webhooks.http.address_guard import AddressRefused, Allowed, open_socket
from stoa.webhooks.http.response import InvalidResponse, ResponseReader

_KEEP_S = 4.0  # many servers close idle connections after five seconds
_SWEEP_S = 1.0
_NEXT_ADDRESS_S = 0.25
_DNS_TTL_S = 10.0
_MAX_NAMES = 10_000
_MAX_LOOKUPS = 256

Infos = Sequence[tuple[int, int, int, str, Any]]
Resolve = Callable[[str, int], Awaitable[Infos]]


class UnknownHost(OSError):
    """The host name has no address."""


class Unreachable(OSError):
    """The address refuses or ignores connections."""


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


class Connection(asyncio.Protocol):
    """One connection, which carries one request at a time."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.first_byte_at: float | None = None
        self._reader: ResponseReader | None = None
        self._waiter: asyncio.Future[ResponseReader] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    async def request(self, request: bytes, deadline: float) -> ResponseReader:
        """Send a request and wait for the response until the deadline, by the loop's clock."""
        loop = asyncio.get_running_loop()
        self._reader, self._waiter, self.first_byte_at = ResponseReader(), loop.create_future(), None
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


class Resolver:
    """A TTL cache of name lookups; concurrent lookups of one name share one query."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._free = asyncio.Semaphore(_MAX_LOOKUPS)
        self._known: dict[tuple[str, int], tuple[float, asyncio.Future[Infos]]] = {}

    async def resolve(self, host: str, port: int) -> Infos:
        literal = _literal(host, port)
        if literal is not None:
            return literal
        known = self._known.get((host, port))
        if known is None or known[0] < time.monotonic():
            if len(self._known) >= _MAX_NAMES:
                self._known.clear()
            lookup = asyncio.create_task(self._look_up(host, port))
            lookup.add_done_callback(_retrieve_exception)
            known = self._known[host, port] = time.monotonic() + _DNS_TTL_S, lookup
        try:
            found = await asyncio.shield(known[1])
        except (OSError, UnicodeError) as error:
            self._known.pop((host, port), None)
            raise UnknownHost from error
        if not found:
            raise UnknownHost
        return found

    async def _look_up(self, host: str, port: int) -> Infos:
        async with self._free:
            return await self._resolve(host, port)


def _retrieve_exception(lookup: asyncio.Task[Infos]) -> None:
    """Avoid a warning about an exception that is never retrieved, because its callers were cancelled."""
    if not lookup.cancelled():
        lookup.exception()


async def look_up(host: str, port: int) -> Infos:
    """Resolve a name in a new thread: silent DNS servers would block all threads of a shared pool."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Infos] = loop.create_future()

    def finish(found: Infos | None, error: OSError | UnicodeError | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(found or [])

    def query() -> None:
        found, fault = None, None
        try:
            found = cast("Infos", socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            fault = error
        try:
            loop.call_soon_threadsafe(finish, found, fault)
        except RuntimeError:
            return  # the loop was closed meanwhile

    threading.Thread(target=query, name="look-up", daemon=True).start()
    return await result


def _literal(host: str, port: int) -> Infos | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    family, address_info = (
        (socket.AF_INET, (host, port)) if address.version == 4 else (socket.AF_INET6, (host, port, 0, 0))
    )
    return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address_info)]
