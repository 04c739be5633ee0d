"""`tools/install` installs with uv from the index that pip is configured for, and with pip where uv cannot be used."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools/install"
_PYTHON = """#!/bin/sh
[ "$*" != "-m pip --version" ] || exit {pip}
[ "$*" != "-m pip config list" ] || echo "{options}"
echo "python $*" >> {log}
"""
_UV = """#!/bin/sh
echo "uv $* from ${{UV_DEFAULT_INDEX:-the usual index}} with ${{SSL_CERT_FILE:-the usual certificates}}" >> {log}
exit {status}
"""


class Installed:
    """A project with stand-ins for Python and uv, which note how they are called."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log"
        (folder / "tools").mkdir()
        shutil.copy(TOOL, folder / "tools/install")

    def _executable(self, name: str, text: str) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run(self, *, uv: int = 0, pip: int = 0, options: str = "") -> list[str]:
        """Install a lock file with a uv and a pip that exit with these codes. Return the calls that install something."""
        self._executable("python", _PYTHON.format(log=self._log, pip=pip, options=options))
        self._executable(".venv/bin/python", _PYTHON.format(log=self._log, pip=0, options=options))
        self._executable(".venv/uv/bin/uv", _UV.format(log=self._log, status=uv))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_", "SSL_"))}
        subprocess.run(
            ["tools/install", ".venv", "-r", "some.lock"],
            cwd=self._folder,
            env={**kept, "PYTHON": str(self._folder / "python")},
            check=True,
            timeout=60,
        )
        return [line for line in self._log.read_text().splitlines() if not line.endswith("config list")]


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def test_uv_installs(installed: Installed) -> None:
    call = "uv pip install --quiet --python .venv/bin/python -r some.lock"
    assert installed.run() == [f"{call} from the usual index with the usual certificates"]


def test_uv_takes_the_index_and_the_certificates_of_pip(installed: Installed) -> None:
    options = """
:env:.cert='/etc/other.crt'
global.extra-index-url='https://more.example/simple'
global.index-url='https://index.example/simple'
"""
    (call,) = installed.run(options=options)
    assert call.endswith("from https://index.example/simple with /etc/other.crt")


def test_pip_installs_where_uv_cannot_be_used(installed: Installed) -> None:
    tried, call = installed.run(uv=2)
    assert tried.startswith("uv pip install")
    assert call == "python -m pip --python .venv/bin/python -qq install -r some.lock"


def test_an_environment_gets_a_pip_if_python_has_none(installed: Installed) -> None:
    installing, _, call = installed.run(uv=2, pip=1)
    assert installing == "python -m ensurepip"
    assert call == "python -m pip --python .venv/bin/python -qq install -r some.lock"
