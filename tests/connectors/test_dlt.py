"""The dlt source loads a store into DuckDB, and the second time only what changed; `make connectors` installs dlt."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

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
    credentials = (base_url(account), account.client_id, account.client_secret)
    return run(*credentials, folder, overlap_s, program)


def run(url: str, client_id: str, client_secret: str, folder: Path, overlap_s: int, program: str) -> str:
    """Run the pipeline as a process of its own, as a scheduler does; its state is in the destination and in the folder."""
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "DLT_DATA_DIR": str(folder / "state"),  # otherwise all runs of root share the state in /var
        "PYTHONPATH": str(CONNECTOR),
        "SOURCES__STOA__BASE_URL": url,
        "SOURCES__STOA__CLIENT_ID": client_id,
        "SOURCES__STOA__CLIENT_SECRET": client_secret,
        "RUNTIME__DLTHUB_TELEMETRY": "false",
        "OVERLAP_S": str(overlap_s),
    }
    done = subprocess.run(
        [PYTHON, "-c", program], cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


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


class BusyStore:
    """Lists products in pages of two, as a store does that changes between the first page of a list and the next one."""

    def __init__(self) -> None:
        self._started = datetime.now(UTC) - timedelta(minutes=10)
        self._rows = {n: self._row(n, 1, n, name=f"Mug {n}") for n in range(1, 5)}
        self._changed = False

    def _row(self, product_id: int, version: int, seconds: int, **more: Any) -> dict[str, Any]:
        at = (self._started + timedelta(seconds=seconds)).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {"id": product_id, "version": version, "updated_at": at, "deleted_at": None, **more}

    def _change(self) -> None:
        """What changed last is far more than the overlap after the others."""
        deleted = self._row(2, 2, 20)
        self._rows |= {
            1: self._row(1, 2, 10, name="Cup"),
            2: {**deleted, "deleted_at": deleted["updated_at"]},
            4: self._row(4, 2, 200, name="Jug"),
        }
        self._changed = True

    def page(self, query: dict[str, str]) -> dict[str, Any]:
        if "cursor" in query and not self._changed:
            self._change()
        by = query.get("sort", "id")
        after = json.loads(query["cursor"]) if "cursor" in query else [0 if by == "id" else "", 0]
        found = sorted(
            ([row[by], row["id"]], row)
            for row in self._rows.values()
            if [row[by], row["id"]] > after
            and row["updated_at"] >= query.get("updated_since", "")
            and (row["deleted_at"] is None or "include_deleted" in query)
        )
        following = json.dumps(found[1][0]) if len(found) > 2 else None
        return {"data": [row for _, row in found[:2]], "meta": {"next_cursor": following}}


@pytest.fixture
def busy_store() -> Iterator[str]:
    """The URL of a busy store."""
    store = BusyStore()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.answer({"access_token": "token", "token_type": "Bearer", "expires_in": 3600})

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            empty: dict[str, Any] = {"data": [], "meta": {"next_cursor": None}}
            self.answer(store.page(dict(parse_qsl(url.query))) if url.path.endswith("/products") else empty)

        def answer(self, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


PRODUCTS = """
import json
import dlt
from stoa_source import stoa

pipeline = dlt.pipeline("stoa", destination="duckdb", dataset_name="shop")
pipeline.run(stoa())
with pipeline.sql_client() as sql:
    print(json.dumps(sql.execute_sql("SELECT id, name FROM products ORDER BY id")))
"""


@pytest.mark.timeout(600)
def test_what_changes_during_a_load_is_not_lost(busy_store: str, tmp_path: Path) -> None:
    run(busy_store, "client", "secret", tmp_path, 60, PRODUCTS)
    loaded = json.loads(run(busy_store, "client", "secret", tmp_path, 60, PRODUCTS))
    assert loaded == [[1, "Cup"], [3, "Mug 3"], [4, "Jug"]]
