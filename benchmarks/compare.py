"""`python -m benchmarks.compare REVISION`: measure this tree against another revision, taking turns, on the same machine.

A benchmark of yesterday or of a busier machine says little about a change of a few percent. Here both revisions run at the same
time, each with its own database, and the load alternates between them.
"""

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table
from tests.support.termination import exit_on_sigterm

from benchmarks.drive import CannotMeasure, Load, Target, drive_http

ROOT = Path(__file__).parent.parent
READY_S, END_S = 600, 60
WARM_UP_S = 2.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Run(msgspec.Struct, frozen=True):
    """One run of a revision: for each request, the time of the CPU that its processes used, and the size of the response."""

    per_second: float
    cpu_us: float
    response_bytes: float


class Pair(msgspec.Struct, frozen=True):
    """One run of each revision, shortly after each other."""

    before: Run
    after: Run

    @property
    def ratio(self) -> float:
        return self.after.per_second / self.before.per_second

    @property
    def bytes_ratio(self) -> float:
        """The ratio of bytes per second: a release whose documents have new fields sends more for each request."""
        return self.ratio * self.after.response_bytes / self.before.response_bytes

    @property
    def cpu_ratio(self) -> float:
        return self.after.cpu_us / self.before.cpu_us


@contextmanager
def checked_out(revision: str) -> Generator[Path, None, None]:
    """A working tree of the revision, until the context ends."""
    git = shutil.which("git")
    if git is None:
        raise CannotMeasure("git is missing")
    with tempfile.TemporaryDirectory(prefix="stoa-compare-") as name:
        tree = Path(name) / "tree"
        Path(name).chmod(0o711)  # the database server may run as another user
        done = subprocess.run(
            [git, "-C", ROOT, "worktree", "add", "--detach", tree, revision],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CannotMeasure(f"{revision} cannot be checked out: {done.stderr.strip()}")
        try:
            yield tree
        finally:
            subprocess.run([git, "-C", ROOT, "worktree", "remove", "--force", tree], check=True)


class Loading(msgspec.Struct, frozen=True):
    """The service of a tree, in a process of its own, that may still be loading its database."""

    process: subprocess.Popen[bytes]
    log: Path
    file: Path

    def service(self) -> "Side":
        """Wait until the service is ready."""
        deadline = time.monotonic() + READY_S
        while not self.file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise CannotMeasure(f"a service is not ready:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.2)
        return Side(msgspec.json.decode(self.file.read_bytes(), type=Target), self.file.parent)


class Side(msgspec.Struct, frozen=True):
    """The service of one revision, and the folder for its temporary files, which no other process uses."""

    target: Target
    folder: Path

    def run(self, name: str, load: Load) -> Run:
        before, started = self._cpu_s(), time.monotonic()
        figures = drive_http(self.target.origin, self.target.requests[name], load)
        spent = sum(seconds - before.get(process, 0.0) for process, seconds in self._cpu_s().items())
        per_request = spent / (figures.per_second * (time.monotonic() - started)) * 1e6
        return Run(figures.per_second, per_request, figures.response_bytes or 0.0)

    def _cpu_s(self) -> dict[str, float]:
        """The time that each process of the service has used, the database included."""
        found: dict[str, float] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                # PostgreSQL overwrites its environment, but works in its data folder.
                own = f"TMPDIR={self.folder}".encode() in (folder / "environ").read_bytes().split(b"\0")
                if own or (folder / "cwd").readlink().is_relative_to(self.folder):
                    fields = (folder / "stat").read_text().rpartition(")")[2].split()
                    found[folder.name] = (int(fields[11]) + int(fields[12])) / _TICKS
        return found


@contextmanager
def serving(tree: Path, folder: Path) -> Generator[Loading, None, None]:
    folder.mkdir(0o711)  # the database server may run as another user
    log, file = folder / "log", folder / "target.json"
    command = [sys.executable, "-m", "benchmarks", "--serve", str(file)]
    environment = {**os.environ, "PYTHONPATH": f"{tree}:{tree / 'src'}", "TMPDIR": str(folder)}
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=tree, env=environment, stdout=output, stderr=output)
    try:
        yield Loading(process, log, file)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(END_S)


def take_turns(name: str, before: Side, after: Side, load: Load, rounds: int) -> list[Pair]:
    """The pairs of one row. The revision that goes first changes with each round; the first round is a warm-up."""
    pairs: list[Pair] = []
    for number in range(rounds + 1):
        run = load if number else msgspec.structs.replace(load, seconds=WARM_UP_S)
        order = (before, after) if number % 2 else (after, before)
        found = {side.folder: side.run(name, run) for side in order}
        if number:
            pairs.append(Pair(found[before.folder], found[after.folder]))
    return pairs


def table_of(revision: str, rows: dict[str, list[Pair]]) -> Table:
    titles = (
        "row", f"{revision} /s", "this tree /s", "ratio", "lowest", "highest", "bytes", "ratio of bytes/s", "CPU us", "ratio",
    )  # fmt: skip
    table = Table(*titles, title="Medians of all rounds; CPU per request, with the database; before -> after")
    for name, pairs in rows.items():
        runs = [pair.before for pair in pairs], [pair.after for pair in pairs]
        rates, sizes, cpu = (
            [f"{statistics.median(getattr(run, figure) for run in side):,.0f}" for side in runs]
            for figure in ("per_second", "response_bytes", "cpu_us")
        )
        ratios = [pair.ratio for pair in pairs]
        cells = [f"{ratio:.2f}" for ratio in (statistics.median(ratios), min(ratios), max(ratios))]
        by_bytes = f"{statistics.median(pair.bytes_ratio for pair in pairs):.2f}"
        by_cpu = f"{statistics.median(pair.cpu_ratio for pair in pairs):.2f}"
        table.add_row(name, *rates, *cells, " -> ".join(sizes), by_bytes, " -> ".join(cpu), by_cpu)
    return table


@click.command()
@click.argument("revision")
@click.option("--only", help="Comma-separated rows to measure; without it, all rows.")
@click.option("--seconds", default=3.0, show_default=True, type=click.FloatRange(1, 120), help="Duration of a run.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 50), help="Number of pairs of each row.")
@click.option("--connections", default=16, show_default=True, type=click.IntRange(1, 60), help="Concurrent requests.")
def main(revision: str, only: str | None, seconds: float, rounds: int, connections: int) -> None:
    """Measure this tree against another revision."""
    exit_on_sigterm()
    console = Console(width=None if sys.stdout.isatty() else 120)
    load = Load(connections, seconds)
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stoa-compare-")))
            folder.chmod(0o711)
            old = stack.enter_context(checked_out(revision))
            trees = {"old": old, "new": ROOT}
            loading = [stack.enter_context(serving(tree, folder / name)) for name, tree in trees.items()]
            before, after = (each.service() for each in loading)
            shared = [name for name in after.target.requests if name in before.target.requests]
            names = only.split(",") if only else shared
            rows: dict[str, list[Pair]] = {}
            for name in names:
                rows[name] = take_turns(name, before, after, load, rounds)
                console.print(f"{name}: {', '.join(f'{pair.ratio:.2f} ({pair.cpu_ratio:.2f})' for pair in rows[name])}")
            console.print(table_of(revision, rows))
    except CannotMeasure as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
