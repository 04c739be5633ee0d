"""Run the steps of the container file in a fresh folder, and the result as the container would run it: `make deploy-check`.

Another user runs it, with every file system read-only except the data folder.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from signal import SIGTERM

import pytest

from stoa.db.embedded import PORT, EmbeddedPostgres
from tests.conftest import SECRET_KEY
from tests.deploy.containerfile import Stage, read
from tests.deploy.declared import API, DEPLOY, ROOT, USER
from tests.support.service import free_port, until

BUILD, FINAL = read(DEPLOY / "Containerfile")
# In a mount namespace of its own. The interpreter may be in a private folder, so it gets a path that everybody can reach.
PYTHON = """mount --make-rprivate / && mount --bind "$BASE" "$PREFIX/python" || exit 96
"""
READ_ONLY = """mount --bind "$DATA" "$DATA" && mount --bind "$PREFIX/passwd" /etc/passwd \\
 && mount -o remount,bind,ro / || exit 97
for folder in /tmp /var/tmp /dev/shm; do mount -o remount,bind,ro "$folder" 2>/dev/null || true; done
! touch "$PREFIX/written" 2>/dev/null || exit 98
exec setpriv --reuid={user} --regid={user} --clear-groups --no-new-privs --bounding-set=-all -- "$@"
"""


@pytest.fixture(scope="module")
def prefix() -> Iterator[Path]:
    """A folder in place of the root of the image, with the result of the build stage."""
    with tempfile.TemporaryDirectory(prefix="stoa-image-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "python").mkdir()
        _build(root)
        shutil.rmtree(root / "build")  # the final stage copies only the environment
        data = root / "data"
        data.mkdir(mode=0o700)
        os.chown(data, USER, USER)
        # What `useradd` of the final stage adds; initdb looks its user up.
        (root / "passwd").write_text(f"{Path('/etc/passwd').read_text()}stoa:x:{USER}:{USER}::/data:/bin/sh\n")
        yield root


def _inside(root: Path, text: str) -> str:
    return text.replace("/opt/stoa", f"{root}/opt/stoa").replace("/data", f"{root}/data")


def _build(root: Path) -> None:
    """Follow the instructions of the build stage; `python` is the one that runs the tests."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    python = root / "python" if os.geteuid() == 0 else Path(sys.base_prefix)
    environment |= {"PATH": f"{python}/bin:{os.environ['PATH']}", "BASE": sys.base_prefix, "PREFIX": str(root)}
    folder = root
    for step in BUILD.instructions:
        if step.name == "WORKDIR":
            folder = root / step.text.removeprefix("/")
            folder.mkdir(parents=True)
        elif step.name == "COPY":
            _copy(step.text.split(), folder)
        else:
            assert step.name == "RUN", step
            command = _isolated(PYTHON + 'exec bash -euc "$1"', _inside(root, step.text))
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{step.text}\n{done.stdout}\n{done.stderr}"


def _isolated(script: str, *words: str) -> list[str]:
    """A command whose mounts nobody else sees; only root can have them."""
    return (
        ["unshare", "--mount", "bash", "-c", script, "bash", *words] if os.geteuid() == 0 else ["bash", "-euc", *words]
    )


def _copy(words: list[str], folder: Path) -> None:
    *sources, target = words
    for source in sources:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            place = folder / target / Path(source).name if target.endswith("/") else folder / target
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, place)


class Container:
    """A process of the image, with its user, its environment and a read-only root."""

    def __init__(self, root: Path, stage: Stage, **settings: object) -> None:
        declared = {name: _inside(root, value) for name, value in stage.environment.items()}
        declared["PATH"] = declared["PATH"].replace("$PATH", os.environ["PATH"])
        declared |= {"STOA_METRICS": f"127.0.0.1:{free_port()}", "STOA_HOST": "127.0.0.1"}
        declared |= {f"STOA_{name.upper()}": str(value) for name, value in settings.items()}
        self.environment = {**declared, "LC_ALL": "C.UTF-8", "DATA": f"{root}/data", "PREFIX": str(root)}
        # The interpreter's own library, which it would look for where it was built.
        self.environment |= {"BASE": sys.base_prefix, "LD_LIBRARY_PATH": f"{root}/python/lib"}

    def command(self, words: Sequence[str]) -> list[str]:
        return _isolated(PYTHON + READ_ONLY.format(user=USER), *words) if os.geteuid() == 0 else list(words)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(words),
            env=self.environment,
            cwd=self.environment["DATA"],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command(words), env=self.environment, cwd=self.environment["DATA"])


def _status(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def test_the_image_holds_stoa_without_the_tools_that_built_it(prefix: Path) -> None:
    container = Container(prefix, FINAL)
    version = container.run("stoa", "--version")
    assert version.returncode == 0, version.stderr
    packages = {
        each.name.partition("-")[0] for each in (prefix / "opt/stoa/lib").glob("python3.*/site-packages/*.dist-info")
    }
    assert packages >= {"stoa_commerce", "stoa_client", "asyncpg"}
    assert not packages & {"pip", "hatchling", "pytest"}
    assert container.run("touch", f"{prefix}/opt/stoa/written").returncode != 0
    assert container.run("touch", f"{prefix}/data/written").returncode == 0
    unwritten = list((prefix / "opt/stoa").rglob("stoa/cli.py")) and not list((prefix / "opt/stoa").rglob("cli.*.pyc"))
    assert not unwritten, "without compiled modules, every start compiles them again"


def test_the_image_serves_with_its_own_database_and_stops_cleanly(prefix: Path) -> None:
    port = free_port()
    container = Container(prefix, FINAL, port=port)
    process = container.start(*FINAL.one("ENTRYPOINT").words, *FINAL.one("CMD").words)
    try:
        until(lambda: process.poll() is not None or _status(port, "/ready") == 200, "the service is ready")
        assert process.poll() is None
        check = [word.replace(str(API), str(port)) for word in FINAL.one("HEALTHCHECK").words]
        assert container.run(*check).returncode == 0
    finally:
        process.send_signal(SIGTERM)
        assert process.wait(60) == 0
    assert container.run(*check).returncode != 0


def test_the_commands_of_the_compose_file_run_against_one_database(prefix: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="stoa-server-") as folder, EmbeddedPostgres(Path(folder, "pg")) as server:
        Path(folder).chmod(0o755)
        for part in (Path(folder, "pg"), Path(folder, "pg/data")):
            part.chmod(0o755)  # the socket is in the data folder
        Path(folder, "pg/data", f".s.PGSQL.{PORT}").chmod(0o777)
        settings = {"database_url": server.dsn, "secret_key": SECRET_KEY}
        early = Container(prefix, FINAL, **settings, port=free_port()).run(
            "stoa", "serve", "--no-background", "--no-migrate"
        )
        assert (early.returncode, "run `stoa migrate`" in early.stderr) == (2, True), early.stderr
        migrated = Container(prefix, FINAL, **settings).run("stoa", "migrate")
        assert migrated.returncode == 0, migrated.stderr
        ports, metrics = [free_port(), free_port()], free_port()
        running = [
            Container(prefix, FINAL, **settings, port=port, workers=1).start(
                "stoa", "serve", "--no-background", "--no-migrate"
            )
            for port in ports
        ]
        worker = Container(prefix, FINAL, **settings)
        running.append(worker.start("stoa", "worker", "--metrics", f"127.0.0.1:{metrics}"))
        try:
            for port in ports:
                until(lambda port=port: _status(port, "/ready") == 200, "a node is ready")
            until(lambda: _status(metrics, "/metrics") == 200, "the worker shows its metrics")
            until(lambda: _status(ports[0], "/ready?deep") == 200, "a delivery worker is connected")
        finally:
            started = time.monotonic()
            for process in running:
                process.send_signal(SIGTERM)
            codes = [process.wait(60) for process in running]
        assert codes == [0, 0, 0]
        assert time.monotonic() - started < 45
