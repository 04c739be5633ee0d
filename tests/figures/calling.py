"""Many callers at once: wrk with requests of several apps, each caller thinking for a moment before it asks again."""

import asyncio
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from tests.support.service import Account

_CALLERS_TO_A_THREAD = 200
_SCRIPT = Path(__file__).with_name("callers.lua")


class Asked(msgspec.Struct, frozen=True):
    """What came of so many requests."""

    seconds: float
    ok: int
    refused: int  # 429 and 503
    rude: int  # those of them that do not say when to come again
    other: int
    broken: int  # connections, not answers
    p50_ms: float
    p99_ms: float

    @property
    def good_per_s(self) -> float:
        return self.ok / self.seconds

    @property
    def asked_per_s(self) -> float:
        return (self.ok + self.refused + self.other) / self.seconds


class Line(msgspec.Struct, frozen=True):
    """One request that is sent again and again."""

    account: Account
    path: str
    method: str = "GET"
    body: str = ""

    def __str__(self) -> str:
        path = f"/stores/{self.account.handle}/api/v3/app{self.path}"
        return f"{self.method}\t{path}\t{self.account.token}\t{self.body}"


async def call(
    folder: Path, lines: Sequence[Line], *, callers: int, seconds: float, think_ms: float = 0, name: str = "callers"
) -> Asked:
    """So many callers for so long."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise click.ClickException("wrk is missing: install it with your system's package manager")
    file = folder / f"{name}.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    # wrk looks through all thoughts of a thread at each step: among very many, that would take most of a core.
    threads = 1 + callers // _CALLERS_TO_A_THREAD
    options = [f"-t{threads}", f"-c{callers}", f"-d{seconds:g}s", "--timeout", "30s", "-s", str(_SCRIPT)]
    origin = lines[0].account.service.url
    process = await asyncio.create_subprocess_exec(
        wrk, *options, origin, "--", str(file), str(think_ms), stdout=asyncio.subprocess.PIPE
    )
    output = (await process.communicate())[0].decode()
    found = re.search(r"^RESULT (\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)$", output, re.MULTILINE)
    if found is None:
        raise click.ClickException(f"wrk said nothing that can be read:\n{output}")
    duration, ok, refused, rude, other, broken, p50, p99 = map(int, found.groups())
    return Asked(duration / 1e6, ok, refused, rude, other, broken, p50 / 1000, p99 / 1000)
