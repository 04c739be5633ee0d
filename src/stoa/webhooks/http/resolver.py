"""Looks up the addresses of receivers, with a TTL cache and a thread for each query."""

import asyncio
import ipaddress
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

_DNS_TTL_S = 10.0
_MAX_NAMES = 10_000
_MAX_LOOKUPS = 256

Infos = Sequence[tuple[int, int, int, str, Any]]
Resolve = Callable[[str, int], Awaitable[Infos]]


class UnknownHost(OSError):
    """The host name has no address."""


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
