"""The dlt source loads a store into DuckDB, and the second time only what changed; `make connectors` installs dlt."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import base_url
from tests.docs.pages import ROOT
from tests.support.service import Account, Service

CONNECTOR = ROOT / "connectors/dlt"
PYTHON = Path(sys.prefix, "dlt/bin/python")
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="dlt is not installed; `make connectors` installs it")

LOAD = """
import json, os
import dlt
from stoa_source import LISTS, stoa

pipeline = dlt.pipeline("stoa", destination="duckdb", dataset_name="shop")
pipeline.run(stoa(overlap_s=int(os.environ["OVERLAP_S"])))
extracted = pipeline.last_trace.last_normalize_info.row_counts
with pipeline.sql_client() as sql:
    tables = {table for (table,) in sql.execute_sql("SELECT table_name FROM information_schema.tables")}
    loaded = {name: sql.execute_sql(f"SELECT count(*) FROM {name}")[0][0] for name in LISTS if name in tables}
    names = [name for (name,) in sql.execute_sql("SELECT name FROM products ORDER BY id")]
    lines = sql.execute_sql("SELECT count(*) FROM orders__line_items")[0][0]
    stock = sql.execute_sql("SELECT sum(stock__on_hand) FROM inventory")[0][0]
print(json.dumps({
    "extracted": {name: extracted.get(name, 0) for name in LISTS}, "loaded": loaded, "names": names, "lines": lines,
    "stock": int(stock),
}))
"""


def load(account: Account, folder: Path, overlap_s: int, program: str = LOAD) -> str:
    """Run the pipeline as a process of its own, as a scheduler does; its state is in the destination and in the folder."""
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "DLT_DATA_DIR": str(folder / "state"),  # otherwise all runs of root share the state in /var
        "PYTHONPATH": str(CONNECTOR),
        "SOURCES__STOA__BASE_URL": base_url(account),
        "SOURCES__STOA__CLIENT_ID": account.client_id,
        "SOURCES__STOA__CLIENT_SECRET": account.client_secret,
        "RUNTIME__DLTHUB_TELEMETRY": "false",
        "OVERLAP_S": str(overlap_s),
    }
    run = subprocess.run(
        [PYTHON, "-c", program], cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.timeout(600)
@pytest.mark.long
async def test_the_second_load_has_only_changes_and_removes_what_was_deleted(service: Service, tmp_path: Path) -> None:
    account = await service.account("dlt")
    async with account.client() as api:

        async def post(path: str, body: dict[str, Any]) -> Any:
            answer = await api.post(path, json=body)
            assert answer.status_code == 201, answer.text
            return answer.json()["data"]

        products = [
            await post("/products", {"name": f"Mug {n}", "price": "5.00", "stock": {"on_hand": 10}}) for n in range(300)
        ]
        customer = await post("/customers", {"email": "maya@example.com"})
        lines = [{"variant_id": product["variants"][0]["id"], "quantity": 1} for product in products[:2]]
        order = await post("/orders", {"line_items": lines, "customer_id": customer["id"]})

        first = json.loads(load(account, tmp_path, overlap_s=0))
        counts = {"products": 300, "variants": 300, "inventory": 300, "customers": 1, "orders": 1}
        assert first["extracted"] == counts
        assert first["loaded"] == counts
        assert (first["lines"], first["stock"]) == (2, 3000)

        await api.patch(f"/products/{products[0]['id']}", json={"name": "Cup"})
        await api.delete(f"/products/{products[1]['id']}")
        await api.delete(f"/customers/{customer['id']}")
        await api.put(f"/orders/{order['id']}/status", json={"status": "cancelled"})

        second = json.loads(load(account, tmp_path, overlap_s=0))
        assert second["loaded"] == {"products": 299, "variants": 299, "inventory": 299, "customers": 0, "orders": 1}
        assert second["names"][:2] == ["Cup", "Mug 2"]
        assert second["lines"] == 2
        assert all(second["extracted"][name] <= 5 for name in counts), second["extracted"]
        assert second["extracted"]["products"] >= 2

    third = json.loads(load(account, tmp_path, overlap_s=3600))  # reads all of it again, and changes nothing
    assert third["loaded"] == second["loaded"]
    assert third["extracted"]["products"] >= 299


@pytest.mark.timeout(300)
async def test_the_example_runs_as_written(service: Service, tmp_path: Path) -> None:
    account = await service.account("dlt-example")
    async with account.client() as api:
        await api.post("/products", json={"name": "Mug", "price": "5.00"})
    output = load(account, tmp_path, 60, (CONNECTOR / "example.py").read_text())
    assert "products: 1 rows" in output
    assert list(tmp_path.rglob("stoa.duckdb")), output
