"""Applies each mutation to a copy of the repository, and runs the tests that must catch it; exits with 1 if one survives."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import msgspec

from tests.mutants.mutation import ROOT, SOURCES, Mutation, NoLongerApplies, read_sources
from tests.mutants.mutations import MUTATIONS

LIMIT_S, CLEAN_LIMIT_S, STOP_S = 300, 1200, 30
_NOT_COPIED = shutil.ignore_patterns(".*", "node_modules", "artefacts")
_FAILED = re.compile(r"^FAILED (.+?)( - .*)?$", re.MULTILINE)


class Verdict(msgspec.Struct, frozen=True):
    """Whether a mutation was caught, and by which test, or what happened instead."""

    caught: bool
    words: str


def judge(code: int | None, output: str) -> Verdict:
    """The verdict on a run of pytest; None is a run that was stopped. Only a failed test catches a mutation: an error
    in the set-up of a test, or a test that takes too long, says nothing about the rule."""
    if code == 0:
        return Verdict(caught=False, words="SURVIVED")
    if code is None:
        return Verdict(caught=False, words="PROVES NOTHING: the run took too long")
    failed = _FAILED.search(output)
    if code != 1 or failed is None:
        return Verdict(caught=False, words="PROVES NOTHING: no test failed, but the run did")
    if "Timeout (>" in failed[0]:
        return Verdict(caught=False, words=f"PROVES NOTHING: {failed[1]} took too long")
    return Verdict(caught=True, words=f"caught by {failed[1]}")


def run_tests(folder: Path, *arguments: str, limit_s: float = LIMIT_S) -> tuple[int | None, str]:
    """Run tests in a copy of the repository; returns the exit code, or None after the time limit, and the output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # Processes that the tests start must also import the copy, not the package that is installed from the original.
    environment["PYTHONPATH"] = os.pathsep.join(str((folder / source).parent) for source in SOURCES)
    command = [sys.executable, "-m", "pytest", "-q", "-x", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # pytest then stops its database server
            try:
                output, _ = process.communicate(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                output, _ = process.communicate()
            return None, output
    return process.returncode, output


def try_mutation(clean: Path, number: int, mutation: Mutation, path: Path, content: str) -> bool:
    """Write the changed file of a mutation to its own copy, and report the verdict; returns whether it was caught."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stoa-mutant-", dir=clean.parent) as place:
        folder = shutil.copytree(clean, Path(place, "stoa"))
        (folder / path).write_text(content, encoding="utf-8")
        code, output = run_tests(folder, mutation.caught_by)
    verdict = judge(code, output)
    click.echo(f"{number:3}  {mutation.breaks}: {verdict.words} ({time.monotonic() - started:.0f} s)")
    if code != 0 and not verdict.caught:
        click.echo(output[-2000:])
    return verdict.caught


def picked(words: Sequence[str]) -> dict[int, Mutation]:
    """The mutations with these numbers, or with one of these words in their name; all without any."""
    numbered = dict(enumerate(MUTATIONS, start=1))
    return {
        number: mutation
        for number, mutation in numbered.items()
        if not words or any(word == str(number) or (not word.isdigit() and word in mutation.breaks) for word in words)
    }


@click.command()
@click.argument("words", nargs=-1)
@click.option("--jobs", default=2, show_default=True, help="Number of mutations at the same time.")
def mutants(words: tuple[str, ...], jobs: int) -> None:
    """Try the mutations with these numbers, or with one of these words in their name; by default all."""
    chosen, started = picked(words), time.monotonic()
    if not chosen:
        raise click.ClickException("no mutation has such a number or name")
    texts = read_sources()
    try:
        changes = [(number, mutation, *mutation.apply(texts)) for number, mutation in chosen.items()]
    except NoLongerApplies as error:
        raise click.ClickException(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="stoa-mutants-") as place:
        clean = shutil.copytree(ROOT, Path(place, "clean"), ignore=_NOT_COPIED)
        catchers = sorted({mutation.caught_by for mutation in chosen.values()})
        code, output = run_tests(clean, "-n", str(jobs), "--dist", "worksteal", *catchers, limit_s=CLEAN_LIMIT_S)
        if code != 0:
            click.echo(output[-5000:])
            raise click.ClickException("the tests fail without a mutation, so they prove nothing")
        click.echo(f"Without a mutation, all tests pass ({time.monotonic() - started:.0f} s).")
        with ThreadPoolExecutor(jobs) as pool:
            runs = [pool.submit(try_mutation, clean, *change) for change in changes]
            caught = [run.result() for run in runs]
    click.echo(f"{sum(caught)} of {len(caught)} mutations caught ({time.monotonic() - started:.0f} s)")
    sys.exit(not all(caught))


if __name__ == "__main__":
    mutants()
