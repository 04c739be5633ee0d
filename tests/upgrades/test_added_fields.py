"""A release that adds fields serves beside this one: both write the same rows in turn, and no value is lost."""

import json
import os
from typing import Any

import httpx
import pytest

from stoa.db.connection import connect
from tests.support.service import Account, Service, migrated_database
from tests.upgrades.added_fields import DEFAULT, FIELD, write_release
from tests.upgrades.releases import ROOT

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.not_on_cluster("two releases are installed on one server"),
]
LINES = [{"name": "Gift wrap", "unit_price": "4.00", "quantity": 1, "requires_shipping": False}]
# Each resource with a body to create it, and a change that has nothing to do with the added field.
RESOURCES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "/products": ({"name": "Mug", "price": "5.00"}, {"brand": "Kiln"}),
    "/customers": ({"first_name": "Ada", "email": "ada@example.com"}, {"company": "Mill"}),
    "/orders": ({"line_items": LINES}, {"note": "Ring twice"}),
}


class Releases:
    """This release and the next one, which serve the same database."""

    def __init__(self, old: Account, new: Account) -> None:
        self.old, self.new = old, new

    async def call(self, account: Account, method: str, path: str, **options: Any) -> Any:
        async with account.client() as client:
            answer: httpx.Response = await client.request(method, path, **options)
            assert answer.is_success, f"{method} {path}: {answer.text}"
            return answer.json()["data"]


@pytest.fixture(scope="module")
async def releases(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("releases")
    source = write_release(folder / "next")
    url = await migrated_database(f"added_{os.getpid()}")
    options: Any = {"database_url": url, "workers": 1, "access_log": False}
    with Service(folder / "old", **options) as old:
        account = await old.account("added")
        new = Service(folder / "new", **options)
        path = [source / "src", ROOT / "sdk/python/src", new.environment["PYTHONPATH"]]
        new.environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
        with new:
            yield Releases(
                account, Account(new, account.handle, account.client_id, account.client_secret, account.token)
            )


def numbered(body: dict[str, Any], number: int) -> dict[str, Any]:
    return {**body, "email": f"ada{number}@example.com"} if "email" in body else body


@pytest.mark.parametrize("path", RESOURCES)
async def test_a_row_of_this_release_shows_the_default_and_keeps_what_the_next_one_writes(
    releases: Releases, path: str
) -> None:
    body, change = RESOURCES[path]
    made = await releases.call(releases.old, "POST", path, json=numbered(body, 1))
    here = f"{path}/{made['id']}"
    shown = await releases.call(releases.new, "GET", here)
    assert shown[FIELD] == DEFAULT
    assert [each[FIELD] for each in await releases.call(releases.new, "GET", path, params={"ids": made["id"]})] == [
        DEFAULT
    ]
    await releases.call(releases.new, "PATCH", here, json={FIELD: "by the next"})
    await releases.call(releases.old, "PATCH", here, json=change)
    after = await releases.call(releases.new, "GET", here)
    assert (after[FIELD], *change.items()) == ("by the next", *((name, after[name]) for name in change))
    await releases.call(releases.new, "PATCH", here, json={FIELD: "once more"})
    again = await releases.call(releases.old, "PATCH", here, json=dict.fromkeys(change))
    assert (await releases.call(releases.new, "GET", here))[FIELD] == "once more"
    assert again["version"] == after["version"] + 2


async def test_variants_and_line_items_keep_what_the_next_release_writes(releases: Releases) -> None:
    variants = [
        {"sku": "A-1", FIELD: "a", "option_values": {"Size": "S"}},
        {"sku": "A-2", FIELD: "b", "option_values": {"Size": "M"}},
    ]
    body = {"name": "Shirt", "price": "9.00", "options": [{"name": "Size", "values": ["S", "M"]}], "variants": variants}
    made = await releases.call(releases.new, "POST", "/products", json=body)
    first = made["variants"][0]["id"]
    here = f"/products/{made['id']}"
    await releases.call(releases.old, "PATCH", f"{here}/variants/{first}", json={"barcode": "4006381333931"})
    await releases.call(releases.old, "PATCH", here, json={"price": "10.00"})
    found = await releases.call(releases.new, "GET", f"{here}/variants")
    assert [(each[FIELD], each["effective_price"]) for each in found] == [("a", "10.00"), ("b", "10.00")]
    order = await releases.call(releases.new, "POST", "/orders", json={"line_items": LINES, FIELD: "of the order"})
    assert [line[FIELD] for line in order["line_items"]] == [DEFAULT]
    changed = {"quantity": 3}
    line = f"/orders/{order['id']}/products/{order['line_items'][0]['id']}"
    await releases.call(releases.old, "PATCH", line, json=changed)
    await releases.call(releases.old, "PUT", f"/orders/{order['id']}/status", json={"payment_status": "paid"})
    after = await releases.call(releases.new, "GET", f"/orders/{order['id']}")
    assert (after[FIELD], after["line_items"][0][FIELD], after["line_items"][0]["quantity"]) == (
        "of the order",
        DEFAULT,
        3,
    )


async def test_events_of_both_releases_contain_the_field_once_the_next_one_has_migrated(releases: Releases) -> None:
    made = await releases.call(releases.old, "POST", "/products", json={"name": "Bowl", "price": "7.00"})
    await releases.call(releases.old, "PATCH", f"/products/{made['id']}", json={"price": "8.00"})
    db = await connect(releases.old.service.database_url)
    try:
        rows = await db.fetch(
            "SELECT type, data FROM events WHERE resource_type = 'product' AND resource_id = $1 ORDER BY position",
            made["id"],
        )
    finally:
        await db.close()
    assert [(name, json.loads(data)[FIELD]) for name, data in rows] == [
        ("product.created", DEFAULT),
        ("product.updated", DEFAULT),
    ]
