"""A web worker's part in a reload: it stops accepting connections and exits when the last one is closed."""

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

# Both go over the control socket, between processes that may run different releases: never change their meaning.
READY = b"ready"  # worker to main process: it listens
LEAVE = b"leave"  # main process to worker: another one has taken over

HEADER_READ_MS = 10_000  # Granian uses one timeout for reading headers and for idle connections
LONGEST_DRAIN_S = HEADER_READ_MS / 1000 + 2
_POLL_S = 0.2


def stop_accepting() -> set[int]:
    """Stop accepting connections; returns the ports they came in on.

    The new worker uses the same listening socket, which must stay open. So each of our descriptors for it is replaced by
    a listening socket without an address, which never has a connection to accept.
    """
    ports: set[int] = set()
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind("")
        deaf.listen(1)
        deaf.setblocking(False)  # noqa: FBT003
        for descriptor, each in _tcp_sockets():
            if each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                ports.add(each.getsockname()[1])
                os.dup2(deaf.fileno(), descriptor)
    return ports


async def connections_closed(ports: set[int]) -> None:
    """Wait until each accepted connection is closed, by a response that says so or because it idled too long."""
    deadline = time.monotonic() + LONGEST_DRAIN_S
    while time.monotonic() < deadline and any(each.getsockname()[1] in ports for _, each in _tcp_sockets()):  # noqa: ASYNC110
        await asyncio.sleep(_POLL_S)  # Granian owns the connections and has no event for this


def _tcp_sockets() -> Iterator[tuple[int, socket.socket]]:
    """The open TCP sockets of this process by descriptor; each is a duplicate that is closed before the next."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if not entry.is_socket():
                continue
            descriptor = int(entry.name)
            with socket.socket(fileno=os.dup(descriptor)) as found:
                if found.family in (socket.AF_INET, socket.AF_INET6):
                    yield descriptor, found
        except OSError:  # closed meanwhile
            continue
