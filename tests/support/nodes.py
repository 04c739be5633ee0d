"""The nodes of a Citus cluster on this machine: they can be killed and started again."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL
from typing import Self

import msgspec

from stoa.db.connection import connect
from tests.support.databases import at_node
from tests.support.service import PATIENCE_S, until


class Node(msgspec.Struct, frozen=True):
    """A running PostgreSQL server of this machine."""

    name: str
    url: str
    data: Path
    program: Path

    @classmethod
    async def of(cls, url: str, name: str) -> Self:
        db = await connect(url)
        try:
            data = Path((await db.fetch("SHOW data_directory"))[0][0])
        finally:
            await db.close()
        return cls(name, url, data, Path(f"/proc/{_postmaster(data)}/exe").resolve())

    def pids(self) -> list[int]:
        """The server process and its children."""
        parent = _postmaster(self.data)
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return [parent, *map(int, children)]

    def kill(self) -> None:
        """kill -9 of the server and of all its processes, as a loss of the machine does."""
        pids = self.pids()
        for pid in pids:
            os.kill(pid, SIGKILL)
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the node is gone", seconds=PATIENCE_S)

    def start(self) -> None:
        owner = self.data.stat().st_uid
        log = self.data.parent / f"{self.data.name}-restarted.log"
        command = [self.program.with_name("pg_ctl"), "-w", "-t", "300", "-D", self.data, "-l", log, "start"]
        user = owner if os.geteuid() == 0 else None
        subprocess.run(
            command,
            user=user,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def cpu_seconds(self) -> float:
        """The CPU time of all its processes, also of those that have ended."""
        parent, *children = self.pids()
        ticks = 0
        for child in children:
            with suppress(FileNotFoundError, ProcessLookupError):  # ended meanwhile, so the parent has its time
                ticks += sum(_ticks(child)[:2])
        return (ticks + sum(_ticks(parent))) / os.sysconf("SC_CLK_TCK")


async def nodes_of(url: str) -> tuple[Node, list[Node]]:
    """The coordinator that the URL names, and its workers."""
    db = await connect(url)
    try:
        rows = await db.fetch("SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0 ORDER BY groupid")
    finally:
        await db.close()
    workers = [await Node.of(at_node(url, host, port), f"{host}:{port}") for host, port in rows]
    return await Node.of(url, "coordinator"), workers


def _postmaster(data: Path) -> int:
    return int((data / "postmaster.pid").read_text().splitlines()[0])


def _ticks(pid: int) -> list[int]:
    """Its own time in user and system mode, and that of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]
