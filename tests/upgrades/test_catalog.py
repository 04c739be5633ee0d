"""Release 0.3.0 does not know collections and stored pictures: a product that it changes keeps its collections, and what Stoa knows of
its images; this release applies the rules."""

import asyncio
from typing import Any

import pytest

from tests.pictures.samples import picture, upload
from tests.support.service import Account
from tests.upgrades.conftest import Releases
from tests.upgrades.orders_before import call

_NOWHERE = "http://[::1]:1/a.jpg"  # an address that is never dialed, so that the fetch fails

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


async def fetched(account: Account, path: str) -> list[dict[str, Any]]:
    """The images of a product after the background worker has tried to fetch them."""
    while True:
        images = (await call(account, "GET", path))["images"]
        if all(image["status"] != "pending" for image in images):
            return images
        await asyncio.sleep(0.1)


async def test_an_image_that_stays_keeps_its_size_its_status_and_its_source(releases: Releases) -> None:
    old, new = releases.old, releases.new
    sent = [upload(picture()), {"source_url": _NOWHERE}, upload(picture(40, 30))]
    made = await call(new, "POST", "/products", {"name": "Mug", "price": "5.00", "images": sent})
    here = f"/products/{made['id']}"
    first, second, third = await fetched(new, here)
    assert (second["status"], second["source_url"]) == ("failed", _NOWHERE)
    kept = [{"url": second["url"], "alt": "On a table"}, {"id": first["id"], "url": first["url"]}]
    await call(old, "PATCH", here, {"images": [*kept, {"url": "https://cdn.example.com/new.jpg"}]})
    moved, still, added = (await call(new, "GET", here))["images"]
    assert moved == {**second, "alt": "On a table", "position": 1}
    assert still == {**first, "position": 2}
    assert (added["status"], added["width"], added["id"]) == ("ready", None, third["id"] + 1)
    await call(old, "PATCH", here, {"images": [{"id": first["id"], "url": "https://cdn.example.com/other.jpg"}]})
    [other] = (await call(new, "GET", here))["images"]
    assert (other["id"], other["width"]) == (first["id"], None), "another picture has another size"
    await call(old, "PATCH", here, {"name": "Cup"})
    assert (await call(old, "PATCH", here, {"images": []}))["images"] == []
    assert (await call(new, "GET", here))["images"] == []


async def test_a_picture_is_fetched_although_the_old_release_changed_its_product(releases: Releases) -> None:
    old, new = releases.old, releases.new
    body = {"name": "Jar", "price": "5.00", "images": [{"source_url": _NOWHERE}]}
    here = f"/products/{(await call(new, 'POST', '/products', body))['id']}"
    await call(old, "PATCH", here, {"images": [{"url": _NOWHERE, "alt": "A jar"}]})
    [image] = await fetched(new, here)
    assert (image["status"], image["alt"], image["source_url"]) == ("failed", "A jar", _NOWHERE)
    assert image["reason"]
