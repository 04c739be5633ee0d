"""`make faults` reports each measurement, also one that fails, and ends what it started."""

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from signal import SIGTERM

import click
import pytest
from click.testing import CliRunner

from tests.figures import __main__ as program
from tests.figures.calling import Line, call
from tests.support.service import Account, Service, children

TERMINATED = """
import os, signal
from tests.support.termination import exit_on_sigterm

exit_on_sigterm()
try:
    os.kill(os.getpid(), signal.SIGTERM)
finally:
    os.kill(os.getpid(), signal.SIGTERM)
    print("stopped everything")
"""


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """One measurement meets its target, one misses it, and one fails."""

    async def keep() -> None:
        """The databases of the other tests stay."""

    async def meets(_: Path) -> bool:
        click.echo("  a step")
        click.echo("filters: 1 ms")
        return True

    async def misses(_: Path) -> bool:
        click.echo("moving: 121 s")
        return False

    async def fails(_: Path) -> bool:
        raise AssertionError("the service is ready")

    monkeypatch.setattr(program, "drop_made", keep)
    for name, figure in {"filter_much": meets, "move": misses, "fail_over": fails}.items():
        monkeypatch.setattr(program, name, figure)


@pytest.mark.usefixtures("measured")
def test_each_measurement_is_reported_with_its_target(tmp_path: Path) -> None:
    file = tmp_path / "reliability.md"
    outcome = CliRunner().invoke(program.figures, ["failover", "moving", "filters", "--record", str(file)])
    rows = [
        "| failover | outage of at most 15 s, nothing lost | ended with AssertionError: the service is ready | **no** |",
        "| moving | less than two minutes, nothing differs | 121 s | **no** |",
        "| filters | the longest delay grows by at most 100 ms | 1 ms | yes |",
    ]
    assert [line for line in file.read_text().splitlines() if line in rows] == rows
    assert outcome.stdout.splitlines()[-1] == "Targets missed: failover, moving"
    assert outcome.exit_code == 1


@pytest.mark.usefixtures("measured")
def test_a_run_that_meets_its_targets_succeeds() -> None:
    assert CliRunner().invoke(program.figures, ["filters"]).exit_code == 0


def test_each_measurement_has_a_target() -> None:
    outcome = CliRunner().invoke(program.figures, ["unknown"])
    named = outcome.output.partition("choose from ")[2].strip().split(", ")
    assert {*program.TARGETS, *program.TOGETHER} == set(named)


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is missing")
async def test_callers_end_with_the_measurement(tmp_path: Path) -> None:
    reached = asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    async with await asyncio.start_server(never_answer, "127.0.0.1") as server:
        service = Service(tmp_path)
        service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        lines = [Line(Account(service, "shop", "", "", ""), "/products")]
        calling = asyncio.create_task(call(tmp_path, lines, callers=1, seconds=600))
        await reached.wait()
        assert children(os.getpid(), b"wrk")
        calling.cancel()
        await asyncio.wait({calling})
        assert not children(os.getpid(), b"wrk")


def test_a_terminated_program_stops_everything() -> None:
    done = subprocess.run([sys.executable, "-c", TERMINATED], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (128 + SIGTERM, "stopped everything\n")


class Late(Service):
    """A service that is not ready in time."""

    def start(self) -> None:
        self.launch()
        raise AssertionError("not within 60 s: the service is ready")


def test_a_service_that_is_not_ready_in_time_is_stopped(tmp_path: Path) -> None:
    service = Late(tmp_path, command=[sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        with pytest.raises(AssertionError, match="not within"), service:
            pass
        assert service.ended
    finally:
        service.close()
