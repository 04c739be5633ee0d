"""Concurrent callers: wrk with requests of several apps, with a pause of each caller between requests."""

import asyncio
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from tests.support.service import Account

_CALLERS_PER_THREAD = 200
_SCRIPT = Path(__file__).with_name("callers.lua")


class Outcome(msgspec.Struct, frozen=True):
    """The results of a run."""

    seconds: float
    ok: int
    refused: int  # 429 and 503
    rude: int  # refused without Retry-After
    other: int
    broken: int  # failed connections
    p50_ms: float
    p99_ms: float

    @property
    def good_per_s(self) -> float:
        return self.ok / self.seconds

    @property
    def requests_per_s(self) -> float:
        return (self.ok + self.refused + self.other) / self.seconds


class Line(msgspec.Struct, frozen=True):
    """One repeated request."""

    account: Account
    path: str
    method: str = "GET"
    body: str = ""

    def __str__(self) -> str:
        path = f"/stores/{self.account.handle}/api/v3/app{self.path}"
        return f"{self.method}\t{path}\t{self.account.token}\t{self.body}"


async def call(
    folder: Path, lines: Sequence[Line], *, callers: int, seconds: float, think_ms: float = 0, name: str = "callers"
) -> Outcome:
    """Run a number of concurrent callers for a number of seconds."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise click.ClickException("wrk is missing: install it with your package manager")
    file = folder / f"{name}.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    # wrk scans all pending pauses of a thread at each step; with very many, that would take most of a core.
    threads = 1 + callers // _CALLERS_PER_THREAD
    options = [f"-t{threads}", f"-c{callers}", f"-d{seconds:g}s", "--timeout", "30s", "-s", str(_SCRIPT)]
    origin = lines[0].account.service.url
    process = await asyncio.create_subprocess_exec(
        wrk, *options, origin, "--", str(file), str(think_ms), stdout=asyncio.subprocess.PIPE
    )
    try:
        output = (await process.communicate())[0].decode()
    finally:
        if process.returncode is None:  # the scenario ends early
            process.kill()
            await process.wait()
    found = re.search(r"^RESULT (\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)$", output, re.MULTILINE)
    if found is None:
        raise click.ClickException(f"the output of wrk is unreadable:\n{output}")
    duration, ok, refused, rude, other, broken, p50, p99 = map(int, found.groups())
    return Outcome(duration / 1e6, ok, refused, rude, other, broken, p50 / 1000, p99 / 1000)
