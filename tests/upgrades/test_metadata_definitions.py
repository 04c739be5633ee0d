"""Release 0.3.0 does not know definitions: what it writes beside this release can be read, found, and corrected."""

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
BODIES: dict[str, dict[str, Any]] = {
    "product": {"name": "Mug", "price": "5.00"},
    "order": {"line_items": [{"name": "Repair", "unit_price": "5.00", "quantity": 1}]},
    "customer": {"email": "ada@example.com"},
}


class Releases:
    """0.3.0 and this release, which serve the same database."""

    def __init__(self, old: Account, new: Account) -> None:
        self.old, self.new = old, new


async def call(account: Account, method: str, path: str, **options: Any) -> httpx.Response:
    async with account.client() as client:
        return await client.request(method, path, **options)


@pytest.fixture(scope="module")
async def releases(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Releases]:
    folder = tmp_path_factory.mktemp("releases")
    installation = Installation(folder / "installed", exported())
    url = await new_database(f"definitions_{os.getpid()}")
    options: Any = {"database_url": url, "workers": 1, "access_log": False}
    old = Service(folder / "old", command=installation.command, **options)
    del old.environment["PYTHONPATH"]
    with old:
        account = await open_store(old)
        with Service(folder / "new", **options) as new:
            for resource in BODIES:
                key = "shared.months" if resource == "customer" else "months"
                words = ("define", resource, key, "--type", "integer", "--store", account.handle)
                done = new.run("metadata", *words)
                assert done.returncode == 0, done.stderr
            yield Releases(
                account, Account(new, account.handle, account.client_id, account.client_secret, account.token)
            )


@pytest.mark.parametrize("resource", BODIES)
async def test_a_value_of_the_old_release_is_read_found_and_corrected(releases: Releases, resource: str) -> None:
    key, path = "shared.months" if resource == "customer" else "months", f"/{resource}s"
    wrong = {**BODIES[resource], "metadata": {key: "two years"}}
    assert (await call(releases.new, "POST", path, json=wrong)).status_code == 422
    made = await call(releases.old, "POST", path, json=wrong)
    assert made.status_code == 201, made.text
    here = f"{path}/{made.json()['data']['id']}"
    assert (await call(releases.new, "GET", here)).json()["data"]["metadata"] == {key: "two years"}
    untouched = await call(releases.new, "PATCH", here, json={"tags": ["seen"]})
    assert untouched.json()["data"]["metadata"] == {key: "two years"}
    ranged = {f"metadata[{key}][gte]": "0"}
    assert (await call(releases.new, "GET", path, params=ranged)).json()["meta"]["total"] == 0
    again = await call(releases.new, "PATCH", here, json={"metadata": {key: "two years"}})
    assert again.json()["errors"][0]["pointer"] == f"/metadata/{key}"
    valid = await call(releases.old, "PATCH", here, json={"metadata": {key: 24}})
    assert valid.status_code == 200, valid.text
    assert (await call(releases.new, "GET", path, params=ranged)).json()["meta"]["total"] == 1
