"""The endpoint /metrics of a main process: the metrics of its workers, and the figures of the processes themselves."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from prometheus_client import REGISTRY, CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import (
    MultiProcessCollector,
    mark_process_dead,  # pyright: ignore[reportUnknownVariableType]
)
from prometheus_client.registry import Collector

from stoa.db import migrate
from stoa.operations.telemetry import VERSION
from stoa.settings import WrongSetting, metrics_address

_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # workers inherit this variable, and write their metrics to the folder
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

restarts: Counter[str] = Counter()  # of the children of this process, by kind


class Process(msgspec.Struct, frozen=True):
    """A process of the service: its kind, its number among those of its kind, and its process id."""

    kind: str
    number: int
    pid: int


class Figures(msgspec.Struct, frozen=True):
    memory_bytes: int
    cpu_seconds: float
    open_files: int


def figures(pid: int) -> Figures | None:
    """The figures of a process, or None if it has exited."""
    folder = Path(f"/proc/{pid}")
    try:
        words = (folder / "stat").read_text().rpartition(")")[2].split()
        pages = int((folder / "statm").read_text().split()[1])
        files = len(list((folder / "fd").iterdir()))
    except (OSError, IndexError, ValueError):
        return None
    return Figures(pages * _PAGE, (int(words[11]) + int(words[12])) / _TICKS, files)


class WorkerCollector(MultiProcessCollector):
    """Reads the metrics that the processes wrote."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)  # pyright: ignore[reportUnknownMemberType]

    def collect(self) -> Iterable[Metric]:
        # A process that starts creates a file before it gives it its size: its first metrics follow with the next request.
        files = [str(file) for file in Path(os.environ[_FOLDER]).glob("*.db") if _has_size(file)]
        return self.merge(files, accumulate=True)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _has_size(file: Path) -> bool:
    with suppress(FileNotFoundError):  # its process has died
        return file.stat().st_size > 0
    return False


class ProcessCollector(Collector):
    """Reads the figures of every process when the metrics are requested, so that the processes need not report them."""

    def __init__(self, processes: Callable[[], Sequence[Process]]) -> None:
        self._processes = processes

    def collect(self) -> Iterator[Metric]:
        labels = ["process", "number"]
        memory = GaugeMetricFamily("stoa_process_memory_bytes", "Resident memory of a process", labels=labels)
        cpu = CounterMetricFamily("stoa_process_cpu_seconds", "CPU time that a process used", labels=labels)
        files = GaugeMetricFamily("stoa_process_open_files", "Open files and sockets of a process", labels=labels)
        running = GaugeMetricFamily("stoa_processes", "Processes that run", labels=["process"])
        restarted = CounterMetricFamily(
            "stoa_process_restarts", "Processes that exited unexpectedly and were replaced", labels=["process"]
        )
        counts: Counter[str] = Counter()
        for each in self._processes():
            counts[each.kind] += 0
            seen = figures(each.pid)
            if seen is None:
                continue
            counts[each.kind] += 1
            names = [each.kind, str(each.number)]
            memory.add_metric(names, seen.memory_bytes)
            cpu.add_metric(names, seen.cpu_seconds)
            files.add_metric(names, seen.open_files)
        for kind, count in counts.items():
            running.add_metric([kind], count)
        for kind in sorted({*counts, *restarts}):
            restarted.add_metric([kind], restarts[kind])
        build = GaugeMetricFamily("stoa_build_info", "The release that runs", labels=["version", "schema"])
        build.add_metric([VERSION, str(migrate.LATEST)], 1)
        yield from (memory, cpu, files, running, restarted, build)


def prepare(folder: Path) -> None:
    """Let the workers that are started from now on write their metrics to this folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    os.environ[_FOLDER] = str(folder)


def serve(address: str, processes: Callable[[], Sequence[Process]]) -> None:
    """Serve /metrics in a thread: the metrics of the workers, or of this process if it is the only one."""
    registry = CollectorRegistry() if _FOLDER in os.environ else REGISTRY
    if registry is not REGISTRY:
        WorkerCollector(registry)
    registry.register(ProcessCollector(processes))
    host, port = metrics_address(address)
    try:
        start_http_server(port, host, registry)
    except OSError as error:
        raise unusable(address, error) from error


def unusable(address: str, error: Exception) -> WrongSetting:
    reason = error.strerror if isinstance(error, OSError) else "no such host"
    return WrongSetting(f"STOA_METRICS={address} cannot be used ({reason}); choose another address, or off")


def forget(pid: int) -> None:
    """Remove what a dead process reported of its own state; what it counted stays."""
    if _FOLDER in os.environ:
        mark_process_dead(pid)
