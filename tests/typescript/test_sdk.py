"""The TypeScript SDK compiles strictly, covers every operation, and passes its own tests against a running service."""

import json
import re
from pathlib import Path

import pytest
from tools.sdk.__main__ import TYPESCRIPT, description, typescript_modules
from tools.sdk.surface import operations
from tools.sdk.typescript.text import camel

from stoa_client import PrivateKey
from tests.client.test_private_keys import new_key, register
from tests.docs.pages import ROOT
from tests.generated.node import needs_npm
from tests.support.service import Service
from tests.typescript.conftest import SDK, WITHIN_S, as_json, node

pytestmark = pytest.mark.timeout(2 * WITHIN_S)


def test_the_generated_modules_match_the_openapi_document() -> None:
    stale = [name for name, text in typescript_modules().items() if (TYPESCRIPT / name).read_text() != text]
    assert not stale, "run make sdk"


def test_every_operation_has_a_documented_method() -> None:
    text = typescript_modules()["resources.ts"]
    for operation in operations(description()):
        name = "".join(part.title() for each in operation.chain for part in each.split("-"))
        body = re.search(rf"^export class {name} .*?^}}$", text, re.MULTILINE | re.DOTALL)
        assert body, f"{operation.id} has no class"
        assert re.search(rf"   \*/\n  {camel(operation.name)}[<(]", body[0]), f"{operation.id} has no documented method"


def test_the_package_has_one_version_and_no_dependencies() -> None:
    package = json.loads((SDK / "package.json").read_text())
    assert f'VERSION = "{package["version"]}"' in (SDK / "src/transport.ts").read_text()
    assert (SDK / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()  # npm packs it
    assert "dependencies" not in package
    imported = {
        name
        for file in (SDK / "src").rglob("*.ts")
        for name in re.findall(r'(?:from|import) "([^"]+)"', file.read_text())
    }
    assert not [name for name in imported if not name.startswith("./") and not name.startswith("../")]


@needs_npm
async def test_the_tests_of_the_package_pass(package: Path, service: Service, tmp_path: Path) -> None:
    accounts = {name: await service.account(f"ts-{name}") for name in ("main", "other", "suspended", "keyed")}
    key = new_key()
    register(accounts["keyed"], PrivateKey(key), tmp_path)
    accounts["narrow"] = await service.account("ts-narrow", burst=60, refill=60)
    suspended = service.run("store", "suspend", "ts-suspended")
    assert suspended.returncode == 0, suspended.stderr
    files = sorted((package / "dist-test").glob("*.test.js"))
    assert len(files) >= 3
    # Connections whose response was cut on purpose would keep the process alive for half a minute.
    done = node(
        "--test",
        "--test-force-exit",
        "--test-concurrency=4",  # most of them wait
        "--test-reporter=tap",
        *files,
        where=package,
        STOA_TEST_ACCOUNTS=as_json(accounts),
        STOA_TEST_PRIVATE_KEY=key,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout
