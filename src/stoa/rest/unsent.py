"""The bytes of responses that a worker holds because their clients do not take them."""

import fcntl
import os
import sys
import time
from collections.abc import Iterator

KERNEL_BYTES = 64 * 1024  # of each connection, in the kernel; the server holds the rest
WHOLE_BYTES = 256 * 1024  # a body up to this size is handed to the server at once: parts cost time
_SIOCOUTQNSD = 0x894B  # of Linux: the bytes of a TCP connection that were not sent
_SHARE = 100  # measurements may take one part in this many of the time


class UnsentResponses:
    """An upper bound of the bytes, which costs one addition per response, and their measurement if it exceeds the limit.

    The server does not report when a client has taken a response, but the kernel says how much of each connection it
    could not send yet. A client that leaves half of `KERNEL_BYTES` there counts with all that the server may hold for it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.at_most = 0  # what was measured, and everything handed to the server since
        self.kept = 0  # of responses that are being sent in parts, what exceeds `WHOLE_BYTES`
        self._measured = 0
        self._measure_at = 0.0

    def exceeded(self) -> bool:
        """Whether the limit is exceeded; worth a call only if `at_most` is above it."""
        return self.measure() > self.limit

    def measure(self) -> int:
        """The bytes, measured now or a moment ago."""
        now = time.monotonic()
        if now >= self._measure_at:
            started = time.thread_time()  # of the CPU: a busy machine must not make measurements rare
            waiting = [unsent for unsent in _unsent_in_kernel() if unsent >= KERNEL_BYTES // 2]
            self._measured = self.at_most = self.kept + sum(waiting) + WHOLE_BYTES * len(waiting)
            self._measure_at = now + _SHARE * (time.thread_time() - started)
        return self._measured


def _unsent_in_kernel() -> Iterator[int]:
    """The unsent bytes of each TCP connection of this process."""
    for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208 - there may be thousands
        try:
            answer = fcntl.ioctl(int(descriptor), _SIOCOUTQNSD, bytes(4))
        except OSError:  # not a TCP connection, or closed meanwhile
            continue
        yield int.from_bytes(answer, sys.byteorder)
