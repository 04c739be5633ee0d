"""A web worker: one process that serves the application on a listening socket of its main process."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable

import structlog
import uvloop
from granian._granian import SocketHolder  # pyright: ignore[reportMissingTypeStubs]
from granian.constants import HTTPModes, Interfaces  # pyright: ignore[reportMissingTypeStubs]
from granian.http import HTTP1Settings  # pyright: ignore[reportMissingTypeStubs]
from granian.log import LogLevels  # pyright: ignore[reportMissingTypeStubs]
from granian.server.embed import Server  # pyright: ignore[reportMissingTypeStubs]

from stoa import app
from stoa.processes.handover import HEADER_READ_MS, LEAVE, READY, connections_closed, stop_accepting
from stoa.processes.listeners import BACKLOG

# Above our own limit of 16 KiB, so that we answer 431 ourselves.
READ_BUFFER_BYTES = 128 * 1024
# Idle ones included: max_in_flight limits requests, and answers those it sheds.
MOST_CONNECTIONS = 10_000


class SocketServer(Server):
    """Granian on a socket that is already open, for which it has no public option."""

    def __init__(self, application: app.Application, listener: socket.socket) -> None:
        self._listener = listener
        super().__init__(
            application,
            interface=Interfaces.ASGI,
            # With HTTP/2 on the same port, a connection that sends nothing would stay open forever.
            http=HTTPModes.http1,
            websockets=False,
            backlog=BACKLOG,
            backpressure=MOST_CONNECTIONS,
            http1_settings=HTTP1Settings(header_read_timeout=HEADER_READ_MS, max_buffer_size=READ_BUFFER_BYTES),
            # Granian's log lines go through our handlers; below an error it only says that embedding is experimental.
            log_dictconfig={"loggers": {"_granian": {"handlers": [], "propagate": True}}},
            log_level=LogLevels.error,
        )

    def _init_shared_socket(self) -> None:
        self._shd = SocketHolder(self._listener.detach(), False, self.backlog)  # pyright: ignore[reportCallIssue]  # noqa: FBT003


class WebWorker:
    """The application, its server, and the control socket to the main process."""

    def __init__(self, application: app.Application, listener: socket.socket, control: socket.socket) -> None:
        self._application = application
        self._listener = listener
        self._control = control
        self._server = SocketServer(application, listener)
        self._leaving: asyncio.Task[None] | None = None  # on a reload, or before a stop

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._on_terminate)
        loop.add_signal_handler(signal.SIGINT, self._stop)
        self._control.setblocking(False)  # noqa: FBT003
        loop.add_reader(self._control, self._on_control)
        self._listener.listen(BACKLOG)
        self._control.send(READY)
        await self._server.serve()

    def _on_terminate(self) -> None:
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._stop_later())
        else:
            self._stop()  # nobody finds a worker that leaves already

    async def _stop_later(self) -> None:
        """Serve until the proxies in front of this service have noticed that it is about to exit."""
        self._application.leave()
        await asyncio.sleep(self._application.settings.shutdown_delay_seconds)
        self._stop()

    def _stop(self) -> None:
        self._application.end_waiting()
        self._server.stop()

    def _on_control(self) -> None:
        try:
            received = self._control.recv(len(LEAVE))
        except OSError:
            received = b""
        if received == LEAVE and self._leaving is None:
            self._leaving = asyncio.create_task(self._drain())
        elif not received:
            # A worker must not outlive the main process, of which kill -9 leaves no other sign.
            structlog.get_logger().error("the main process has exited")
            os._exit(1)

    async def _drain(self) -> None:
        """Leave to a new worker: accept no connection, close each after its next response, and exit."""
        ports = stop_accepting()
        self._application.drain()
        await connections_closed(ports)
        self._stop()


def main(create: Callable[[], app.Application] = app.create) -> None:
    """Serve on the descriptors that the command line names: the listening socket and the control socket."""
    listener, control = (socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:3])
    uvloop.run(WebWorker(create(), listener, control).run())


if __name__ == "__main__":
    main()
