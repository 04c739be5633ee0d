"""Generates load: wrk against a service, pgbench against the database."""

import os
import re
import secrets
import shutil
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from stoa.db.embedded import binary

_SCRIPT = Path(__file__).with_name("requests.lua")
_PATIENCE_S = 60
NUMBER = "909090909090909090"  # a placeholder for a number that is unique to each request


class CannotMeasure(Exception):
    """A measurement failed; the message says what to do."""


class TooFew(CannotMeasure):
    """A run ended with too few responses to say anything."""


class Request(msgspec.Struct, frozen=True):
    """A repeated request. `%d` in path and body becomes an id between first and last, the same in both, `%e` and `%f`
    two others, and NUMBER in body and headers a different number each time."""

    path: str
    method: str = "GET"
    first_id: int = 0
    last_id: int = 0
    headers: Mapping[str, str] = {}
    body: str = ""

    def text(self, template: str, number: str = NUMBER) -> str:
        """A path, header or body with its placeholders filled in."""
        third = (self.last_id - self.first_id + 1) // 3
        for index, name in enumerate(("%d", "%e", "%f")):
            template = template.replace(name, str(self.first_id + index * third))
        return template.replace(NUMBER, number)


class Target(msgspec.Struct, frozen=True):
    """A running service and the requests that it is measured by."""

    origin: str
    requests: Mapping[str, Request]


class Script(msgspec.Struct, frozen=True):
    """A pgbench script and its variables; pgbench sends variables to the server as parameters."""

    text: str
    variables: Mapping[str, str] = {}


class Load(msgspec.Struct, frozen=True):
    """The concurrency and duration of a run."""

    connections: int
    seconds: float


class Figures(msgspec.Struct, frozen=True):
    """The result of one run, or the median of several; pgbench reports no percentiles without slowing down."""

    per_second: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    response_bytes: float | None = None  # of a response, with its headers
    # CPU time for one request: of the service with its background workers, and of the database server.
    service_us: float | None = None
    database_us: float | None = None


def median(runs: Sequence[Figures]) -> Figures:
    def of(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    return Figures(
        statistics.median(run.per_second for run in runs),
        of([run.p50_ms for run in runs]),
        of([run.p99_ms for run in runs]),
        of([run.response_bytes for run in runs]),
        of([run.service_us for run in runs]),
        of([run.database_us for run in runs]),
    )


def find_wrk() -> str:
    """The path of wrk; it is installed if it is missing and we are root."""
    if shutil.which("wrk") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "--yes", "--quiet", "wrk"], check=False, timeout=300)
    found = shutil.which("wrk")
    if found is None:
        raise CannotMeasure("wrk is missing: install it with your package manager, for example apt-get install wrk")
    return found


def drive_http(origin: str, request: Request, load: Load) -> Figures:
    """One run of wrk; a refused request invalidates the run."""
    headers = [part for name, value in request.headers.items() for part in ("-H", f"{name}: {value}")]
    ids = [str(request.first_id), str(request.last_id)]
    # Reads use the same ids in each run; writes must not repeat those of an earlier run.
    seed = "7" if request.method == "GET" else str(secrets.randbelow(2**31))
    command = [
        find_wrk(),
        "-t1",
        "--timeout",
        "120s",
        f"-c{load.connections}",
        f"-d{load.seconds:g}s",
        "-s",
        str(_SCRIPT),
        *headers,
        origin,
    ]
    output = _run([*command, "--", request.method, request.path, *ids, request.body, NUMBER, seed], load)
    result = re.search(r"^RESULT (\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)$", output, re.MULTILINE)
    if result is None:
        raise CannotMeasure(f"the output of wrk is unreadable:\n{output}")
    requests, size, microseconds, p50, p99, refused, broken = map(int, result.groups())
    if refused or broken or not requests:
        raise (CannotMeasure if refused or broken else TooFew)(
            f"{origin}{request.path}: of {requests} requests, {refused} were refused and {broken} failed"
        )
    return Figures(requests / microseconds * 1e6, p50 / 1000, p99 / 1000, size / requests)


def drive_database(dsn: str, script: Script, folder: Path, load: Load) -> Figures:
    """One run of pgbench with prepared statements, which the service uses too."""
    file = folder / "limit.sql"
    file.write_text(script.text)
    seconds = str(max(1, round(load.seconds)))
    options = ["-n", "-M", "prepared", "-c", str(load.connections), "-j", "1", "-T", seconds, "-f", str(file)]
    given = [part for name, value in script.variables.items() for part in ("-D", f"{name}={value}")]
    output = _run([str(binary("pgbench")), *options, *given, dsn], load)
    per_second = re.search(r"^tps = ([\d.]+)", output, re.MULTILINE)
    failed = re.search(r"^number of failed transactions: (\d+)", output, re.MULTILINE)
    if per_second is None or failed is None or failed[1] != "0":
        raise CannotMeasure(f"pgbench failed:\n{output}")
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
    """A pgbench script of the service's statements, with each parameter replaced by its value."""
    lines = [choose] if choose else []
    for sql, values in statements:
        text = re.sub(r"\$(\d+)", lambda number, given=values: given[int(number[1]) - 1], sql)
        lines.append(" ".join(text.split("\n")) + ";")
    return "\n".join(lines) + "\n"
