"""The code of the TypeScript guide and of the package's README runs against a service; `package` compiles it strictly."""

from pathlib import Path

import pytest

from tests.client.test_private_keys import new_key
from tests.generated.node import needs_npm
from tests.support.service import Service
from tests.typescript.conftest import WITHIN_S, node, programs, variables

pytestmark = pytest.mark.timeout(2 * WITHIN_S)


@needs_npm
@pytest.mark.long
async def test_the_guide_runs_from_top_to_bottom(package: Path, service: Service, tmp_path: Path) -> None:
    """The blocks of typescript-sdk.md are one program."""
    account = await service.account("ts-guide")
    compiled = package.parent / "examples/dist"
    (tmp_path / "app-key.pem").write_text(new_key())
    done = node(compiled / "guide.js", where=tmp_path, **variables(account))
    assert done.returncode == 0, done.stderr
    assert "1 in all, 1 here" in done.stdout
    assert "kty: 'EC'" in done.stdout
    assert "unchanged" in done.stdout
    assert "/price invalid_money" in done.stdout
    assert "succeeded 1000" in done.stdout
    assert "product.updated" in done.stdout
    assert "1 x 1 pixels, ready" in done.stdout
    assert "list_products attempt 1: 200 after" in done.stdout
    async with account.client() as api:
        assert (await api.get("/webhooks")).json()["meta"]["total"] == 0
    listed = node(compiled / "readme.js", where=tmp_path, **variables(account))
    assert len(listed.stdout.splitlines()) == 1001, listed.stderr


@needs_npm
def test_the_tests_of_the_guide_pass(package: Path, tmp_path: Path) -> None:
    """The blocks of testing-an-app.md are one file of tests, which needs no service."""
    done = node("--test", "--test-reporter=tap", package.parent / "examples/dist/testing.js", where=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "# pass 4" in done.stdout


@needs_npm
def test_the_sample_of_every_operation_compiles(package: Path) -> None:
    assert programs()["samples"].count("export async function") == 49
    assert (package.parent / "examples/dist/samples.js").exists()
