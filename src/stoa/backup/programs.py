"""Runs PostgreSQL's client programs, such as pg_dump, and reports their errors."""

import asyncio
import os
import re
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import msgspec

from stoa.backup.archive import BackupRefused
from stoa.db.connection import connect
from stoa.db.embedded import MAJOR_VERSION, binary
from stoa.db.query import Query

CHUNK = 1 << 20
_BUNDLED = int(MAJOR_VERSION)


class Server(msgspec.Struct, frozen=True):
    """What the choice of a program depends on: the bundled ones have no TLS, and none reads a newer server."""

    major: int
    encrypted: bool


SERVER = Query(
    Server,
    """SELECT current_setting('server_version_num')::integer / 10000 AS major,
              coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS encrypted""",
    unbound="a server holds every store",
)


async def server_of(url: str) -> Server:
    """The server behind a URL, and whether connections to it are encrypted."""
    db = await connect(url, timeout_s=10)
    try:
        return await SERVER.one(db)
    finally:
        await db.close()


async def _program(name: str, *, major: int, tls: bool) -> Path:
    """The bundled program wherever it can do the work, because every installation has the same; else the system's."""
    if not tls and major <= _BUNDLED:
        return binary(name)
    found = shutil.which(name)
    if found is None or await _major_of(found) < major:
        reason = f"PostgreSQL {major}" if major > _BUNDLED else "an encrypted connection"
        version = f" of version {major} or newer" if major > _BUNDLED else ""
        raise BackupRefused(f"the bundled {name} does not support {reason}: install PostgreSQL's {name}{version}")
    return Path(found)


async def _major_of(program: str) -> int:
    process = await asyncio.create_subprocess_exec(program, "--version", stdout=PIPE)
    shown, _ = await process.communicate()
    number = re.search(rb"\) (\d+)", shown)
    return int(number[1]) if number else 0


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


async def start_dump(url: str, options: Sequence[str]) -> Process:
    """Run pg_dump, which must not be older than the server."""
    server = await server_of(url)
    return await _start(await _program("pg_dump", major=server.major, tls=server.encrypted), url, options)


async def start_script(url: str, server: Server, options: Sequence[str]) -> Process:
    """Run psql, of which every version works with every server."""
    return await _start(await _program("psql", major=0, tls=server.encrypted), url, options)


async def start_reading(major: int, options: Sequence[str]) -> Process:
    """Run pg_restore without a connection, on a dump of a server of this version."""
    program = await _program("pg_restore", major=major, tls=False)
    return await asyncio.create_subprocess_exec(program, *options, stdin=PIPE, stdout=PIPE, stderr=PIPE)


async def _start(program: Path, url: str, options: Sequence[str]) -> Process:
    address, environment = _connection(url)
    return await asyncio.create_subprocess_exec(
        program, *options, f"--dbname={address}", stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment
    )


async def check_exit(process: Process, failure: str, errors: bytes) -> None:
    """Wait for the program to exit; a failure is raised with the first line of its error output."""
    if await process.wait():
        lines = errors.decode(errors="replace").strip().splitlines()
        raise BackupRefused(f"{failure}: {lines[0] if lines else f'exit code {process.returncode}'}")
