"""PostgreSQL's own programs: which to run, how to tell them where the database is, and how they say what went wrong."""

import asyncio
import os
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from stoa.backup.archive import BackupRefused
from stoa.db.embedded import binary

CHUNK = 1 << 20


def _program(name: str, url: str) -> Path:
    """For a server elsewhere those of the system, if there are any: ours speak no TLS."""
    found = None if "?host=/" in url else shutil.which(name)
    return Path(found) if found else binary(name)


def _reached(url: str) -> tuple[str, dict[str, str]]:
    """The address without its password, which a command line would show to everybody, and the environment that holds it."""
    parts = urlsplit(url)
    environment = {**os.environ, "PGAPPNAME": "stoa backup"}
    if parts.password is None:
        return url, environment
    user = quote(parts.username or "", safe="%")
    hosts = parts.netloc.rpartition("@")[2]
    environment["PGPASSWORD"] = unquote(parts.password)
    return urlunsplit(parts._replace(netloc=f"{user}@{hosts}")), environment


async def start(name: str, url: str, options: Sequence[str]) -> Process:
    """Run a program on a database, its input and output in our hands."""
    address, environment = _reached(url)
    return await asyncio.create_subprocess_exec(
        _program(name, url), *options, f"--dbname={address}", stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment
    )


async def start_alone(name: str, url: str, options: Sequence[str]) -> Process:
    """Run a program of the same family that needs no database."""
    return await asyncio.create_subprocess_exec(_program(name, url), *options, stdin=PIPE, stdout=PIPE, stderr=PIPE)


async def told(process: Process, what: str, errors: bytes) -> None:
    """Wait for its end; anything but success is a refusal in its own last words."""
    if await process.wait():
        words = errors.decode(errors="replace").strip().splitlines()
        raise BackupRefused(f"{what}: {words[0] if words else f'exit code {process.returncode}'}")
