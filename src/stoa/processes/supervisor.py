"""The processes of a service: started by the main process, replaced when they die, and reloaded without failed requests."""

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import structlog

from stoa.db.errors import cause
from stoa.operations import exposition
from stoa.operations.exposition import Process
from stoa.processes import command_lines
from stoa.processes.handover import LEAVE, LONGEST_DRAIN_S, READY
from stoa.processes.listeners import Listeners
from stoa.settings import Settings

RESPAWN_PAUSE_S = 0.5  # a process that dies immediately must not keep the machine busy
START_TIMEOUT_S = 60.0  # on reload, for a new worker to become ready
_POLL_S = 0.05
Started = TypeVar("Started")


class WorkerFailed(ChildProcessError):
    """A web worker exited before the service answered its first request."""


class WebWorker:
    """A process that serves requests on a socket of the main process, and the control socket between the two."""

    def __init__(self, command: Sequence[str], listener: socket.socket) -> None:
        self.control, theirs = socket.socketpair()
        with theirs:
            numbers = (listener.fileno(), theirs.fileno())
            try:
                self.process = _start([*command, *map(str, numbers)], numbers)
            except OSError:
                self.control.close()
                raise
        self.ready = False  # whether it listens
        self.exits = False  # its end of the control socket is closed, a moment before the process has exited
        self.leave_by = 0.0
        self.replace_at = time.monotonic() + RESPAWN_PAUSE_S

    @property
    def dead(self) -> bool:
        return self.process.poll() is not None

    @property
    def replaceable(self) -> bool:
        return self.dead and time.monotonic() >= self.replace_at

    def hear(self) -> None:
        """Read what it said on the control socket, which is readable."""
        try:
            received = self.control.recv(len(READY))
        except OSError:
            received = b""
        self.exits = not received
        self.ready = received == READY

    def leave(self, drain_seconds: float) -> None:
        """Ask it to finish its connections and exit."""
        self.leave_by = time.monotonic() + LONGEST_DRAIN_S + drain_seconds
        try:
            self.control.send(LEAVE)
        except OSError:  # it has exited already
            self.leave_by = 0.0

    def close(self) -> None:
        """End the process if it still runs."""
        _end([self.process], 0)
        exposition.forget(self.process.pid)
        self.control.close()


class BackgroundWorker:
    """A process for work that no request waits for; it is started again whenever it exits."""

    def __init__(self, kind: str, command: Sequence[str]) -> None:
        self.kind = kind
        self._command = command
        self._started = 0.0
        self._asked_to_exit = False
        self.process: subprocess.Popen[bytes] | None = None

    def keep_running(self) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                return
            if not self._asked_to_exit:
                _report_exit(self.kind, self.process)
            exposition.forget(self.process.pid)
            self.process = None
        if time.monotonic() >= self._started + RESPAWN_PAUSE_S:
            self._started, self._asked_to_exit = time.monotonic(), False
            self.process = _tried(self.kind, lambda: _start(self._command))

    def restart(self) -> None:
        """Let it finish its current work and exit; `keep_running` then starts it with the installed code."""
        if self.process is not None:
            self._asked_to_exit = True
            self.process.terminate()


class Supervisor:
    """Runs the web and background workers until SIGTERM or SIGINT; SIGHUP reloads them with the installed release.

    Each command runs in a fresh interpreter, so a reload imports the release that is installed by then. The main process
    keeps only what outlives a reload: the listening sockets, the embedded database and the metrics endpoint.

    Without a `web` command it runs only background workers. A reload migrates the schema if `migrate` is set.
    """

    def __init__(
        self,
        settings: Settings,
        web: Sequence[str] | None,
        background: Mapping[str, Sequence[str]],
        *,
        migrate: bool = True,
    ) -> None:
        self._settings = settings
        self._web = web or ()
        self._migrates = migrate
        self._background = [BackgroundWorker(kind, command) for kind, command in background.items()]
        self._listeners = Listeners(settings, 0)
        self._workers: list[WebWorker] = []
        self._outdated: list[int] = []  # indexes of workers that a reload has still to replace
        self._leaving: WebWorker | None = None
        self._reload_requested = False
        self._stopping: signal.Signals | None = None  # the signal to stop
        # Set after the first answer: from then on the service outlives any worker.
        self.answered = web is None

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_reload)
        self._listeners = Listeners(self._settings, self._settings.workers if self._web else 0)
        self._workers = [WebWorker(self._web, listener) for listener in self._listeners]
        try:
            while not self._stopping:
                self._replace_dead_workers()
                if self.answered:
                    for each in self._background:
                        each.keep_running()
                self._reload()
                self._listen(self._workers)
        finally:
            self._stop()

    def processes(self) -> list[Process]:
        """The processes that run now, the main process included."""
        web = [Process("web", number, worker.process.pid) for number, worker in enumerate(self._workers)]
        background = [Process(each.kind, 0, each.process.pid) for each in self._background if each.process]
        return [Process("main", 0, os.getpid()), *web, *background]

    def _on_stop(self, number: int, _: object) -> None:
        if self._stopping and number == signal.SIGINT:  # somebody does not want to wait for the delay
            self._signal_web_workers(at_once=True)
        self._stopping = signal.Signals(number)

    def _on_reload(self, *_: object) -> None:
        self._reload_requested = True

    def _listen(self, workers: Sequence[WebWorker]) -> None:
        """Wait for what workers say, at most for a moment; connections go to those that are ready."""
        controls = {worker.control: worker for worker in workers if not worker.exits}
        for control in select.select(controls, [], [], _POLL_S)[0]:
            controls[control].hear()
        self._listeners.steer([index for index, worker in enumerate(self._workers) if worker.ready])

    def _replace_dead_workers(self) -> None:
        dead = [index for index, worker in enumerate(self._workers) if worker.dead]
        if dead and not self.answered and not self._stopping:
            raise WorkerFailed("a worker exited before the service was ready; see its output above")
        for index in dead:
            if self._workers[index].replaceable and not self._stopping:
                self._replace(index)

    def _replace(self, index: int) -> None:
        old = self._workers[index]
        new = self._new_worker(index)
        if new is None:
            old.replace_at = time.monotonic() + RESPAWN_PAUSE_S
            return
        _report_exit("web", old.process)
        old.close()
        self._workers[index] = new

    def _new_worker(self, index: int) -> WebWorker | None:
        return _tried("web", lambda: WebWorker(self._web, self._listeners[index]))

    def _reload(self) -> None:
        """Take one step of a reload, so that dead workers are replaced meanwhile."""
        if self._reload_requested:
            self._reload_requested = False
            if not self._migrates or self._migrated():
                self._outdated = list(range(len(self._workers)))
                if not self._outdated:
                    self._finish_reload()
        if self._leaving is not None:
            if not self._leaving.dead and time.monotonic() < self._leaving.leave_by:
                return
            self._leaving.close()
            self._leaving = None
            if not self._outdated:
                self._finish_reload()
        elif self._outdated and not self._replaced(self._outdated.pop(0)):
            self._outdated = []

    def _finish_reload(self) -> None:
        for each in self._background:
            each.restart()
        structlog.get_logger().info("reload finished")

    def _migrated(self) -> bool:
        """Whether the installed release could bring the schema up to date; the running release works on both."""
        process = _tried("migration", lambda: _start(command_lines.migration(), stdout=subprocess.DEVNULL))
        # A worker that dies is not replaced: a new one would bring the installed release to the old schema.
        while process is not None and process.poll() is None and not self._stopping:
            self._listen(self._workers)
        if process is not None and self._stopping:
            _end([process], self._settings.drain_seconds)
            return False
        if process is None or process.returncode != 0:
            structlog.get_logger().error("reload failed: the migration failed; the old workers keep serving")
            return False
        return True

    def _replaced(self, index: int) -> bool:
        """Start a new worker on the socket of an old one, and let the old one leave once the new one is ready."""
        new = self._new_worker(index)
        deadline = time.monotonic() + START_TIMEOUT_S
        while new and not new.ready and not new.exits and time.monotonic() < deadline and not self._stopping:
            self._listen([*self._workers, new])
        if new is None or not new.ready:
            if new is not None:
                new.close()
            if not self._stopping:
                structlog.get_logger().error("reload failed: a new worker did not start; the old workers keep serving")
            return False
        self._leaving, self._workers[index] = self._workers[index], new
        self._leaving.leave(self._settings.drain_seconds)
        return True

    def _stop(self) -> None:
        self._listeners.close()
        # A person who presses Ctrl-C waits for no proxy to notice.
        at_once = self._stopping == signal.SIGINT or not self.answered
        web = self._signal_web_workers(at_once=at_once)
        delay = 0 if at_once else self._settings.shutdown_delay_seconds
        _wait(web, delay + self._settings.drain_seconds)
        _end([each.process for each in self._background if each.process], self._settings.drain_seconds)

    def _signal_web_workers(self, *, at_once: bool) -> list[subprocess.Popen[bytes]]:
        web = [*self._workers, *filter(None, [self._leaving])]
        for worker in web:
            # Before it is ready, a worker does not handle SIGINT.
            worker.process.send_signal(signal.SIGINT if at_once and worker.ready else signal.SIGTERM)
        return [worker.process for worker in web]


def _start(command: Sequence[str], inherited: Sequence[int] = (), stdout: int | None = None) -> subprocess.Popen[bytes]:
    # In its own process group, so that Ctrl-C reaches only the main process, which then stops the others in order. Not in
    # its own session: Linux schedules each session as a unit, and workers that preempt each other cost 6 % of throughput.
    return subprocess.Popen(command, pass_fds=inherited, stdout=stdout, process_group=0)  # noqa: S603


def _tried(kind: str, start: Callable[[], Started]) -> Started | None:
    """Start a process; None if the system refuses, because memory is short or the environment is being replaced."""
    try:
        return start()
    except OSError as error:
        structlog.get_logger().error("a process could not be started", process=kind, **cause(error))
        return None


def _report_exit(kind: str, process: subprocess.Popen[bytes]) -> None:
    """Log and count a process that exited although nobody asked it to. A negative exit code is the number of a signal."""
    exposition.restarts[kind] += 1
    structlog.get_logger().error(
        "a worker exited unexpectedly", process=kind, pid=process.pid, exit_code=process.returncode
    )


def _end(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    """Let processes finish their current work, but kill those that take longer than this."""
    for process in processes:
        process.terminate()
    _wait(processes, seconds)


def _wait(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    """Wait for processes to exit, and kill those that take longer than this."""
    deadline = time.monotonic() + seconds
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
