"""openapi-generator generates a TypeScript client from our OpenAPI document, with which a strict program compiles and runs.

The package on PyPI contains the program, which needs Java. Without Java the test is skipped.
"""

import json
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.generated.node import compile_strictly, install, needs_npm, prepare, run
from tests.support.service import Account

JAVA = shutil.which("java")
_spec = find_spec("openapi_generator_cli")
JAR = Path(_spec.origin).parent / "openapi-generator.jar" if _spec and _spec.origin else Path("missing")


@needs_npm
@pytest.mark.skipif(JAVA is None, reason="openapi-generator needs Java")
@pytest.mark.skipif(not JAR.exists(), reason="the package openapi-generator-cli is not installed")
@pytest.mark.timeout(600)
@pytest.mark.long
async def test_a_client_of_openapi_generator_is_generated_compiles_and_calls(
    description: Path, account: Account, tmp_path: Path
) -> None:
    install()
    prepare(tmp_path, "openapi-generator.ts", "tsconfig.client.json")
    # Compiling to machine code takes longer than one run.
    java = [JAVA or "java", "-XX:TieredStopAtLevel=1", "-jar", JAR]
    what = ["-g", "typescript-fetch", "-i", description, "-o", tmp_path / "api"]
    options = ["--additional-properties", "importFileExtension=.js", "--global-property", "apis,models,supportingFiles"]
    generated = subprocess.run(
        [*java, "generate", *what, *options, "--global-property", "apiDocs=false,modelDocs=false"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert generated.returncode == 0, generated.stderr
    assert "ERROR" not in generated.stdout + generated.stderr
    compile_strictly(tmp_path)
    called = run(tmp_path / "main.js", account.url.removesuffix("/api/v3/app"), account.token, where=tmp_path)
    assert called.returncode == 0, called.stderr
    assert json.loads(called.stdout) == ["7.00", 1, 0, "version_conflict", "not_found"]
