"""Airbyte's own runner checks the manifest and reads the store with it; `make connectors` installs it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.sdk.__main__ import AIRBYTE, description
from tools.sdk.airbyte import manifest

from tests.client.conftest import base_url
from tests.support.service import Account, Service

RUNNER = Path(sys.prefix, "airbyte/bin/source-declarative-manifest")
STREAMS = ["products", "variants", "inventory", "customers", "orders"]
needs_runner = pytest.mark.skipif(not RUNNER.exists(), reason="airbyte-cdk is not installed; `make connectors` does it")


def test_the_schemas_of_the_manifest_match_the_openapi_document() -> None:
    assert AIRBYTE.read_text() == manifest(AIRBYTE.read_text(), description()), "run make sdk"
    parsed = yaml.safe_load(AIRBYTE.read_text())
    assert [stream["name"] for stream in parsed["streams"]] == list(parsed["schemas"]) == STREAMS


def test_every_stream_is_read_in_the_order_of_changes() -> None:
    """Otherwise what changes on a page that was read would be older than the state, and never be read again."""
    for stream in yaml.safe_load(AIRBYTE.read_text())["streams"]:
        parameters = stream["retriever"]["requester"]["request_parameters"]
        assert parameters["sort"] == "updated_at"
        assert parameters.get("include_deleted") == (None if stream["name"] == "orders" else "true")


class Runner:
    """Runs the commands of the protocol, with the manifest in the configuration as Airbyte's platform passes it."""

    def __init__(self, account: Account, folder: Path) -> None:
        self._folder = folder
        self._config: dict[str, Any] = {
            "__injected_declarative_manifest": yaml.safe_load(AIRBYTE.read_text()),
            "base_url": base_url(account),
            "client_id": account.client_id,
            "client_secret": account.client_secret,
        }

    def run(self, command: str, **files: Any) -> list[dict[str, Any]]:
        words: list[str] = []
        for name, content in {"config": self._config, **files}.items():
            file = self._folder / f"{name}.json"
            file.write_text(json.dumps(content))
            words += [f"--{name}", str(file)]
        run = subprocess.run(
            [RUNNER, command, *words],
            cwd=self._folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self._folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]

    def read(self, state: list[Any]) -> tuple[dict[str, list[dict[str, Any]]], list[Any]]:
        """The records of each stream, and the state to pass next time."""
        catalog: dict[str, Any] = {
            "streams": [
                {
                    "stream": {
                        "name": name,
                        "json_schema": {},
                        "supported_sync_modes": ["full_refresh", "incremental"],
                    },
                    "sync_mode": "incremental",
                    "destination_sync_mode": "append_dedup",
                    "cursor_field": ["updated_at"],
                }
                for name in STREAMS
            ]
        }
        messages = self.run("read", catalog=catalog, state=state)
        records: dict[str, list[dict[str, Any]]] = {name: [] for name in STREAMS}
        for record in _of_type(messages, "RECORD"):
            records[record["stream"]].append(record["data"])
        states = {each["stream"]["stream_descriptor"]["name"]: each for each in _of_type(messages, "STATE")}
        return records, list(states.values())


def _of_type(messages: list[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    return (message[kind.lower()] for message in messages if message["type"] == kind)


@needs_runner
@pytest.mark.timeout(900)
@pytest.mark.long
async def test_the_runner_reads_everything_and_then_what_changed(service: Service, tmp_path: Path) -> None:
    account = await service.account("airbyte")
    runner = Runner(account, tmp_path)
    async with account.client() as api:
        products = [
            (await api.post("/products", json={"name": f"Mug {n}", "price": "5.00", "stock": {"on_hand": 9}})).json()[
                "data"
            ]
            for n in range(260)
        ]
        customer = (await api.post("/customers", json={"email": "maya@example.com"})).json()["data"]
        line = {"variant_id": products[0]["variants"][0]["id"], "quantity": 1}
        ordered = await api.post("/orders", json={"line_items": [line]})
        assert ordered.status_code == 201, ordered.text

        (checked,) = [each["connectionStatus"] for each in runner.run("check") if each["type"] == "CONNECTION_STATUS"]
        assert checked["status"] == "SUCCEEDED", checked
        (catalog,) = _of_type(runner.run("discover"), "CATALOG")
        found = {stream["name"]: stream for stream in catalog["streams"]}
        assert list(found) == STREAMS
        assert "updated_at" in found["orders"]["json_schema"]["properties"]

        first, state = runner.read([])
        counts = {"products": 260, "variants": 260, "inventory": 260, "customers": 1, "orders": 1}
        assert {name: len(rows) for name, rows in first.items()} == counts
        assert first["products"][0]["price"] == "5.00"

        await api.patch(f"/products/{products[0]['id']}", json={"name": "Cup"})
        await api.delete(f"/products/{products[1]['id']}")
        await api.delete(f"/customers/{customer['id']}")
        second, _ = runner.read(state)
    latest = {row["id"]: row for row in second["products"]}
    assert latest[products[0]["id"]]["name"] == "Cup"
    gone = latest[products[1]["id"]]
    assert gone["deleted_at"] == gone["updated_at"]
    assert "name" not in gone
    stock = {row["variant_id"]: row for row in second["inventory"]}
    assert sum(row.get("deleted_at") is not None for row in stock.values()) == 1
    assert [row["deleted_at"] is not None for row in second["customers"]][-1]
