"""A real PgBouncer in transaction mode, in front of a server of the tests."""

import os
import re
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.service import free_port, until

PGBOUNCER = os.environ.get("PGBOUNCER") or shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
# It comes as a package of the system (`apt-get install pgbouncer`), which .ci/run installs.
needs_pgbouncer = pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")


def keeps_prepared_statements() -> bool:
    """PgBouncer manages prepared statements since version 1.21."""
    output = subprocess.run([str(PGBOUNCER), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)", output)
    assert found is not None
    return (int(found[1]), int(found[2])) >= (1, 21)


class PgBouncer:
    """Shares a few server connections among any number of clients; each transaction may get another one."""

    def __init__(self, folder: Path, server_url: str, *, connections: int = 6, ignored: str = "") -> None:
        parts = urlsplit(server_url)
        options = parse_qs(parts.query)
        database = parts.path.lstrip("/")
        self.port = free_port()
        self.url = f"postgresql://{parts.username}@127.0.0.1:{self.port}/{database}"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        users, self._config, self._log = folder / "users.txt", folder / "pgbouncer.ini", folder / "pgbouncer.log"
        users.write_text(f'"{parts.username}" ""\n')
        host, port = options.get("host", [parts.hostname])[0], options.get("port", [parts.port or 5432])[0]
        prepared = "max_prepared_statements = 200\n" if keeps_prepared_statements() else ""
        self._config.write_text(
            f"[databases]\n{database} = host={host} port={port} dbname={database}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {users}\npool_mode = transaction\ndefault_pool_size = {connections}\n"
            f"max_client_conn = 500\nserver_reset_query =\nignore_startup_parameters = {ignored}\n{prepared}"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        as_nobody = ["-u", "nobody"] if os.geteuid() == 0 else []
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(PGBOUNCER), *as_nobody, str(self._config)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        until(self._accepts, "PgBouncer accepts connections")

    def stop(self) -> None:
        """Kill it: every client loses its connection, and transactions in progress are rolled back."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _accepts(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False
