"""openapi-typescript and hey-api generate TypeScript from our OpenAPI document, with which strict programs compile and run."""

import json
from pathlib import Path

import pytest

from tests.generated.node import HERE, TOOLS, compile_strictly, install, needs_npm, prepare, run
from tests.support.service import Account

_HEY_CONFIG = """export default {{
  input: {input},
  output: {{ path: {output}, importFileExtension: ".ts" }},
  logs: {{ file: false }},
}};
"""


@needs_npm
@pytest.mark.timeout(600)
@pytest.mark.long
async def test_a_typescript_client_is_generated_compiles_and_calls(
    description: Path, account: Account, tmp_path: Path
) -> None:
    install()
    prepare(tmp_path, "main.ts", "tsconfig.json")
    # A field with a default may be omitted in requests.
    options = ["-o", tmp_path / "api.ts", "--default-non-nullable=false"]
    generated = run(TOOLS / "openapi-typescript/bin/cli.js", description, *options, where=tmp_path)
    assert generated.returncode == 0, generated.stdout + generated.stderr
    assert "warn" not in (generated.stdout + generated.stderr).lower()
    compile_strictly(tmp_path)
    called = run(tmp_path / "main.js", account.url.removesuffix("/api/v3/app"), account.token, where=tmp_path)
    assert called.returncode == 0, called.stderr
    assert json.loads(called.stdout) == ["18.00", 1, "not_found"]


@needs_npm
@pytest.mark.timeout(600)
@pytest.mark.long
async def test_a_hey_api_client_is_generated_compiles_and_calls(
    description: Path, account: Account, tmp_path: Path
) -> None:
    install()
    prepare(tmp_path, "hey-api.ts", "tsconfig.client.json")
    config = tmp_path / "openapi-ts.config.mjs"
    config.write_text(_HEY_CONFIG.format(input=json.dumps(str(description)), output=json.dumps(str(tmp_path / "api"))))
    generated = run(TOOLS / "@hey-api/openapi-ts/bin/run.js", "-f", config, where=tmp_path)
    assert generated.returncode == 0, generated.stdout + generated.stderr
    assert "warn" not in (generated.stdout + generated.stderr).lower()
    compile_strictly(tmp_path)
    called = run(tmp_path / "main.js", account.url.removesuffix("/api/v3/app"), account.token, where=tmp_path)
    assert called.returncode == 0, called.stderr
    assert json.loads(called.stdout) == ["31.00", 1, 0, "version_conflict", "not_found"]


def test_the_lock_file_holds_versions_and_hashes_and_no_address() -> None:
    text = (HERE / "package-lock.json").read_text()
    lock = json.loads(text)
    assert "://" not in text
    assert all("integrity" in each for name, each in lock["packages"].items() if name)
