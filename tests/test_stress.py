"""`make stress` names the tests that failed in any of its runs, and leaves no busy process behind."""

import subprocess
import sys
from pathlib import Path
from signal import SIGTERM

from click.testing import CliRunner

from tests import stress
from tests.support.service import until

SOMETIMES = """
from pathlib import Path

def test_steady():
    pass

def test_first_try(tmp_path_factory):
    marker = Path(__file__).with_name("marker")
    first = not marker.exists()
    marker.touch()
    assert not first
"""

ENDLESS = """
from pathlib import Path
from time import sleep

def test_endless():
    try:
        Path(__file__).with_name("begun").touch()
        sleep(600)
    finally:
        Path(__file__).with_name("ended").touch()
"""


def test_a_test_that_fails_in_one_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_sometimes.py").write_text(SOMETIMES)
    arguments = ["--runs", "2", "--loops", "0", "--artefacts", str(tmp_path / "artefacts"), "-p", "no:cacheprovider"]
    outcome = CliRunner().invoke(stress.stress, [*arguments, str(tmp_path)])
    lines = outcome.output.splitlines()
    assert lines[0].startswith("run 1: 1 failed, 1 passed in ")
    assert lines[1].startswith("run 2: 2 passed in ")
    [name] = lines[2:]
    assert name.startswith("failed in 1 of 2 runs: ")
    assert name.endswith("/test_sometimes.py::test_first_try")
    assert outcome.exit_code == 1


def test_a_run_without_tests_is_refused(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(
        stress.stress, ["--runs", "1", "--loops", "0", "--artefacts", str(tmp_path), str(tmp_path)]
    )
    assert outcome.exit_code == 1
    assert "pytest ended with 5" in outcome.output


def test_a_run_that_is_terminated_ends_its_suite(tmp_path: Path) -> None:
    (tmp_path / "test_endless.py").write_text(ENDLESS)
    arguments = ["--runs", "1", "--loops", "0", "--artefacts", str(tmp_path / "artefacts"), str(tmp_path)]
    with subprocess.Popen([sys.executable, "-m", "tests.stress", *arguments], cwd=stress.ROOT) as running:
        try:
            until((tmp_path / "begun").exists, "the test has begun")
        finally:
            running.terminate()
    assert running.returncode == 128 + SIGTERM
    assert (tmp_path / "ended").exists()


def test_a_loop_ends_with_the_process_that_started_it() -> None:
    starter = "import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1], str(os.getpid())])"
    # The loop has the pipe of the output open, too, so `run` returns when both have ended.
    subprocess.run([sys.executable, "-c", starter, stress.BUSY], capture_output=True, check=True, timeout=60)
