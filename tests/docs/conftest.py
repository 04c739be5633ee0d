"""Fixtures that run the demo, because readers run `make demo` before they paste the examples."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.demos import prepared_demo
from tests.support.service import Service

# `Service` appends arguments for `stoa serve`; this command ignores them and runs the demo.
DEMO = (sys.executable, "-c", "from stoa.cli import cli; cli(['demo'])")


@pytest.fixture(scope="package")
async def demo(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    folder = tmp_path_factory.mktemp("demo")
    url = await prepared_demo(f"test_docs_{os.getpid()}", folder / ".stoa")
    with Service(folder / ".stoa", database_url=url, command=DEMO, workers=1) as running:
        yield running


@pytest.fixture(scope="package")
def folder(demo: Service) -> Path:
    """The folder in which the demo runs; it contains `.stoa/demo.env`."""
    return demo.folder.parent


@pytest.fixture(scope="package")
def variables(folder: Path) -> dict[str, str]:
    lines = (folder / ".stoa/demo.env").read_text().splitlines()
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)


@pytest.fixture(scope="package")
def api(variables: dict[str, str]) -> Iterator[httpx.Client]:
    credentials = (variables["STOA_CLIENT_ID"], variables["STOA_CLIENT_SECRET"])
    response = httpx.post(variables["STOA_AUTH_URL"], auth=credentials, data={"grant_type": "client_credentials"})
    headers = {"authorization": f"Bearer {response.json()['access_token']}"}
    with httpx.Client(base_url=variables["STOA_BASE_URL"] + "/api/v3/app", headers=headers) as client:
        yield client
