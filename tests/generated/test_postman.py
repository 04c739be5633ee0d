"""`newman` sends every request of our Postman collection to a demo, one after another, and each succeeds."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stoa.api import ENDPOINTS
from tests.docs.conftest import DEMO
from tests.generated.node import install, needs_npm, run
from tests.support.demos import prepared_demo
from tests.support.service import Service

NEWMAN = Path(__file__).parent / "newman"


@pytest.fixture
async def demo(tmp_path: Path) -> AsyncIterator[Service]:
    url = await prepared_demo(f"test_postman_{os.getpid()}", tmp_path / ".stoa")
    with Service(tmp_path / ".stoa", database_url=url, command=DEMO, workers=1) as running:
        yield running


def sent(collection: Path, demo: Service, report: Path) -> list[tuple[str, int]]:
    """The name and the status of each request, and the failures, of one run with the credentials of the demo."""
    lines = (demo.folder / "demo.env").read_text().splitlines()
    variables = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    chosen = {"client_id": variables["STOA_CLIENT_ID"], "client_secret": variables["STOA_CLIENT_SECRET"]}
    options = [word for name, value in chosen.items() for word in ("--env-var", f"{name}={value}")]
    exported = ["--reporters", "json", "--reporter-json-export", report]
    done = run(NEWMAN / "node_modules/newman/bin/newman.js", "run", collection, *options, *exported, where=NEWMAN)
    ended: dict[str, Any] = json.loads(report.read_text())["run"]
    failures = [(each["source"]["name"], each["error"]["message"]) for each in ended["failures"]]
    assert (failures, done.returncode) == ([], 0), done.stdout + done.stderr
    return [(each["item"]["name"], each["response"]["code"]) for each in ended["executions"]]


@needs_npm
@pytest.mark.timeout(600)
@pytest.mark.long
def test_newman_runs_the_whole_collection_twice(demo: Service, tmp_path: Path) -> None:
    install(NEWMAN)
    collection = tmp_path / "collection.json"
    collection.write_bytes(httpx.get(f"{demo.url}/postman.json", timeout=60).content)
    for _ in range(2):  # a reader may run it again
        statuses = sent(collection, demo, tmp_path / "report.json")
        assert len(statuses) == len(ENDPOINTS) + 1
        assert all(200 <= status < 300 for _, status in statuses), statuses


def test_the_lock_file_of_newman_holds_versions_and_hashes_and_no_address() -> None:
    text = (NEWMAN / "package-lock.json").read_text()
    assert "://" not in text
    assert all("integrity" in each for name, each in json.loads(text)["packages"].items() if name)
