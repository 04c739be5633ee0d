"""A primary and a synchronous standby of Debian's PostgreSQL, on loopback, and the promotion of the standby."""

import os
import shutil
import subprocess
from pathlib import Path
from signal import SIGINT, SIGKILL
from typing import Self

from tests.support.service import PATIENCE_S, free_port, until

DEBIAN = Path("/usr/lib/postgresql/15/bin")


class Pair:
    """Two servers. A commit returns only after the standby has written it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._user = "nobody" if os.geteuid() == 0 else None
        self._ports = free_port(), free_port()
        self._servers: list[subprocess.Popen[bytes]] = []
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
        self._start(primary, "synchronous_standby_names=standby")
        source = f"host=127.0.0.1 port={primary} user=stoa application_name=standby"
        # Until the standby is connected, every commit would wait for it.
        self._run(
            "pg_basebackup", "-D", self._data(standby), "-d", source, "-R", "-X", "stream", "--no-sync", "-c", "fast"
        )
        self._start(standby)
        in_sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        until(lambda: self.ask(primary, in_sync) == "1", "the standby follows")
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.send_signal(SIGINT)
        for server in self._servers:
            server.wait(PATIENCE_S)

    def lose_primary(self) -> None:
        """kill -9 of the primary and of all its processes."""
        server = self._servers[0]
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        for pid in (server.pid, *map(int, children)):
            os.kill(pid, SIGKILL)
        server.wait(PATIENCE_S)

    def promote(self) -> None:
        """Make the standby the primary. It has no standby of its own, so commits must not wait for one."""
        standby = self._ports[1]
        self._run("pg_ctl", "promote", "-D", self._data(standby), "-w")

    def ask(self, port: int, sql: str) -> str:
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
        settings = (*common, *more)
        command = [DEBIAN / "postgres", "-D", self._data(port), *(f"-c{setting}" for setting in settings)]
        with (self._folder / f"{port}.log").open("wb") as log:
            server = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, user=self._user)
        self._servers.append(server)
        until(lambda: self.ask(port, "SELECT 1") == "1", "the server accepts connections")
