"""A running service for tests: `stoa serve` in its own processes, with its own data folder and port."""

import os
import random
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import Any, Self

import httpx

from stoa.access.apps import create_app
from stoa.access.contract import SCOPES
from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.access.stores import create_store
from stoa.db.connection import connect
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.errors import LOCK_TIMEOUT, PostgresError, sqlstate
from stoa.db.pool import Database
from stoa.settings import load
from tests.conftest import SECRET_KEY
from tests.support import notes
from tests.support.databases import PATIENCE_S, migrated_database, new_database, sibling
from tests.support.shops import token_for

__all__ = [
    "NO_TLS",
    "PATIENCE_S",
    "STOA",
    "WITH_NOTES",
    "Account",
    "Service",
    "alive",
    "children",
    "free_port",
    "migrated_database",
    "new_database",
    "sibling",
    "until",
]
STOA = (sys.executable, "-m", "stoa")
WITH_NOTES = (sys.executable, "-m", "tests.support.serve_notes")
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without it, each client loads all root certificates


def free_port() -> int:
    """A port below the ephemeral range, so that no client connection takes it meanwhile."""
    while True:
        port = random.randint(10_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def until(condition: Callable[[], Any], expected: str, *, seconds: float = PATIENCE_S) -> float:
    """Wait until a condition holds; returns how long it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, f"not within {seconds} s: {expected}"
        time.sleep(0.02)
    return time.monotonic() - started


def alive(pid: int) -> bool:
    """Whether a process runs; a dead one stays listed as a zombie until its parent waits for it."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def children(pid: int, word: bytes) -> list[int]:
    """Process ids of the children of a process whose command contains a word."""
    found: list[int] = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):
            if word in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found


@dataclass(frozen=True)
class Account:
    """An app on a store of a running service."""

    service: "Service"
    handle: str
    client_id: str
    client_secret: str
    token: str

    @property
    def url(self) -> str:
        return f"{self.service.url}/stores/{self.handle}/api/v3/app"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def client(self) -> httpx.AsyncClient:
        """A client that authenticates as the app."""
        return self.service.client(base_url=self.url, headers=self.headers)

    async def statuses(self, times: int = 12) -> set[int]:
        """The statuses that new connections get, enough of them to reach every worker."""
        statuses: set[int] = set()
        for _ in range(times):
            async with self.client() as client:
                statuses.add((await client.get("/products")).status_code)
        return statuses


_MARK_EVENTS_ROUTED = """UPDATE events SET routed_on = current_date
                     WHERE store_id = (SELECT id FROM stores WHERE handle = $1) AND routed_on = 'infinity'"""


class Service:
    """`stoa serve` on a data folder; as a context manager it is ready on entry, and fully stopped on exit."""

    def __init__(
        self,
        folder: Path,
        *,
        database_url: str = "",
        command: Sequence[str] = STOA,
        options: Sequence[str] = (),
        background: bool = True,  # False saves the start of two processes, where no test needs them
        **settings: object,
    ) -> None:
        self.folder = folder
        self.command = command
        self.options = options if background else [*options, "--no-background"]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database_url = database_url or EmbeddedPostgres(folder / "postgres").dsn
        self.log = folder / "service.log"
        ours = {
            "DATA_DIR": folder,
            "PORT": self.port,
            "WORKERS": 2,
            "SECRET_KEY": SECRET_KEY,
            "METRICS": "off",
            "SHUTDOWN_DELAY_SECONDS": 0,
            "LOG_FORMAT": "json",
            "DATABASE_URL": database_url,
            **{name.upper(): value for name, value in settings.items()},
        }
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("STOA_")},
            "PYTHONPATH": os.pathsep.join(sys.path),
            **{f"STOA_{name}": str(value) for name, value in ours.items()},
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:  # nobody else would stop what was started
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self.ended:
            self.stop()
        if (self.folder / "postgres/data/postmaster.pid").exists():  # left behind by a killed service
            with EmbeddedPostgres(self.folder / "postgres", durable=False):
                pass

    def launch(self) -> None:
        """Start the process in its own session, as a terminal or a process supervisor would."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command, "serve", *self.options],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start(self) -> None:
        """Start it, and wait until it says that it is ready."""
        before = self.output().count("is ready")
        self.launch()
        until(lambda: self.ended or self.output().count("is ready") > before, "the service is ready")
        assert not self.ended, self.output()

    def output(self) -> str:
        """Everything it wrote so far to stdout and stderr."""
        return self.log.read_text() if self.log.exists() else ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def wait(self) -> int:
        """Wait for it to exit; returns the exit code."""
        assert self._process is not None
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    def stop(self, number: Signals = SIGTERM) -> int:
        os.kill(self.pid, number)
        return self.wait()

    def kill(self) -> None:
        """kill -9 of the main process only."""
        self.stop(SIGKILL)

    def workers(self) -> list[int]:
        """Process ids of the web workers."""
        return children(self.pid, b"web_worker")

    def status(self, path: str) -> int:
        """The status that a new connection gets; 0 if it is refused or cut."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, HTTPException):
            return 0
        finally:
            connection.close()

    def headers(self, path: str) -> dict[str, str]:
        """The headers of a response on a new connection."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", path)
            return {name.lower(): value for name, value in connection.getresponse().getheaders()}
        finally:
            connection.close()

    def client(self, *, base_url: str = "", headers: dict[str, str] | None = None) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=base_url or self.url, headers=headers, timeout=PATIENCE_S, verify=NO_TLS)

    def run(self, *arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
        """Run another command, with the service's settings unless others are given."""
        more = {f"STOA_{name.upper()}": str(value) for name, value in settings.items()}
        return subprocess.run(
            [*self.command, *arguments],
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    async def account(
        self, handle: str, *, scopes: Sequence[str] = tuple(SCOPES), burst: int = 100_000, refill: int = 10_000
    ) -> Account:
        """Create a store and an app on it, and get a token for the app from the service."""
        db = Database(self.database_url, size=1)
        settings = load(self.environment, database_url=self.database_url)
        operator = Operator(db, settings, actor="operator:tests", request_id="req_tests")
        await create_store(operator, handle, "A store", "USD")
        app = await create_app(operator, "An app", scopes)
        await install(operator, app.client_id, handle, rate_burst=burst, rate_refill=refill)
        # On a busy machine the installation event may still be unrouted, and the first subscription would receive it.
        while True:
            try:
                await db.execute(_MARK_EVENTS_ROUTED, handle)
                break
            except PostgresError as error:
                if sqlstate(error) not in ("40001", LOCK_TIMEOUT):  # a router routes it at this moment
                    raise
        await db.close()
        async with self.client() as client:
            token = await token_for(client, app.client_id, app.client_secret)
        return Account(self, handle, app.client_id, app.client_secret, token)

    async def add_notes(self) -> None:
        """Create the table of the tests' own slice."""
        db = await connect(self.database_url)
        if (await db.fetch("SELECT to_regclass('notes')"))[0][0] is None:
            await db.execute(notes.SCHEMA)
        await db.close()
