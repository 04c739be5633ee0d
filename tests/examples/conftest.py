"""A running service for the example apps, and the command that starts an example in each language."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.generated.node import NODE, needs_npm
from tests.support.service import Service, migrated_database
from tests.typescript.conftest import package

__all__ = ["package"]
Program = Callable[[str], list[str | Path]]


@pytest.fixture(scope="package")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    url = await migrated_database(f"test_examples_{os.getpid()}")
    folder = tmp_path_factory.mktemp("examples-service")
    with Service(folder, database_url=url, workers=1, webhook_allow="127.0.0.0/8") as running:
        yield running


@pytest.fixture(params=["python", pytest.param("typescript", marks=needs_npm)])
def program(request: pytest.FixtureRequest) -> Program:
    """The command of an example by its name, such as `stock-sync`."""
    if request.param == "python":
        folder = ROOT / "examples/python"
        return lambda name: [sys.executable, "-W", "error", folder / f"{name.replace('-', '_')}.py"]
    compiled: Path = request.getfixturevalue("package").parent / "examples/dist"
    return lambda name: [NODE, compiled / f"{name}.js"]
