"""Connections to receivers: dialled to an address that was vetted, kept for the next request, dropped at any doubt."""

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
from stoa.webhooks.http.response import InvalidAnswer, Reading

_KEEP_S = 4.0  # less than the five seconds after which many servers hang up
_SWEEP_S = 1.0
_NEXT_ADDRESS_S = 0.25
_KNOWN_S = 10.0  # for which the addresses of a name are believed
_MOST_NAMES = 10_000
_LOOKUPS = 256

Infos = Sequence[tuple[int, int, int, str, Any]]
Resolve = Callable[[str, int], Awaitable[Infos]]


class NameUnknown(OSError):
    """The name has no address."""


class Unreachable(OSError):
    """Nobody answers at the address."""


class Origin(msgspec.Struct, frozen=True):
    """Where connections lead; those to one origin serve all subscriptions that lead there."""

    host: str
    port: int
    tls: bool
    trusted: bool  # the operator named it, so its addresses need not be public


class Steps(msgspec.Struct):
    """When each part of an exchange had ended, by the clock of `time.perf_counter`."""

    resolved: float | None = None
    connected: float | None = None
    secured: float | None = None
    answered: float | None = None


class Connection(asyncio.Protocol):
    """One connection, on which one request at a time is answered."""

    def __init__(self) -> None:
        self.kept_at = 0.0  # since when it waits for its next request
        self.answered_at: float | None = None
        self._reading: Reading | None = None
        self._waiter: asyncio.Future[Reading] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    async def ask(self, request: bytes, deadline: float) -> Reading:
        """Send a request and wait for the answer until the deadline, by the loop's clock."""
        loop = asyncio.get_running_loop()
        self._reading, self._waiter, self.answered_at = Reading(), loop.create_future(), None
        alarm = loop.call_at(deadline, self._fail, TimeoutError())
        try:
            self._transport.write(request)
            return await self._waiter
        except BaseException:
            self._transport.abort()
            raise
        finally:
            alarm.cancel()
            self._reading = self._waiter = None

    def usable(self) -> bool:
        return not self._transport.is_closing()

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        reading, waiter = self._reading, self._waiter
        if reading is None or waiter is None or waiter.done():
            self._transport.abort()  # it speaks although nobody asked
            return
        if self.answered_at is None:
            self.answered_at = time.perf_counter()
        try:
            if reading.feed(data):
                waiter.set_result(reading)
        except InvalidAnswer as error:
            waiter.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        reading, waiter = self._reading, self._waiter
        if reading is not None and waiter is not None and not waiter.done():
            if exc is None and reading.end():
                waiter.set_result(reading)
            else:
                waiter.set_exception(exc if isinstance(exc, ssl.SSLError) else ConnectionResetError())

    def _fail(self, error: BaseException) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


class Connections:
    """All connections of a sender, by where they lead."""

    def __init__(self, allowed: Allowed, connect_s: float, resolve: Resolve | None = None) -> None:
        self._allowed = allowed
        self._connect_s = connect_s
        self._tls = ssl.create_default_context()
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._names = Names(resolve or look_up)
        self._kept: dict[Origin, list[Connection]] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        for several in self._kept.values():
            for connection in several:
                connection.close()
        self._kept.clear()

    def take(self, origin: Origin) -> Connection | None:
        """A connection that was kept, the freshest first."""
        kept = self._kept.get(origin)
        while kept:
            connection = kept.pop()
            if connection.usable():
                return connection
        return None

    def keep(self, origin: Origin, connection: Connection) -> None:
        """Keep it for the next request."""
        connection.kept_at = time.monotonic()
        self._kept.setdefault(origin, []).append(connection)
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        oldest, self._sweeping = time.monotonic() - _KEEP_S, None
        for origin in list(self._kept):
            several = self._kept[origin]
            while several and (several[0].kept_at < oldest or not several[0].usable()):
                several.pop(0).close()
            if not several:
                del self._kept[origin]
        if self._kept:
            self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    async def dial(self, origin: Origin, steps: Steps | None = None) -> Connection:
        """A new connection, to an address that was judged after it was looked up."""
        infos = await self._names.of(origin.host, origin.port)
        if steps is not None:
            steps.resolved = time.perf_counter()
        judged = None if origin.trusted else partial(open_socket, allowed=self._allowed)
        try:
            async with asyncio.timeout(self._connect_s):
                opened = await start_connection(
                    cast("Any", infos), happy_eyeballs_delay=_NEXT_ADDRESS_S, interleave=1, socket_factory=judged
                )
        except (TimeoutError, AddressRefused):
            raise
        except (OSError, RuntimeError) as error:  # the loop gives some of the system's faults its own name
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


class Names:
    """Addresses of names, believed for a moment; several who ask at once wait for one answer."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._free = asyncio.Semaphore(_LOOKUPS)
        self._known: dict[tuple[str, int], tuple[float, asyncio.Future[Infos]]] = {}

    async def of(self, host: str, port: int) -> Infos:
        literal = _literal(host, port)
        if literal is not None:
            return literal
        known = self._known.get((host, port))
        if known is None or known[0] < time.monotonic():
            if len(self._known) >= _MOST_NAMES:
                self._known.clear()
            asked = asyncio.create_task(self._ask(host, port))
            asked.add_done_callback(_noted)
            known = self._known[host, port] = time.monotonic() + _KNOWN_S, asked
        try:
            found = await asyncio.shield(known[1])
        except (OSError, UnicodeError) as error:
            self._known.pop((host, port), None)
            raise NameUnknown from error
        if not found:
            raise NameUnknown
        return found

    async def _ask(self, host: str, port: int) -> Infos:
        async with self._free:
            return await self._resolve(host, port)


def _noted(asked: asyncio.Task[Infos]) -> None:
    """Whoever waited for it may have gone; then nobody else looks at how it ended."""
    if not asked.cancelled():
        asked.exception()


async def look_up(host: str, port: int) -> Infos:
    """Ask the system in a thread of its own: of a few shared ones, names whose servers are silent would take all."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Infos] = loop.create_future()

    def tell(found: Infos | None, error: OSError | UnicodeError | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(found or [])

    def ask() -> None:
        found, fault = None, None
        try:
            found = cast("Infos", socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            fault = error
        try:
            loop.call_soon_threadsafe(tell, found, fault)
        except RuntimeError:
            return  # the loop has ended meanwhile

    threading.Thread(target=ask, name="look-up", daemon=True).start()
    return await answer


def _literal(host: str, port: int) -> Infos | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    family, place = (socket.AF_INET, (host, port)) if address.version == 4 else (socket.AF_INET6, (host, port, 0, 0))
    return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place)]
