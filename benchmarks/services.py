"""Runs the measured services as a user would, and reads the memory of their workers."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import msgspec

from benchmarks.drive import CannotMeasure

_ROOT = Path(__file__).parent.parent
_START_S, _END_S = 120, 40


class Memory(msgspec.Struct, frozen=True):
    """The largest worker: its resident memory, and its proportional share of shared pages (PSS)."""

    rss_mb: float
    pss_mb: float


class Service(msgspec.Struct, frozen=True):
    origin: str
    process_id: int

    def memory(self) -> Memory:
        try:
            workers = [_memory(worker) for worker in workers_of(self.process_id)]
        except (FileNotFoundError, ProcessLookupError) as ended:
            raise CannotMeasure("a worker of the service ended during the measurement") from ended
        if not workers:
            raise CannotMeasure("the service has no workers")
        return max(workers, key=lambda worker: worker.rss_mb)

    def cpu_seconds(self) -> float:
        """The CPU time of the service and of every process that it started, also of those that have ended."""
        return sum(map(_ticks, processes_of(self.process_id))) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(
    command: Sequence[str], settings: Mapping[str, str], log: Path, folder: Path = _ROOT
) -> Generator[int, None, None]:
    """Run a process and everything that it starts until the context ends; yields its id."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("STOA_")}
    paths = os.pathsep.join([str(_ROOT), str(_ROOT / "src")])
    environment = {**inherited, "PYTHONPATH": paths, **settings}
    with log.open("ab") as output:
        # In its own session, so that leftover processes can be killed, and only those.
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process.pid
    except CannotMeasure as error:
        raise CannotMeasure(f"{error}\n{log.read_text(errors='replace')[-2000:]}") from error
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(_END_S)


@contextmanager
def stoa(dsn: str, folder: Path, *, workers: int, secret_key: str) -> Generator[Service, None, None]:
    """The service, with rate limits that are active but too high to be reached."""
    port = free_port()
    settings = {
        "STOA_DATABASE_URL": dsn,
        "STOA_DATA_DIR": str(folder / "stoa"),
        "STOA_SECRET_KEY": secret_key,
        "STOA_WORKERS": str(workers),
        "STOA_ACCESS_LOG": "false",
        "STOA_METRICS": "off",
        "STOA_APP_CONCURRENCY": "1000",
        "STOA_RATE_BURST": "100000000",
        "STOA_RATE_REFILL": "1000000",
    }
    command = [sys.executable, "-m", "stoa", "serve", "--port", str(port)]
    with running(command, settings, folder / "stoa.log") as pid:
        yield Service(when_ready(f"http://127.0.0.1:{port}", "/ready"), pid)


@contextmanager
def baseline(dsn: str, folder: Path, *, workers: int, secret_key: str) -> Generator[Service, None, None]:
    """The baseline, with uvicorn's fastest options."""
    port = free_port()
    settings = {
        "BASELINE_DATABASE_URL": dsn.replace("postgresql://", "postgresql+asyncpg://", 1),
        "STOA_SECRET_KEY": secret_key,
    }
    options = ["--workers", str(workers), "--loop", "uvloop", "--http", "httptools", "--no-access-log"]
    command = [sys.executable, "-m", "uvicorn", "benchmarks.baseline.app:app", *options, "--log-level", "warning"]
    with running([*command, "--port", str(port)], settings, folder / "baseline.log") as pid:
        yield Service(when_ready(f"http://127.0.0.1:{port}", "/"), pid)


def when_ready(origin: str, path: str, answer_s: float = 2.0) -> str:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        try:
            if httpx.get(origin + path, timeout=answer_s).status_code in (200, 404):
                return origin
        except httpx.HTTPError:
            pass
        time.sleep(0.05)
    raise CannotMeasure(f"no response from {origin} within {_START_S} s")


def workers_of(process_id: int) -> list[int]:
    """The child processes that serve requests: our web workers, or those that uvicorn spawns."""
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return [pid for pid, command in commands.items() if b"stoa.web_worker" in command or b"spawn_main" in command]


def processes_of(process_id: int) -> list[int]:
    """A process, its children, and theirs."""
    found = [process_id]
    for parent in found:
        with suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _ticks(process_id: int) -> int:
    """The time of a process in user and system mode, with that of its ended children."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return sum(map(int, Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return 0


def _memory(process_id: int) -> Memory:
    lines = Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines()
    kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines[1:])}
    return Memory(kilobytes["Rss"] / 1024, kilobytes["Pss"] / 1024)
