"""The demo that the pages speak of, running: whoever pastes from them has called `make demo` first."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.service import Service, new_database, until

# What the tests' service appends to its command is not read here: it is the demo that runs.
DEMO = (sys.executable, "-c", "from stoa.cli import cli; cli(['demo'])")


@pytest.fixture(scope="session")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    here = tmp_path_factory.mktemp("demo")
    url = await new_database(f"test_docs_{os.getpid()}")
    with Service(here / ".stoa", database_url=url, command=DEMO, workers=1) as running:
        until((here / ".stoa/demo.env").exists, "the demo keeps its credentials")
        yield running


@pytest.fixture(scope="session")
def folder(demo: Service) -> Path:
    """Where `make demo` was called: `.stoa/demo.env` lies in it."""
    return demo.folder.parent


@pytest.fixture(scope="session")
def variables(folder: Path) -> dict[str, str]:
    lines = (folder / ".stoa/demo.env").read_text().splitlines()
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)


@pytest.fixture(scope="session")
def api(variables: dict[str, str]) -> Iterator[httpx.Client]:
    credentials = (variables["STOA_CLIENT_ID"], variables["STOA_CLIENT_SECRET"])
    asked = httpx.post(variables["STOA_AUTH_URL"], auth=credentials, data={"grant_type": "client_credentials"})
    bearer = {"authorization": f"Bearer {asked.json()['access_token']}"}
    with httpx.Client(base_url=variables["STOA_BASE_URL"] + "/api/v3/app", headers=bearer) as client:
        yield client
