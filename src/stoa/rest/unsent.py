"""The bytes of responses that a worker holds because their clients do not take them, and the clients that it disconnects."""

import asyncio
import fcntl
import math
import os
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from stoa.rest.headers import address_of
from stoa.rest.request import Peer

KERNEL_BYTES = 64 * 1024  # of each connection, in the kernel; the server holds the rest
WHOLE_BYTES = 256 * 1024  # a body up to this size is handed to the server at once: parts cost time
_SIOCOUTQNSD = 0x894B  # of Linux: the bytes of a TCP connection that were not sent
_TCP_INFO_BYTES, _BYTES_ACKED = 128, 120  # of `struct tcp_info`: its size up to this member, and where it is
_ABORT = struct.pack("ii", 1, 0)  # SO_LINGER: what was not sent is dropped when the connection is closed
_STEP = 100  # connections; one takes about 5 us
_SHARE = 20  # measurements may take one part in this many of the time
_RELIEVED = 3 / 4  # of a limit: what is left after clients were disconnected, so that not each request disconnects one
_MOST_CLIENTS = 20_000  # behind proxies; twice the connections that a worker accepts


class Waiting(msgspec.Struct, frozen=True):
    """A connection whose client does not take what was sent."""

    inode: int  # of its socket
    descriptor: int
    peer: Peer
    unsent: int
    acked: int  # bytes that the client has taken since it connected


class UnsentResponses:
    """An upper bound of the bytes, which costs one addition per response, and their measurement if it exceeds a limit.

    The server does not report when a client has taken a response, but the kernel says how much of each connection it
    could not send yet. A client that leaves half of `KERNEL_BYTES` there counts with all that the server may hold for it.
    If the clients of one address, or all of them, hold more than their limit, the slowest are disconnected.
    """

    def __init__(self, limit: int, limit_of_address: int, port: int) -> None:
        self.at_most = 0  # what was measured, and everything handed to the server since
        self.closed: Counter[str] = Counter()  # disconnected clients, by the limit that was exceeded
        self._limit = limit
        self._limit_of_address = limit_of_address
        self.check_above = min(limit, limit_of_address)
        self._port = port  # of the service: a worker has other connections too, such as those to the database
        self._kept: Counter[Peer] = Counter()  # of responses that are being sent in parts, what exceeds `WHOLE_BYTES`
        self._clients: dict[Peer, str] = {}  # of connections of a proxy, the client of the last request
        self._found: dict[
            int, tuple[float, int]
        ] = {}  # by inode, when a connection was found waiting, and `acked` then
        self._measured = 0
        self._measure_at = 0.0
        self._measuring: asyncio.Task[None] | None = None

    def exceeded(self) -> bool:
        """Whether the limit is exceeded although the slowest clients were disconnected.

        Worth a call only if `at_most` is above `check_above`.
        """
        if self._grown or time.monotonic() >= self._measure_at:
            self._begin()
        return self._measured > self._limit

    async def measure(self) -> int:
        """The bytes, measured now."""
        await asyncio.shield(self._begin())
        return self._measured

    async def room(self) -> None:
        """Wait for a measurement if much was handed to the server since the last; for large responses."""
        if self._grown:
            await self.measure()

    @property
    def _grown(self) -> bool:
        return self.at_most > self._measured + self._limit

    def _begin(self) -> asyncio.Task[None]:
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.create_task(self._measure())
        return self._measuring

    async def _measure(self) -> None:
        """Measure in short steps: there may be thousands of connections, and requests go on meanwhile."""
        handed_over, spent, waiting = self.at_most, 0.0, list[Waiting]()
        steps = _steps(self._port)
        while True:
            started = time.thread_time()  # of the CPU: a busy machine must not make measurements rare
            step = next(steps, None)
            spent += time.thread_time() - started
            if step is None:
                break
            waiting += step
            await asyncio.sleep(0)
        now = time.monotonic()
        self._found = {each.inode: self._found.get(each.inode, (now, each.acked)) for each in waiting}
        others = self._kept.total() - sum(self._kept[each.peer] for each in waiting)
        left = self._disconnect_slowest(waiting, now, self._limit - others)
        self._measured = others + sum(map(self._held, left))
        self.at_most += self._measured - handed_over
        self._measure_at = time.monotonic() + _SHARE * spent

    @contextmanager
    def keeping(self, peer: Peer, size: int) -> Generator[None]:
        """Count a body of this size while it is being sent in parts."""
        kept = max(0, size - WHOLE_BYTES)
        self._kept[peer] += kept
        try:
            yield
        finally:
            self._kept[peer] -= kept
            if not self._kept[peer]:
                del self._kept[peer]

    def forwarded(self, peer: Peer, client: str) -> None:
        """Note for whom a proxy sends a request: the connection counts for that client."""
        self._clients.pop(peer, None)
        self._clients[peer] = client
        if len(self._clients) > _MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]

    def _held(self, waiting: Waiting) -> int:
        return waiting.unsent + WHOLE_BYTES + self._kept[waiting.peer]

    def _disconnect_slowest(self, waiting: Sequence[Waiting], now: float, limit: int) -> list[Waiting]:
        """Disconnect the slowest clients of each address, then of all, that exceed a limit; returns the others."""
        of_address: dict[str, list[Waiting]] = {}
        for each in sorted(waiting, key=lambda each: self._speed(each, now)):
            of_address.setdefault(address_of(self._clients.get(each.peer, each.peer[0])), []).append(each)
        left = [each for group in of_address.values() for each in self._cut(group, self._limit_of_address, "address")]
        return self._cut(sorted(left, key=lambda each: self._speed(each, now)), limit, "worker")

    def _speed(self, waiting: Waiting, now: float) -> tuple[float, int]:
        """The bytes per second that the client takes since it was found, if that was before, and all that it has taken."""
        since, acked = self._found[waiting.inode]
        return (waiting.acked - acked) / (now - since) if now > since else math.inf, waiting.acked

    def _cut(self, slowest_first: list[Waiting], limit: int, reason: str) -> list[Waiting]:
        held = sum(map(self._held, slowest_first))
        if held <= limit:
            return slowest_first
        for count, each in enumerate(slowest_first):
            if held <= limit * _RELIEVED:
                return slowest_first[count:]
            held -= self._held(each)
            self.closed[reason] += _disconnected(each)
        return []


def _steps(port: int) -> Iterator[list[Waiting]]:
    """The connections to this port of which the kernel could not send as much as it takes in advance, in short steps."""
    names = os.listdir("/proc/self/fd")  # noqa: PTH208 - there may be thousands
    for start in range(0, len(names), _STEP):
        yield [found for name in names[start : start + _STEP] if (found := _waiting(int(name), port)) is not None]


def _waiting(descriptor: int, port: int) -> Waiting | None:
    try:
        if _unsent(descriptor) < KERNEL_BYTES // 2:
            return None
        with socket.socket(fileno=os.dup(descriptor)) as found:  # a duplicate cannot become another connection
            if found.getsockname()[1] != port:
                return None
            info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            (acked,) = struct.unpack_from("=Q", info, _BYTES_ACKED)
            inode, (host, number) = os.fstat(found.fileno()).st_ino, found.getpeername()[:2]
            return Waiting(inode, descriptor, (host, number), _unsent(found.fileno()), acked)
    except OSError:  # not a TCP connection, or closed meanwhile
        return None


def _unsent(descriptor: int) -> int:
    return int.from_bytes(fcntl.ioctl(descriptor, _SIOCOUTQNSD, bytes(4)), sys.byteorder)


def _disconnected(waiting: Waiting) -> bool:
    """Disconnect a client; False if it has left already. The server notices, and ends the request."""
    with suppress(OSError), socket.socket(fileno=os.dup(waiting.descriptor)) as found:
        if os.fstat(found.fileno()).st_ino == waiting.inode:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            found.shutdown(socket.SHUT_RDWR)
            return True
    return False
