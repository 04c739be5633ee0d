"""The workers of a service: started, started again when they die, and relieved one by one without anybody noticing."""

import contextlib
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import resource_tracker
from typing import Any, cast

import structlog
from granian._granian import SocketHolder  # pyright: ignore[reportMissingTypeStubs]
from granian.server.mp import MPServer  # pyright: ignore[reportMissingTypeStubs]

from stoa.shifts import LEAVE, LONGEST_GOODBYE_S, load_and_tell

RESPAWN_PAUSE_S = 0.5
START_PATIENCE_S = 60.0  # on SIGHUP, how long a new worker has to get ready
_LOOK_S = 0.05


class Wakeup:
    """What the main thread waits for. It looks by itself, because a signal that the system hands to another thread
    would not wake a lock, and it holds none, because signal handlers set it. It asks what signals left behind as well:
    the server clears this after it looked at them, and would wait for ever for one that came in between."""

    def __init__(self, told: Callable[[], bool]) -> None:
        self._told = told
        self._set = False

    def set(self) -> None:
        self._set = True

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def wait(self) -> None:
        while not self._set and not self._told():
            time.sleep(0.05)


class Server(MPServer):
    """Granian, but for three things: a new worker takes the listening socket over from the one before it, so that nobody
    who waits there is cut off; a worker makes room only for one that is ready; and one that dies twice in a row is no
    reason to give up, once anything was answered."""

    answered = False

    def _init_shared_socket(self) -> None:
        # One for each worker, for the kernel to spread connections evenly: of one that all share, the quickest takes most.
        self._listeners: list[socket.socket] = [self._listener() for _ in range(self.workers)]

    def _listener(self) -> socket.socket:
        """A socket at our address; who connects is sent to it only after its worker began to listen."""
        made = socket.socket(socket.AF_INET6 if ":" in self.bind_addr else socket.AF_INET)
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            made.setsockopt(socket.SOL_SOCKET, option, 1)
        made.setblocking(False)  # noqa: FBT003
        made.bind((self.bind_addr, self.bind_port))
        made.set_inheritable(True)
        return made

    def _drop_shared_socket(self) -> None:
        for listener in self._listeners:
            listener.close()

    def _spawn_worker(self, idx: int, target: Any, callback_loader: Any) -> Any:
        listener = self._sso = self._listeners[idx]
        self._shd = SocketHolder(listener.fileno(), False, self.backlog)  # pyright: ignore[reportCallIssue]  # noqa: FBT003
        told, tell = multiprocessing.Pipe(duplex=False)
        load = partial(load_and_tell, callback_loader, listener, self.backlog, tell)
        worker: Any = super()._spawn_worker(idx, target, load)  # pyright: ignore[reportUnknownMemberType]
        start = worker.start

        def start_deaf() -> None:
            # A terminal's Ctrl-C reaches workers too, one that still starts would end in a traceback: it is for us alone.
            resource_tracker.ensure_running()  # when it starts only now, it lets the signal through again
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                tell.close()

        worker.start, worker.told = start_deaf, told
        return worker

    def shutdown(self, exit_code: int = 0) -> None:
        if self.interrupt_signal:  # a worker that died of the same signal, before it could hear it, is no failure
            for worker in self._crew:
                worker.interrupt_by_parent = True
            self._fallen.clear()
        super().shutdown(exit_code)  # pyright: ignore[reportUnknownMemberType]

    def _respawn_workers(self, workers: list[int], spawn_target: Any, target_loader: Any, delay: float = 0) -> None:
        if delay:
            for idx in workers:
                if self.interrupt_signal or not self._relieve(idx, spawn_target, target_loader, delay):
                    return
            return
        for idx in workers:  # what a dead one leaves waiting is let go: the others are there for whoever tries again
            self._listeners[idx].close()
            self._listeners[idx] = self._listener()
        super()._respawn_workers(workers, spawn_target, target_loader)  # pyright: ignore[reportUnknownMemberType]
        if self.answered:
            time.sleep(RESPAWN_PAUSE_S)  # a worker that dies at once must not keep the machine busy
            self.respawned_wrks.clear()  # pyright: ignore[reportUnknownMemberType] - granian's memory of who died

    def _relieve(self, idx: int, spawn_target: Any, target_loader: Any, patience_s: float) -> bool:
        """Start a worker, and let the one in its place go when it is ready; answers whether it got so far."""
        old, new = self._crew[idx], self._spawn_worker(idx, spawn_target, target_loader)
        new.interrupt_by_parent = True  # one that does not start must not be taken for the one that serves
        new.start()
        if not self._ready(new, patience_s):
            new.kill()
            new.join()
            if not self.interrupt_signal:
                structlog.get_logger().error("a new worker does not start; the old ones stay")
            return False
        new.interrupt_by_parent = False
        old.interrupt_by_parent = True
        self._crew[idx] = new
        while idx in self._fallen:  # the old one died meanwhile
            self._fallen.remove(idx)
        if not new.is_alive():
            self._fallen.append(idx)
            self.main_loop_interrupt.set()
        self._let_go(old)
        return True

    def _ready(self, worker: Any, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and not self.interrupt_signal:
            try:
                if worker.told.poll(_LOOK_S):
                    return worker.told.recv_bytes() == b"ready"
            except (EOFError, OSError):
                return False
        return False

    def _let_go(self, worker: Any) -> None:
        """Have an old worker say goodbye to its callers; what still runs after that has as long as at a stop."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.inner.pid, LEAVE)
        deadline = time.monotonic() + LONGEST_GOODBYE_S + (self.workers_kill_timeout or 0)
        while worker.is_alive() and time.monotonic() < deadline and not self.interrupt_signal:
            worker.join(_LOOK_S)
        worker.terminate()
        worker.join(self.workers_kill_timeout)
        if worker.is_alive():
            worker.kill()
            worker.join()

    @property
    def _crew(self) -> list[Any]:
        return cast("list[Any]", self.wrks)  # pyright: ignore[reportUnknownMemberType]

    @property
    def _fallen(self) -> list[int]:
        return cast("list[int]", self.interrupt_children)  # pyright: ignore[reportUnknownMemberType]
