"""openapi-python-client makes a working client of our description."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.service import Account

HERE = Path(__file__).parent
TOOLS = Path(sys.executable).parent
PROGRAM = """
import json, sys
from stoa_app_api_client import AuthenticatedClient
from stoa_app_api_client.api.products import create_product, get_product, list_products
from stoa_app_api_client.models import NewProduct

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
made = create_product.sync(client=client, body=NewProduct(name="Mug", price="12.50", sku="MUG-1"))
read = get_product.sync(made.data.id, client=client)
page = list_products.sync(client=client, limit=5, pricegte="10.00", q="mug")
missing = get_product.sync(999_999, client=client)
print(json.dumps([read.data.name, read.data.price, page.meta.total, page.data[0].stock.on_hand, missing.code]))
"""


@pytest.fixture(scope="session")
def generated(description: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the client lies, generated without a warning."""
    folder = tmp_path_factory.mktemp("python") / "client"
    run = subprocess.run(
        [
            *(TOOLS / "openapi-python-client", "generate", "--fail-on-warning"),
            *("--path", description, "--output-path", folder, "--config", HERE / "openapi-python-client.yaml"),
        ],
        env={**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"},  # it formats with ruff
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "arning" not in run.stdout + run.stderr
    return folder


def test_the_python_client_has_every_operation(generated: Path, description: Path) -> None:
    document = json.loads(description.read_text())
    wanted = {each["operationId"] for item in document["paths"].values() for each in item.values()}
    found = {file.stem for file in (generated / "stoa_app_api_client/api").rglob("*.py") if file.stem != "__init__"}
    assert found == wanted


def test_the_python_client_compiles_without_an_error(generated: Path) -> None:
    compiled = subprocess.run([sys.executable, "-m", "compileall", "-q", generated], capture_output=True, check=False)
    assert compiled.returncode == 0, compiled.stdout
    checked = subprocess.run(
        [TOOLS / "ruff", "check", "--isolated", "--select", "F,E9", generated],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


async def test_the_python_client_calls_the_service(generated: Path, account: Account) -> None:
    base = account.url.removesuffix("/api/v3/app")
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, base, account.token],
        env={**os.environ, "PYTHONPATH": str(generated)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == ["Mug", "12.50", 1, 0, "not_found"]
