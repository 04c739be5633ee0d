"""Runs the example receiver of the portal exactly as the page describes."""

import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.service import until


@contextmanager
def running_receiver(code: str, command: str, folder: Path, port: int) -> Generator[Path]:
    """Save the code and run the command; yield the file with the receiver's output."""
    (folder / "receiver.py").write_text(code)
    log = folder / "receiver.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            until(lambda: _is_listening(port), "the receiver is listening")
            yield log
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def _is_listening(port: int) -> bool:
    try:
        httpx.get(f"http://localhost:{port}/")
    except httpx.HTTPError:
        return False
    return True
