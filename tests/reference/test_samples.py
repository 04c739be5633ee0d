"""The sample programs of all operations are valid: types in Python, syntax in PHP; `tests/typescript` compiles the others."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stoa.description import openapi
from stoa.reference.document import read
from stoa.reference.languages import php, python, sdk_calls

DOCUMENT = read(openapi())


def test_every_operation_has_a_method_of_the_sdks() -> None:
    assert [each.operation_id for each in DOCUMENT.operations if each.summary not in sdk_calls()] == []


def test_the_python_samples_have_no_type_errors(tmp_path: Path) -> None:
    bodies = [python(each, DOCUMENT).replace("\n", "\n    ") for each in DOCUMENT.operations]
    functions = [f"def sample_{number}() -> None:\n    {body}\n" for number, body in enumerate(bodies)]
    (program := tmp_path / "samples.py").write_text("\n\n".join(functions))
    checker = Path(sys.executable).parent / "pyright"
    command = [checker, "--pythonpath", sys.executable, program]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.skipif(shutil.which("php") is None, reason="PHP is not installed")
def test_the_php_samples_have_no_syntax_errors(tmp_path: Path) -> None:
    bodies = [php(each, DOCUMENT).removeprefix("<?php\n") for each in DOCUMENT.operations]
    program = tmp_path / "samples.php"
    program.write_text("\n".join(["<?php", *(f"function sample{n}() {{\n{body}\n}}" for n, body in enumerate(bodies))]))
    found = subprocess.run(["php", "-l", program], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
