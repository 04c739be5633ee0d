"""Drives load: wrk against a service, pgbench against the database, for a given time at a given concurrency."""

import os
import re
import shutil
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from stoa.db.embedded import binary

_SCRIPT = Path(__file__).with_name("requests.lua")
_PATIENCE_S = 60


class CannotMeasure(Exception):
    """A figure could not be taken; the message says what to do."""


class Request(msgspec.Struct, frozen=True):
    """What is asked for again and again; `%d` in the path becomes an id between first and last."""

    path: str
    method: str = "GET"
    first_id: int = 0
    last_id: int = 0
    headers: Mapping[str, str] = {}
    body: str = ""


class Load(msgspec.Struct, frozen=True):
    """How hard and how long to drive."""

    connections: int
    seconds: float


class Figures(msgspec.Struct, frozen=True):
    """One run, or the median of several; pgbench knows no percentiles without slowing down."""

    per_second: float
    p50_ms: float | None = None
    p99_ms: float | None = None


def median(runs: Sequence[Figures]) -> Figures:
    def of(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    return Figures(
        statistics.median(run.per_second for run in runs),
        of([run.p50_ms for run in runs]),
        of([run.p99_ms for run in runs]),
    )


def find_wrk() -> str:
    """Where wrk is; installed when it is missing and we may."""
    if shutil.which("wrk") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "--yes", "--quiet", "wrk"], check=False, timeout=300)
    found = shutil.which("wrk")
    if found is None:
        raise CannotMeasure(
            "wrk is missing: install it with your system's package manager, such as apt-get install wrk"
        )
    return found


def drive_http(origin: str, request: Request, load: Load) -> Figures:
    """One run of wrk; a refused request makes the run worthless, so it is an error."""
    headers = [part for name, value in request.headers.items() for part in ("-H", f"{name}: {value}")]
    ids = [str(request.first_id), str(request.last_id)]
    command = [
        find_wrk(),
        "-t1",
        "--timeout",
        "30s",
        f"-c{load.connections}",
        f"-d{load.seconds:g}s",
        "-s",
        str(_SCRIPT),
        *headers,
        origin,
    ]
    output = _run([*command, "--", request.method, request.path, *ids, request.body], load)
    result = re.search(r"^RESULT (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)$", output, re.MULTILINE)
    if result is None:
        raise CannotMeasure(f"wrk said nothing that can be read:\n{output}")
    requests, microseconds, p50, p99, refused, broken = map(int, result.groups())
    if refused or broken or not requests:
        raise CannotMeasure(f"{request.path}: of {requests} requests {refused} were refused, {broken} broke off")
    return Figures(requests / microseconds * 1e6, p50 / 1000, p99 / 1000)


def drive_database(dsn: str, script: Path, load: Load) -> Figures:
    """One run of pgbench with prepared statements, as the service has them."""
    seconds = str(max(1, round(load.seconds)))
    options = ["-n", "-M", "prepared", "-c", str(load.connections), "-j", "1", "-T", seconds, "-f", str(script)]
    output = _run([str(binary("pgbench")), *options, dsn], load)
    per_second = re.search(r"^tps = ([\d.]+)", output, re.MULTILINE)
    failed = re.search(r"^number of failed transactions: (\d+)", output, re.MULTILINE)
    if per_second is None or failed is None or failed[1] != "0":
        raise CannotMeasure(f"pgbench did not run well:\n{output}")
    return Figures(float(per_second[1]))


def _run(command: Sequence[str], load: Load) -> str:
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=load.seconds + _PATIENCE_S,
    )
    if done.returncode:
        raise CannotMeasure(f"{Path(command[0]).name} failed:\n{done.stdout[-2000:]}")
    return done.stdout


def as_script(*statements: tuple[str, Sequence[str]], choose: str = "") -> str:
    """A pgbench script of the service's own statements, each parameter replaced by what is given for it."""
    lines = [choose] if choose else []
    for sql, values in statements:
        text = re.sub(r"\$(\d+)", lambda number, given=values: given[int(number[1]) - 1], sql)
        lines.append(" ".join(text.split("\n")) + ";")
    return "\n".join(lines) + "\n"
