"""Thousands of connections that never come to the point: healthy callers hardly notice, and each is closed in time."""

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
SLACK_S = 2  # the clock of a body starts when its request is begun, ours when it is connected
_DROP_S = 3.0
_COME_AT_ONCE = 50
_HEAD = b"GET /live HTTP/1.1\r\nhost: localhost\r\n"


class Caller(msgspec.Struct):
    """One slow caller, from its coming to its end."""

    kind: str
    line: socket.socket
    since: float
    next_drop: float


class Crowd:
    """Slow callers of every kind; one that is shown out comes back at once, so that there are always as many."""

    def __init__(self, account: Account) -> None:
        post = (
            f"POST /stores/{account.handle}/api/v3/app/products HTTP/1.1\r\nhost: localhost\r\n"
            f"authorization: Bearer {account.token}\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{{"
        )
        self._kinds = {
            "silent": (b"", b""),
            "half of the headers": (_HEAD + b"x-slow: ", b""),
            "headers that drip": (_HEAD + b"x-slow: ", b"z"),
            "idle after an answer": (_HEAD + b"\r\n", b""),
            "half of a body": (post.encode(), b""),
            "a body that drips": (post.encode(), b" "),
        }
        self._port = account.service.port
        self._poll = select.epoll()
        self._here: dict[int, Caller] = {}
        self._coming = [kind for _, kind in zip(range(SLOW), itertools.cycle(self._kinds), strict=False)]
        self.lived: dict[str, list[float]] = {kind: [] for kind in self._kinds}
        self.over = False

    @property
    def open(self) -> int:
        return len(self._here)

    def stay(self) -> None:
        """Be there until it is over and the last one was shown out; for a thread of its own."""
        while self._here or not self.over:
            for _ in range(min(len(self._coming), _COME_AT_ONCE)):
                self._come(self._coming.pop(0))
            for number, _ in self._poll.poll(0.05):
                self._listen(number)
            now = time.monotonic()
            for caller in self._here.values():
                if caller.next_drop < now:
                    caller.next_drop = now + _DROP_S
                    with suppress(OSError):
                        caller.line.send(self._kinds[caller.kind][1])
        self._poll.close()

    def _come(self, kind: str) -> None:
        line = socket.create_connection(("127.0.0.1", self._port), timeout=10)
        line.setblocking(False)  # noqa: FBT003
        first, drop = self._kinds[kind]
        line.send(first)
        now = time.monotonic()
        self._here[line.fileno()] = Caller(kind, line, now, now + _DROP_S if drop else float("inf"))
        self._poll.register(line, select.EPOLLIN)

    def _listen(self, number: int) -> None:
        caller = self._here[number]
        with suppress(BlockingIOError):
            try:
                if caller.line.recv(65_536):
                    return
            except ConnectionError:
                pass
            del self._here[number]
            self._poll.unregister(number)
            caller.line.close()
            self.lived[caller.kind].append(time.monotonic() - caller.since)
            if not self.over:
                self._coming.append(caller.kind)


async def loiter(folder: Path, seconds: float) -> bool:
    """Measure healthy callers alone, then beside the slow ones."""
    # So many bodies begun by one app are more than it may have in hand: it is the slow ones that are to be met, not that.
    with Service(folder, workers=2, access_log=False, log_level="error", app_concurrency=1000) as service:
        healthy, slow = await service.account("healthy"), await service.account("slow")
        async with healthy.client() as client:
            for n in range(20):
                await client.post("/products", json={"name": f"Mug {n}", "price": "9.90"})
        lines = [Line(healthy, "/products?limit=20")]
        await call(folder, lines, callers=10, seconds=seconds, think_ms=50)
        alone = [await call(folder, lines, callers=10, seconds=seconds, think_ms=50) for _ in range(ROUNDS)]
        click.echo(f"  alone: p99 {[asked.p99_ms for asked in alone]} ms")
        crowd = Crowd(slow)
        staying = asyncio.create_task(asyncio.to_thread(crowd.stay))
        await asyncio.to_thread(until, lambda: crowd.open > SLOW * 0.97, "all have come")
        beside = [await call(folder, lines, callers=10, seconds=seconds, think_ms=50) for _ in range(ROUNDS)]
        held = crowd.open
        click.echo(f"  beside {held}: p99 {[asked.p99_ms for asked in beside]} ms")
        crowd.over = True
        await staying
        clean = service.stop() == 0
    quiet, noisy = (statistics.median(asked.p99_ms for asked in each) for each in (alone, beside))
    failed = sum(each.other + each.broken + each.refused for each in (*alone, *beside))
    longest = {kind: max(lived) for kind, lived in crowd.lived.items()}
    click.echo(
        f"slow: {held} slow connections held; p99 of healthy callers {quiet:.1f} ms alone, {noisy:.1f} ms beside them"
        f" ({noisy / quiet:.2f} times), {failed} of their requests failed; {sum(map(len, crowd.lived.values()))} slow ones"
        f" closed, the last of each kind after: {', '.join(f'{kind} {s:.1f} s' for kind, s in longest.items())};"
        f" ended with 0: {clean}"
    )
    in_time = max(longest.values()) <= CLOSED_WITHIN_S + SLACK_S
    return clean and in_time and not failed and noisy <= MOST * quiet
