"""Runs PostgreSQL's client programs, such as pg_dump, and reports their errors."""

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
    """The system's program for a remote server, if installed, because the embedded ones have no TLS."""
    found = None if "?host=/" in url else shutil.which(name)
    return Path(found) if found else binary(name)


def _connection(url: str) -> tuple[str, dict[str, str]]:
    """The URL without its password, which a command line would reveal, and the environment that passes it."""
    parts = urlsplit(url)
    environment = {**os.environ, "PGAPPNAME": "stoa backup"}
    if parts.password is None:
        return url, environment
    user = quote(parts.username or "", safe="%")
    hosts = parts.netloc.rpartition("@")[2]
    environment["PGPASSWORD"] = unquote(parts.password)
    return urlunsplit(parts._replace(netloc=f"{user}@{hosts}")), environment


async def start(name: str, url: str, options: Sequence[str]) -> Process:
    """Run a program on a database, with pipes for its input and output."""
    address, environment = _connection(url)
    return await asyncio.create_subprocess_exec(
        _program(name, url), *options, f"--dbname={address}", stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment
    )


async def start_offline(name: str, url: str, options: Sequence[str]) -> Process:
    """Run a program that needs no database connection."""
    return await asyncio.create_subprocess_exec(_program(name, url), *options, stdin=PIPE, stdout=PIPE, stderr=PIPE)


async def check_exit(process: Process, failure: str, errors: bytes) -> None:
    """Wait for the program to exit; a failure is raised with the first line of its error output."""
    if await process.wait():
        lines = errors.decode(errors="replace").strip().splitlines()
        raise BackupRefused(f"{failure}: {lines[0] if lines else f'exit code {process.returncode}'}")
