"""openapi-python-client generates a working client from our OpenAPI document."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

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
# The generator repeats the name for each value of a list, although the document specifies commas.
LISTS = """
import json, sys
from stoa_app_api_client import AuthenticatedClient
from stoa_app_api_client.api.products import batch_products, list_products
from stoa_app_api_client.models import (
    ListProductsIncludeItem, ListProductsMetadata, ListProductsSortItem, ListProductsStatusItem, ProductBatch, ProductField
)

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
new = [("Ash", "draft"), ("Birch", "active"), ("Cedar", "archived")]
items = [{"op": "create", "data": {"name": name, "price": "1.00", "status": status, "metadata": {"wood": name}}} for name, status in new]
made = batch_products.sync(client=client, body=ProductBatch.from_dict({"items": items}))
ids = [each.id for each in made.data]
parameters = {
    "ids": ids,
    "status": [ListProductsStatusItem.DRAFT, ListProductsStatusItem.ARCHIVED],
    "sort": [ListProductsSortItem.NAME_DESCENDING, ListProductsSortItem.ID],
    "include": [ListProductsIncludeItem.VARIANTS, ListProductsIncludeItem.INVENTORY],
}
page = list_products.sync(client=client, **parameters)
entry = ListProductsMetadata.from_dict({"metadata[wood]": "Birch"})
by_entry = list_products.sync(client=client, ids=ids, metadata=entry)
smaller = list_products.sync(client=client, ids=ids[:1], fields=[ProductField.ID, ProductField.NAME]).to_dict()
print(json.dumps([[each.name for each in page.data], [each.name for each in by_entry.data], list(smaller["data"][0])]))
"""


@pytest.fixture(scope="session")
def generated(description: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the client, generated without warnings."""
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


def output(program: str, generated: Path, account: Account) -> Any:
    """The output of a program that uses the generated client."""
    base = account.url.removesuffix("/api/v3/app")
    run = subprocess.run(
        [sys.executable, "-c", program, base, account.token],
        env={**os.environ, "PYTHONPATH": str(generated)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


async def test_the_python_client_calls_the_service(generated: Path, account: Account) -> None:
    assert output(PROGRAM, generated, account) == ["Mug", "12.50", 1, 0, "not_found"]


async def test_the_python_client_can_send_lists(generated: Path, account: Account) -> None:
    assert output(LISTS, generated, account) == [["Cedar", "Ash"], ["Birch"], ["id", "name"]]


def test_the_python_client_has_one_class_for_all_errors(generated: Path) -> None:
    models = {file.stem for file in (generated / "stoa_app_api_client/models").glob("*.py")}
    assert {"problem", "product_page", "product_answer", "page_meta", "product_field"} <= models
    assert not [name for name in models if re.search(r"_response_\d|_code$", name)]
