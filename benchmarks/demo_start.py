"""Measures the time from starting the demo to its first list of products, on a new and on a used data folder."""

import shlex
import sys
import time
from pathlib import Path

import httpx

from benchmarks.drive import CannotMeasure
from benchmarks.services import free_port, running

_PATIENCE_S = 60


def seconds_to_first_answer(folder: Path) -> float:
    """Start the demo on this data folder, request products until they arrive, and stop it."""
    settings = {"STOA_DATA_DIR": str(folder / "demo"), "STOA_METRICS": "off"}
    command = [sys.executable, "-m", "stoa", "demo", "--port", str(free_port())]
    started = time.monotonic()
    with running(command, settings, folder / "demo.log"):
        while time.monotonic() < started + _PATIENCE_S:
            if _answers(folder / "demo" / "demo.env", since=started):
                return time.monotonic() - started
            time.sleep(0.02)
        raise CannotMeasure(f"the demo did not respond within {_PATIENCE_S} s")


def _answers(file: Path, since: float) -> bool:
    try:
        # A used folder contains the file of the previous run, with another port.
        if time.time() - file.stat().st_mtime > time.monotonic() - since:
            return False
        lines = (line.removeprefix("export ") for line in shlex.split(file.read_text()) if line != "export")
        given = {name: value for name, _, value in (line.partition("=") for line in lines)}
        with httpx.Client(timeout=5) as client:
            token = client.post(
                given["STOA_AUTH_URL"],
                data={"grant_type": "client_credentials"},
                auth=(given["STOA_CLIENT_ID"], given["STOA_CLIENT_SECRET"]),
            ).json()["access_token"]
            address = f"{given['STOA_BASE_URL']}/api/v3/app/products"
            return bool(client.get(address, headers={"Authorization": f"Bearer {token}"}).json()["data"])
    except (OSError, KeyError, ValueError, httpx.HTTPError):
        return False
