"""Runs the suite several times beside processes that keep the cores busy, and names each test that failed in any of the runs."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click

from tests.support.termination import exit_on_sigterm

ROOT = Path(__file__).parents[1]
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)
# A loop ends by itself when the process that started it is gone.
BUSY = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def busy_loops(count: int) -> Generator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]) for _ in range(count)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def run(number: int, folder: Path, arguments: tuple[str, ...]) -> set[str]:
    """Run the suite once; returns the tests that failed or had an error."""
    with (folder / f"{number}.log").open("w+", encoding="utf-8") as log:
        command = [sys.executable, "-m", "pytest", "-q", *arguments]
        # In a session of its own, so that Ctrl-C reaches it once, from here: a second one would keep it from stopping its server.
        pytest = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = pytest.wait()
        except BaseException:
            pytest.send_signal(signal.SIGINT)
            pytest.wait()
            raise
        log.seek(0)
        output = log.read()
    failed = set(FAILED.findall(output))
    if code not in (0, 1) or (code and not failed):
        raise click.ClickException(f"pytest ended with {code}: see {log.name}")
    summary = output.rstrip().rpartition("\n")[2].strip("= ")
    click.echo(f"run {number}: {summary}")
    return failed


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--runs", default=20, show_default=True)
@click.option("--loops", default=os.cpu_count() or 1, show_default=True, help="Processes that keep a core busy.")
@click.option(
    "--artefacts", default=ROOT / "artefacts" / "stress", type=click.Path(path_type=Path), help="Reports and logs."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def stress(runs: int, loops: int, artefacts: Path, arguments: tuple[str, ...]) -> None:
    """Run pytest with ARGUMENTS several times; exits with 1 if a test failed in one of the runs."""
    artefacts.mkdir(parents=True, exist_ok=True)
    failures, done = Counter[str](), 0
    try:
        with busy_loops(loops):
            while done < runs:
                failures.update(run(done + 1, artefacts, arguments))
                done += 1
    finally:  # also if somebody ends it early
        for name, count in failures.most_common():
            click.echo(f"failed in {count} of {done} runs: {name}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    exit_on_sigterm()
    stress()
