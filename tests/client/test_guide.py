"""Run the Python code of the SDK guide and of both READMEs as programs against a service."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoa_client import Client
from tests.client.conftest import base_url
from tests.client.test_private_keys import new_key
from tests.docs.pages import GUIDES, ROOT, blocks
from tests.support.service import Account

GUIDE = "\n".join(block.text for block in blocks(GUIDES / "python-sdk.md", "python"))
(README,) = blocks(ROOT / "README.md", "python")
(PACKAGE_README,) = blocks(ROOT / "sdk/python/README.md", "python")


@pytest.fixture
def variables(account: Account) -> dict[str, str]:
    return {
        **os.environ,
        "STOA_BASE_URL": base_url(account),
        "STOA_AUTH_URL": f"{account.service.url}/oauth/token",
        "STOA_CLIENT_ID": account.client_id,
        "STOA_CLIENT_SECRET": account.client_secret,
    }


def run(program: str, variables: dict[str, str], folder: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_guide_runs_from_top_to_bottom(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "app-key.pem").write_text(new_key())
    output = run(GUIDE, variables, tmp_path)
    assert "'kty': 'EC'" in output
    assert "1 in all, 1 here" in output
    assert "unchanged" in output
    assert "/price invalid_money" in output
    assert "succeeded 1000" in output
    assert "product.updated" in output
    assert "1 x 1 pixels, ready" in output
    assert "list_products attempt 1: 200 after" in output
    assert (tmp_path / "failures.csv").exists()
    with Client(
        variables["STOA_BASE_URL"], client_id=variables["STOA_CLIENT_ID"], client_secret=variables["STOA_CLIENT_SECRET"]
    ) as client:
        assert client.webhooks.list().page().total == 0


def test_the_readme_lists_every_product_in_six_lines(variables: dict[str, str], tmp_path: Path) -> None:
    assert len(README.text.splitlines()) <= 6
    fill = README.text.replace(
        'stoa.products.list(status="active")',
        '[stoa.products.create(name=f"Mug {n}", price="1.50") for n in range(3)]',
    )
    run(fill, variables, tmp_path)
    for program in (README, PACKAGE_README):
        output = run(program.text, variables, tmp_path)
        assert [line.split(maxsplit=1)[1] for line in output.splitlines()] == [f"Mug {n} 1.50" for n in range(3)]
