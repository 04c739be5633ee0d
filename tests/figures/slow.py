"""Thousands of slow connections: healthy callers are hardly affected, and each slow one is closed in time."""

import asyncio
import itertools
import select
import socket
import statistics
import time
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from tests.figures.calling import Line, call
from tests.support.service import Account, Service, until

SLOW = 4_000
ROUNDS = 3
MOST = 2.0
CLOSED_WITHIN_S = 30
_DROP_S = 3.0
# The service measures from the start of the request, we from the connection; a client that is cut off notices at its next byte.
SLACK_S = 2 + _DROP_S
_PAUSE_S = 10.0  # of a client that was disconnected: one that returns at once would be a flood, not a slow client
_CONNECT_AT_ONCE = 10  # about 200 a second
_DOCUMENT = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
_HEAD = b"GET /live HTTP/1.1\r\nhost: localhost\r\n"


class Kind(msgspec.Struct, frozen=True):
    """What a slow connection sends at first and then every few seconds, and how much of the responses it reads then."""

    first: bytes
    drop: bytes = b""
    reads: int | None = None  # None for everything at once


class Caller(msgspec.Struct):
    """One slow connection."""

    kind: str
    line: socket.socket
    since: float
    next_drop: float


class Crowd:
    """Slow connections of every kind; a closed one is replaced, at once or, if it was disconnected, after a pause."""

    def __init__(self, account: Account) -> None:
        post = (
            f"POST /stores/{account.handle}/api/v3/app/products HTTP/1.1\r\nhost: localhost\r\n"
            f"authorization: Bearer {account.token}\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{{"
        )
        self._kinds = {
            "silent": Kind(b""),
            "half of the headers": Kind(_HEAD + b"x-slow: "),
            "headers that drip": Kind(_HEAD + b"x-slow: ", b"z"),
            "idle after an answer": Kind(_HEAD + b"\r\n"),
            "half of a body": Kind(post.encode()),
            "a body that drips": Kind(post.encode(), b" "),
            # A client that is cut off for taking nothing is not told; its next byte is answered by a reset.
            "responses that are not read": Kind(_DOCUMENT, b"G", reads=0),
            "responses that are read slowly": Kind(_DOCUMENT, reads=1_000),
        }
        self._port = account.service.port
        self._poll = select.epoll()
        self._open: dict[int, Caller] = {}
        self._waiting = [(0.0, kind) for _, kind in zip(range(SLOW), itertools.cycle(self._kinds), strict=False)]
        self.lived: dict[str, list[float]] = {kind: [] for kind in self._kinds}
        self.connected = 0
        self.over = False

    @property
    def open(self) -> int:
        return len(self._open)

    def run(self) -> None:
        """Keep the connections open until `over` is set and the last one is closed; runs in a thread."""
        while self._open or not self.over:
            started = time.monotonic()
            due = [each for each in self._waiting if each[0] <= started][:_CONNECT_AT_ONCE]
            for each in due:
                self._waiting.remove(each)
                self._connect(each[1])
            for number, _ in self._poll.poll(0.05):
                self._read(number)
            now = time.monotonic()
            for caller in self._open.values():
                if caller.next_drop < now:
                    caller.next_drop = now + _DROP_S
                    with suppress(OSError):
                        caller.line.send(self._kinds[caller.kind].drop)
                        if reads := self._kinds[caller.kind].reads:
                            caller.line.recv(reads)
            if self.over:  # nothing closes a client that reads, as long as there is room for its response
                for number in [n for n, caller in self._open.items() if self._kinds[caller.kind].reads]:
                    self._closed(number)
        self._poll.close()

    def _connect(self, kind: str) -> None:
        wanted, line = self._kinds[kind], socket.socket()
        line.settimeout(10)
        if wanted.reads is not None:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)  # the service must keep the rest
        line.connect(("127.0.0.1", self._port))
        self.connected += 1
        line.setblocking(False)  # noqa: FBT003
        line.send(wanted.first)
        now = time.monotonic()
        self._open[line.fileno()] = Caller(
            kind, line, now, now + _DROP_S if wanted.drop or wanted.reads else float("inf")
        )
        self._poll.register(line, select.EPOLLIN if wanted.reads is None else select.EPOLLRDHUP)

    def _read(self, number: int) -> None:
        caller = self._open[number]
        with suppress(BlockingIOError):
            try:
                if self._kinds[caller.kind].reads is None and caller.line.recv(65_536):
                    return
            except ConnectionError:
                pass
            self.lived[caller.kind].append(time.monotonic() - caller.since)
            self._closed(number)

    def _closed(self, number: int) -> None:
        caller = self._open.pop(number)
        self._poll.unregister(number)
        caller.line.close()
        if not self.over:
            pause = 0.0 if self._kinds[caller.kind].reads is None else _PAUSE_S
            self._waiting.append((time.monotonic() + pause, caller.kind))


async def loiter(folder: Path, seconds: float) -> bool:
    """Measure healthy callers alone, then together with the slow ones."""
    # The concurrency limit of the app is raised, because it would refuse the many slow bodies.
    with Service(folder, workers=2, access_log=False, log_level="error", app_concurrency=1000) as service:
        healthy, slow = await service.account("healthy"), await service.account("slow")
        async with healthy.client() as client:
            for n in range(20):
                await client.post("/products", json={"name": f"Mug {n}", "price": "9.90"})
        lines = [Line(healthy, "/products?limit=20")]
        await call(folder, lines, callers=10, seconds=seconds, think_ms=50)
        alone = [await call(folder, lines, callers=10, seconds=seconds, think_ms=50) for _ in range(ROUNDS)]
        click.echo(f"  alone: p99 {[run.p99_ms for run in alone]} ms")
        crowd = Crowd(slow)
        running = asyncio.create_task(asyncio.to_thread(crowd.run))
        try:
            await asyncio.to_thread(until, lambda: crowd.connected >= SLOW, "all have connected")
            together = [await call(folder, lines, callers=10, seconds=seconds, think_ms=50) for _ in range(ROUNDS)]
            connected = crowd.open
            click.echo(f"  with {connected} slow ones: p99 {[run.p99_ms for run in together]} ms")
        finally:
            crowd.over = True
        await running
        clean = service.stop() == 0
    quiet, noisy = (statistics.median(run.p99_ms for run in each) for each in (alone, together))
    failed = sum(each.other + each.broken + each.refused for each in (*alone, *together))
    longest = {kind: max(lived, default=0.0) for kind, lived in crowd.lived.items()}
    click.echo(
        f"slow: {connected} slow connections; p99 of healthy callers {quiet:.1f} ms alone, {noisy:.1f} ms together"
        f" ({noisy / quiet:.2f} times), {failed} of their requests failed; {sum(map(len, crowd.lived.values()))} slow ones"
        f" closed, the last of each kind after: {', '.join(f'{kind} {s:.1f} s' for kind, s in longest.items())};"
        f" exit code 0: {clean}"
    )
    in_time = max(s for kind, s in longest.items() if "slowly" not in kind) <= CLOSED_WITHIN_S + SLACK_S
    return clean and in_time and not failed and noisy <= MOST * quiet
