"""A worker's side of a change of shift: it tells when it is ready, and leaves without cutting anybody off."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

LEAVE = signal.SIGUSR1  # the owner's word to an old worker once the new one is ready
HEADER_READ_MS = 10_000  # a connection may idle as long: granian has one clock for both
LONGEST_GOODBYE_S = HEADER_READ_MS / 1000 + 2
_LOOK_S = 0.2


def load_and_tell(load: Callable[[], Any], listener: socket.socket, backlog: int, tell: Connection) -> Any:
    """Build the application, begin to listen, and tell the owner so; who connects now waits only for the first look."""
    application = load()
    listener.listen(backlog)
    listener.detach()  # from here on it is the server's
    with suppress(OSError), tell:  # an owner that is gone is noticed elsewhere
        tell.send_bytes(b"ready")
    return application


def take_no_more() -> set[int]:
    """Stop accepting connections; answers the ports. The listening socket is the new worker's by now and stays
    open: only our own number for it is made to mean a socket that nobody knows, which never has a connection to give."""
    ports: set[int] = set()
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind("")
        deaf.listen(1)
        deaf.setblocking(False)  # noqa: FBT003
        for number, each in _sockets():
            if each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                ports.add(each.getsockname()[1])
                os.dup2(deaf.fileno(), number)
    return ports


async def until_all_left(ports: set[int]) -> None:
    """Wait until each connection that was taken is closed: by an answer that says so, or because it idled too long."""
    deadline = time.monotonic() + LONGEST_GOODBYE_S
    while time.monotonic() < deadline and any(each.getsockname()[1] in ports for _, each in _sockets()):  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_S)  # nobody tells us: connections are the server's


def _sockets() -> Iterator[tuple[int, socket.socket]]:
    """The open TCP sockets of this process by number; each is a copy that lives until the next is asked for."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if not entry.is_socket():
                continue
            number = int(entry.name)
            with socket.socket(fileno=os.dup(number)) as found:
                if found.family in (socket.AF_INET, socket.AF_INET6):
                    yield number, found
        except OSError:  # closed meanwhile
            continue
