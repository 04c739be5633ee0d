"""Results: the rates of every row, their targets, and the machine."""

import os
import platform
import statistics
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks.drive import Figures, median
from benchmarks.measures import Measure, Wanted
from benchmarks.services import Memory

_LOAD_BEFORE = os.getloadavg()[0]  # before anything was measured
MOST_WORKER_MB = 80  # proportional (PSS): what the workers share, such as libraries, is divided among them
COLD_START_S, WARM_START_S = 8, 3


class Round(msgspec.Struct, frozen=True):
    """One run of each side, shortly after each other."""

    ours: Figures
    limit: Figures | None
    baseline: Figures | None
    like: Figures | None

    def summary(self) -> str:
        sides = {"stoa": self.ours, "pgbench": self.limit, "baseline": self.baseline, "like": self.like}
        return " | ".join(f"{name} {figures.per_second:,.0f}/s" for name, figures in sides.items() if figures)


class Row(msgspec.Struct, frozen=True):
    """A measured row; ratios are medians of the rounds' ratios, so that a slow moment affects both sides."""

    name: str
    title: str
    wanted: Wanted
    ours: Figures
    limit: Figures | None
    baseline: Figures | None
    of_limit: float | None
    of_baseline: float | None
    of_like: float | None


def row_of(measure: Measure, rounds: list[Round]) -> Row:
    limits = [run.limit for run in rounds if run.limit]
    baselines = [run.baseline for run in rounds if run.baseline]
    return Row(
        measure.name,
        measure.title,
        measure.wanted,
        median([run.ours for run in rounds]),
        median(limits) if limits else None,
        median(baselines) if baselines else None,
        _ratio([(run.ours, run.limit) for run in rounds]),
        _ratio([(run.ours, run.baseline) for run in rounds]),
        _ratio([(run.ours, run.like) for run in rounds]),
    )


def _ratio(runs: list[tuple[Figures, Figures | None]]) -> float | None:
    found = [one.per_second / other.per_second for one, other in runs if other]
    return statistics.median(found) if found else None


class Mark(msgspec.Struct, frozen=True):
    """A result and its target."""

    what: str
    figure: str
    wanted: str
    met: bool


class Machine(msgspec.Struct, frozen=True):
    cores: int
    processor: str
    memory_gb: float
    kernel: str
    python: str
    postgres: str
    load_before: float
    date: str

    @property
    def busy(self) -> bool:
        return self.load_before > self.cores / 4

    def sentence(self) -> str:
        return (
            f"{self.cores} cores of {self.processor}, {self.memory_gb:.0f} GB, Linux {self.kernel}, "
            f"Python {self.python}, PostgreSQL {self.postgres}, {self.date}."
            + (
                f" The machine was busy (load average {self.load_before:.1f}): the results are rough."
                if self.busy
                else ""
            )
        )


class Results(msgspec.Struct, frozen=True):
    machine: Machine
    command: str
    conditions: str
    rows: list[Row]
    marks: list[Mark]
    memory: Memory | None
    starts: Mapping[str, float]


def describe_machine(postgres: str) -> Machine:
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 1024**2
    return Machine(
        len(os.sched_getaffinity(0)),
        _processor(),
        memory,
        platform.release(),
        platform.python_version(),
        postgres,
        _LOAD_BEFORE,
        datetime.now(UTC).strftime("%Y-%m-%d"),
    )


def _processor() -> str:
    output = subprocess.run(["lscpu"], stdout=subprocess.PIPE, text=True, check=False, env={"LC_ALL": "C"}).stdout
    known = dict(line.split(":", 1) for line in output.splitlines() if ":" in line)
    return known.get("Model name", platform.machine()).strip()


def marks_of(
    rows: list[Row], memory: Memory | None, starts: Mapping[str, float], deadlocks: int | None = None
) -> list[Mark]:
    """The targets that apply to these results."""
    found: list[Mark] = []
    for row in rows:
        wanted = row.wanted
        if wanted.of_limit is not None and row.of_limit is not None:
            target = _at_least(f"{wanted.of_limit:.0%}", wanted.aim_of_limit, "{:.0%}")
            met = row.of_limit >= wanted.of_limit
            found.append(Mark(f"{row.name}, share of its limit", f"{row.of_limit:.0%}", target, met))
        if wanted.of_baseline is not None and row.of_baseline is not None:
            target = _at_least(f"{wanted.of_baseline:g} times", wanted.aim_of_baseline, "{:g} times")
            met = row.of_baseline >= wanted.of_baseline
            found.append(Mark(f"{row.name}, compared with the baseline", f"{row.of_baseline:.1f} times", target, met))
        if wanted.per_second is not None:
            figure, met = f"{row.ours.per_second:,.0f}/s", row.ours.per_second >= wanted.per_second
            found.append(Mark(f"{row.name}, per second", figure, f"at least {wanted.per_second:g}/s", met))
        if row.of_like is not None:
            target, met = f"at least {wanted.of_like:.0%}", row.of_like >= wanted.of_like
            found.append(Mark(f"{row.name}, share of {wanted.like}", f"{row.of_like:.0%}", target, met))
    if memory is not None:
        figure = f"{memory.pss_mb:.0f} MB"
        met = memory.pss_mb <= MOST_WORKER_MB
        found.append(Mark("memory of a worker after load (PSS)", figure, f"at most {MOST_WORKER_MB} MB", met))
    if deadlocks is not None:
        found.append(Mark("deadlocks in all runs", str(deadlocks), "none", deadlocks == 0))
    for name, most in (("cold", COLD_START_S), ("warm", WARM_START_S)):
        if name in starts:
            seconds = starts[name]
            found.append(Mark(f"{name} start of the demo", f"{seconds:.1f} s", f"at most {most} s", seconds <= most))
    return found


def _at_least(least: str, aim: float | None, shape: str) -> str:
    return f"at least {least}" + (f" (aim: {shape.format(aim)})" if aim is not None else "")
