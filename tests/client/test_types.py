"""The type checker accepts the Python of the guides and of all samples, and finds wrong arguments."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client import test_guide, test_moving
from tests.reference.test_samples import samples_in

WRONG = (
    "from stoa_client import Client\n"
    "client = Client('http://localhost', token='x')\n"
    "client.products.create(name='Mug', price='1.00', status='gone')\n"  # line 3: no such status
    "client.products.create(price='1.00')\n"  # line 4: no name
    "client.products.list(color='red')\n"  # line 5: no such filter
    "client.products.create(name='Mug', price=1.5)\n"  # line 6: a float is not exact
    "total: int = client.products.list(status='active', price_gte='1').page().total\n"
    "names: list[str] = [product.name for product in client.products.list()]\n"
    "name: str = client.products.get(1).name\n"
    "name = client.products.get(1, fields=['id']).name\n"  # line 10: the name may be missing
    "names = [product.name for product in client.products.list(fields='id')]\n"  # line 11
    "name = client.products.create(name='Mug', price='1.00', fields=['id', 'name']).name\n"  # line 12
    "found = client.products.get(1, fields=['id', 'name']).name\n"
    "name = found if isinstance(found, str) else 'none'\n"
)


def functions(bodies: list[str]) -> str:
    indented = (body.replace("\n", "\n    ") for body in bodies)
    return "\n\n".join(f"def sample_{number}() -> None:\n    {body}\n" for number, body in enumerate(indented))


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """The errors of each program by line. One run checks all, because most of its time is for the types of the SDK."""
    programs = {
        "guide": test_guide.GUIDE,
        "moving": test_moving.GUIDE,
        "samples": functions(samples_in("Python")),
        "wrong": WRONG,
    }
    folder = tmp_path_factory.mktemp("types")
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    command = [Path(sys.executable).parent / "pyright", "--pythonpath", sys.executable, "--outputjson"]
    files = [folder / f"{name}.py" for name in programs]
    done = subprocess.run([*command, *files], cwd=folder, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(programs), done.stdout
    found: dict[str, dict[int, str]] = {name: {} for name in programs}
    for each in report["generalDiagnostics"]:
        found[Path(each["file"]).stem][each["range"]["start"]["line"] + 1] = each["message"]
    return found


@pytest.mark.parametrize("name", ["guide", "moving", "samples"])
def test_what_readers_copy_has_no_type_errors(errors: dict[str, dict[int, str]], name: str) -> None:
    assert errors[name] == {}


def test_a_wrong_argument_is_found(errors: dict[str, dict[int, str]]) -> None:
    assert set(errors["wrong"]) == {3, 4, 5, 6, 10, 11, 12}, errors["wrong"]
