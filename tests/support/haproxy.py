"""A real HAProxy with the configuration that `deploy` contains, in front of services of the tests."""

import csv
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest

from tests.support.service import PATIENCE_S, Service, free_port, until

HAPROXY = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
needs_haproxy = pytest.mark.skipif(not HAPROXY, reason="HAProxy is not installed; it is a package of Debian")
_DEPLOYED = Path(__file__).parents[2] / "deploy/compose/haproxy.cfg"


class HAProxy:
    """Balances services on this machine; as a context manager it runs, and knows that all of them are ready."""

    def __init__(self, folder: Path, nodes: Sequence[Service]) -> None:
        self._folder = folder
        self._nodes = nodes
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        file = self._folder / "haproxy.cfg"
        file.write_text(self._configuration())
        with (self._folder / "haproxy.log").open("ab") as log:
            self._process = subprocess.Popen([str(HAPROXY), "-db", "-f", str(file)], stdout=log, stderr=log)
        try:
            until(lambda: self._ended or self.all_up(), "the proxy knows that all nodes are ready")
            assert not self._ended, (self._folder / "haproxy.log").read_text()
        except AssertionError:
            self._process.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)

    @property
    def _ended(self) -> bool:
        return self._process.poll() is not None

    def all_up(self) -> bool:
        """Whether the checks of all nodes succeed."""
        states = self.states()
        return len(states) == len(self._nodes) and all(state == "L7OK" for state in states.values())

    def states(self) -> dict[str, str]:
        """The outcome of the last check of each node."""
        try:
            with socket.socket(socket.AF_UNIX) as asking:
                asking.connect(str(self._folder / "stats"))
                asking.sendall(b"show stat\n")
                text = b"".join(iter(lambda: asking.recv(65_536), b"")).decode()
        except OSError:  # it is starting
            return {}
        rows = csv.DictReader(text.removeprefix("# ").splitlines())
        return {row["svname"]: row["check_status"].removeprefix("* ") for row in rows if row["check_status"]}

    def _configuration(self) -> str:
        """The deployed configuration, with the addresses of the tests instead of the names of containers."""
        text = _DEPLOYED.read_text().partition("\nresolvers ")[0]
        text = text.replace("bind :8000", f"bind 127.0.0.1:{self._port}").replace(
            " resolvers docker init-addr libc,none", ""
        )
        text = text.replace("maxconn 10000", "maxconn 1000")  # without more open files than a test may have
        text = text.replace("global\n", f"global\n    stats socket {self._folder}/stats\n", 1)
        for number, node in enumerate(self._nodes, start=1):
            text, found = re.subn(rf"server api-{number} \S+", f"server api-{number} 127.0.0.1:{node.port}", text)
            assert found == 1
        return text
