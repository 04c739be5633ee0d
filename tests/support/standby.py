"""A primary and a standby of Debian's PostgreSQL, on loopback: their loss, and the promotion of the standby."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from signal import SIGINT, SIGKILL
from typing import Self

import pytest

from tests.support.service import PATIENCE_S, free_port, until

DEBIAN = Path("/usr/lib/postgresql/15/bin")
needs_standby = pytest.mark.skipif(
    not (DEBIAN / "pg_basebackup").exists(), reason="needs the Debian package postgresql-15, for a real standby"
)


class Pair:
    """Two servers. If they are synchronous, a commit returns only after the standby has written it."""

    def __init__(self, folder: Path, *, synchronous: bool = True, settings: Sequence[str] = ()) -> None:
        self._folder = folder
        self._synchronous = synchronous
        self._settings = settings
        self._user = "nobody" if os.geteuid() == 0 else None
        self._ports = free_port(), free_port()
        self._servers: dict[int, subprocess.Popen[bytes]] = {}
        self.primary_url, self.standby_url = (f"postgresql://stoa@127.0.0.1:{port}/postgres" for port in self._ports)
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        self.url = f"postgresql://stoa@{hosts}/postgres?target_session_attrs=read-write"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o755)
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        primary, standby = self._ports
        options = ("-U", "stoa", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        self._run("initdb", "-D", self._data(primary), *options)
        self._start(primary, *(["synchronous_standby_names=standby"] if self._synchronous else []))
        source = f"host=127.0.0.1 port={primary} user=stoa application_name=standby"
        # Until the standby is connected, every commit would wait for it.
        self._run(
            "pg_basebackup", "-D", self._data(standby), "-d", source, "-R", "-X", "stream", "--no-sync", "-c", "fast"
        )
        self._start(standby)
        state = "sync" if self._synchronous else "async"
        follows = f"SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '{state}'"
        until(lambda: self._ask(primary, follows) == "1", "the standby follows")
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.send_signal(SIGINT)
        for server in self._servers.values():
            server.wait(PATIENCE_S)

    def lose_primary(self) -> None:
        """kill -9 of the primary and of all its processes."""
        self._lose(self._ports[0])

    def lose_standby(self) -> None:
        """kill -9 of the standby and of all its processes."""
        self._lose(self._ports[1])

    def start_standby(self) -> None:
        self._start(self._ports[1])

    def primary_processes(self) -> list[int]:
        """The process ids of the primary and of its children."""
        pid = self._servers[self._ports[0]].pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def _lose(self, port: int) -> None:
        server = self._servers[port]
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        for pid in (server.pid, *map(int, children)):
            os.kill(pid, SIGKILL)
        server.wait(PATIENCE_S)

    def promote(self) -> None:
        """Make the standby the primary. It has no standby of its own, so commits must not wait for one."""
        standby = self._ports[1]
        self._run("pg_ctl", "promote", "-D", self._data(standby), "-w")

    def ask_primary(self, sql: str) -> str:
        return self._ask(self._ports[0], sql)

    def ask_standby(self, sql: str) -> str:
        return self._ask(self._ports[1], sql)

    def _ask(self, port: int, sql: str) -> str:
        command = [
            DEBIAN / "psql",
            "-XAtq",
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
            "-U",
            "stoa",
            "-d",
            "postgres",
            "-c",
            sql,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S).stdout.strip()

    def _data(self, port: int) -> Path:
        return self._folder / str(port)

    def _run(self, program: str, *words: object) -> None:
        command = [DEBIAN / program, *map(str, words)]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False, user=self._user)
        assert done.returncode == 0, done.stderr

    def _start(self, port: int, *more: str) -> None:
        # kill -9 loses nothing that was written, so the tests need not wait for a busy disk.
        common = (f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self._folder}", "fsync=off")
        settings = (*common, "max_connections=200", *self._settings, *more)  # a standby needs as many as its primary
        command = [DEBIAN / "postgres", "-D", self._data(port), *(f"-c{setting}" for setting in settings)]
        with (self._folder / f"{port}.log").open("wb") as log:
            server = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, user=self._user)
        self._servers[port] = server
        until(lambda: self._ask(port, "SELECT 1") == "1", "the server accepts connections")
