"""The previous release and this one, which serve the same database; the tests of this folder share them."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from stoa.db.connection import connect
from tests.support.service import Account, Service, new_database
from tests.upgrades.orders_before import place_before
from tests.upgrades.releases import Installation, exported
from tests.upgrades.test_upgrade import open_store


@dataclass(frozen=True)
class Releases:
    """One app of one store, as a caller of each release."""

    old: Account
    new: Account
    placed: dict[str, int]  # orders that the old release placed before this one migrated the database
    editions: list[int]  # of the documents of orders after the migration


@pytest.fixture(scope="package")
async def releases(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Releases]:
    folder = tmp_path_factory.mktemp("releases")
    installation = Installation(folder / "installed", exported())
    url = await new_database(f"releases_{os.getpid()}")
    options: Any = {"database_url": url, "workers": 1, "access_log": False, "webhook_allow": "127.0.0.0/8"}
    old = Service(folder / "old", command=installation.command, **options)
    del old.environment["PYTHONPATH"]
    with old:
        account = await open_store(old)
        placed = await place_before(account)
        with Service(folder / "new", **options) as new:
            yield Releases(account, replace(account, service=new), placed, await _editions(url))


async def _editions(url: str) -> list[int]:
    db = await connect(url)
    found = await db.fetch("SELECT DISTINCT edition FROM orders")
    await db.close()
    return [row[0] for row in found]
