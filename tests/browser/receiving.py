"""The receiver that the portal shows to newcomers, saved and started word for word as the page says."""

import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.service import until


@contextmanager
def running(code: str, line: str, folder: Path, port: int) -> Generator[Path]:
    """Paste both; answers the file that holds what the receiver prints."""
    (folder / "receiver.py").write_text(code)
    log = folder / "receiver.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["bash", "-c", line],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            until(lambda: _answers(port), "the receiver listens")
            yield log
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def _answers(port: int) -> bool:
    try:
        httpx.get(f"http://localhost:{port}/")
    except httpx.HTTPError:
        return False
    return True
