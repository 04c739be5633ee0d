"""Looks up the addresses of receivers, with a TTL cache and a thread for each query."""

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from stoa.access.admission import TtlCache

_DNS_TTL_S = 10.0
_MAX_LOOKUPS = 256

Infos = Sequence[tuple[int, int, int, str, Any]]
Resolve = Callable[[str, int], Awaitable[Infos]]


class UnknownHost(OSError):
    """The host name has no address."""


class Resolver:
    """Name lookups behind a TTL cache; concurrent lookups of one name share one query."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._free = asyncio.Semaphore(_MAX_LOOKUPS)
        self._names: TtlCache[tuple[str, int], Infos] = TtlCache(self._look_up, seconds=_DNS_TTL_S)

    async def resolve(self, host: str, port: int) -> Infos:
        literal = _literal(host, port)
        if literal is not None:
            return literal
        name = (host, port)
        try:
            found = self._names.cached(name) or await self._names.find(name)
        except (OSError, UnicodeError) as error:
            raise UnknownHost from error
        if not found:
            raise UnknownHost
        return found

    async def _look_up(self, name: tuple[str, int]) -> tuple[Infos, float]:
        async with self._free:
            return await self._resolve(*name), _DNS_TTL_S


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
