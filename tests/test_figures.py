"""`make faults` ends what it started."""

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from signal import SIGTERM

import pytest

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
