"""The listening sockets of a service: one for each web worker, of which the kernel uses those whose worker is ready."""

import contextlib
import ctypes
import socket
import struct
from collections.abc import Sequence

from stoa.rest.unsent import KERNEL_BYTES
from stoa.settings import Settings

BACKLOG = 1024
_SO_ATTACH_REUSEPORT_CBPF = 51  # of Linux; Python has no name for it
# Classic BPF: load a random number, keep its remainder, jump if equal, return the index of a socket.
_LOAD, _REMAINDER, _IF_EQUAL, _RETURN = 0x20, 0x94, 0x15, 0x06
_RANDOM = 0xFFFFF000 + 56


class Listeners:
    """Sockets on one address. The kernel spreads connections evenly among them, as it does not on a shared socket.

    They stay open as long as the main process runs, so that no connection is refused or reset while a worker is replaced:
    new connections go to the sockets of the other workers, and those that wait already are accepted by the new worker.
    """

    def __init__(self, settings: Settings, count: int) -> None:
        self._sockets = [_listen(settings) for _ in range(count)]
        self._steered: Sequence[int] = []

    def __len__(self) -> int:
        return len(self._sockets)

    def __getitem__(self, index: int) -> socket.socket:
        return self._sockets[index]

    def steer(self, ready: Sequence[int]) -> None:
        """Send new connections to these sockets; to all if there are none, where they wait for the first ready worker."""
        if ready == self._steered or not self._sockets:
            return
        self._steered = ready
        indexes = ready or range(len(self._sockets))
        # A socket has the index with which it joined the others, in the order of `listen`.
        program = [(_LOAD, 0, 0, _RANDOM), (_REMAINDER, 0, 0, len(indexes))]
        for number, index in enumerate(indexes):
            program += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, index)]
        program.append((_RETURN, 0, 0, indexes[0]))
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
        pointer = struct.pack("HP", len(program), ctypes.addressof(code))
        with contextlib.suppress(OSError):  # a sandbox that lacks it: connections wait for the new worker
            self._sockets[0].setsockopt(socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, pointer)

    def close(self) -> None:
        for each in self._sockets:
            each.close()


def _listen(settings: Settings) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        made.setsockopt(socket.SOL_SOCKET, option, 1)
    # Accepted connections inherit it. The kernel then closes one whose client acknowledges nothing, or keeps its window
    # closed, for this time; Granian has no limit, and each unread response would stay in memory.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, settings.send_seconds * 1000)
    # Nor does the kernel take more of a response than this in advance; it would take megabytes for each connection.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, KERNEL_BYTES)
    made.setblocking(False)  # noqa: FBT003
    made.bind((settings.host, settings.port))
    made.listen(BACKLOG)
    return made
