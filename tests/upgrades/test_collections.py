"""Release 0.3.0 does not know collections: it keeps those of a product that it changes, and this release applies the rules."""

import asyncio

import pytest

from tests.support.service import Account
from tests.upgrades.conftest import Releases
from tests.upgrades.orders_before import call

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.not_on_cluster("two releases are installed on one server"),
]


@pytest.fixture(scope="module")
def collections(releases: Releases) -> Releases:
    """A collection with a rule, and one without."""
    for words in (("picks", "--rule", "tag=linen"), ("gifts",)):
        done = releases.new.service.run(
            "collection", "create", releases.old.handle, words[0], "--title", "T", *words[1:]
        )
        assert done.returncode == 0, done.stderr
    return releases


async def until(account: Account, path: str, wanted: list[str]) -> None:
    """Wait until the background worker has applied the rules."""
    while [each["handle"] for each in (await call(account, "GET", path))["collections"]] != wanted:
        await asyncio.sleep(0.1)


async def test_a_product_keeps_its_collections_and_follows_the_rules(collections: Releases) -> None:
    old, new = collections.old, collections.new
    made = await call(old, "POST", "/products", {"name": "Shirt", "price": "5.00"})
    here = f"/products/{made['id']}"
    assert (await call(new, "GET", here))["collections"] == []
    await call(new, "PATCH", here, {"collections": [{"handle": "gifts", "position": 2}]})
    await call(old, "PATCH", here, {"tags": ["linen"]})
    listed = {"collection": "gifts", "sort": "position"}
    assert [each["id"] for each in await call(new, "GET", "/products", params=listed)] == [made["id"]]
    await until(new, here, ["gifts", "picks"])
    await call(old, "PATCH", here, {"tags": []})
    await until(new, here, ["gifts"])
    assert (await call(new, "GET", here))["collections"] == [{"handle": "gifts", "position": 2, "by_rule": False}]


async def test_a_new_product_of_the_old_release_enters_its_collections(collections: Releases) -> None:
    old, new = collections.old, collections.new
    made = await call(old, "POST", "/products", {"name": "Towel", "price": "5.00", "tags": ["linen"]})
    await until(new, f"/products/{made['id']}", ["picks"])
