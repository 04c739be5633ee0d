"""Release 0.3.0 does not know collections: it keeps those of a product that it changes, and this release applies the rules."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.service import Account, Service, new_database
from tests.upgrades.releases import Installation, exported
from tests.upgrades.test_upgrade import open_store

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.not_on_cluster("two releases are installed on one server"),
]


async def call(account: Account, method: str, path: str, **options: Any) -> Any:
    async with account.client() as client:
        answer: httpx.Response = await client.request(method, path, **options)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer.json()["data"]


@pytest.fixture(scope="module")
async def releases(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Account, Account]]:
    """0.3.0 and this release, which serve the same database."""
    folder = tmp_path_factory.mktemp("releases")
    installation = Installation(folder / "installed", exported())
    url = await new_database(f"collections_{os.getpid()}")
    options: Any = {"database_url": url, "workers": 1, "access_log": False}
    old = Service(folder / "old", command=installation.command, **options)
    del old.environment["PYTHONPATH"]
    with old:
        account = await open_store(old)
        with Service(folder / "new", **options) as new:
            for words in (("picks", "--rule", "tag=linen"), ("gifts",)):
                done = new.run("collection", "create", account.handle, words[0], "--title", "T", *words[1:])
                assert done.returncode == 0, done.stderr
            yield account, Account(new, account.handle, account.client_id, account.client_secret, account.token)


async def until(account: Account, path: str, wanted: list[str]) -> None:
    """Wait until the background worker has applied the rules."""
    while [each["handle"] for each in (await call(account, "GET", path))["collections"]] != wanted:
        await asyncio.sleep(0.1)


async def test_a_product_keeps_its_collections_and_follows_the_rules(releases: tuple[Account, Account]) -> None:
    old, new = releases
    made = await call(old, "POST", "/products", json={"name": "Shirt", "price": "5.00"})
    here = f"/products/{made['id']}"
    assert (await call(new, "GET", here))["collections"] == []
    await call(new, "PATCH", here, json={"collections": [{"handle": "gifts", "position": 2}]})
    await call(old, "PATCH", here, json={"tags": ["linen"]})
    listed = {"collection": "gifts", "sort": "position"}
    assert [each["id"] for each in await call(new, "GET", "/products", params=listed)] == [made["id"]]
    await until(new, here, ["gifts", "picks"])
    await call(old, "PATCH", here, json={"tags": []})
    await until(new, here, ["gifts"])
    assert (await call(new, "GET", here))["collections"] == [{"handle": "gifts", "position": 2, "by_rule": False}]


async def test_a_new_product_of_the_old_release_enters_its_collections(releases: tuple[Account, Account]) -> None:
    old, new = releases
    made = await call(old, "POST", "/products", json={"name": "Towel", "price": "5.00", "tags": ["linen"]})
    await until(new, f"/products/{made['id']}", ["picks"])
