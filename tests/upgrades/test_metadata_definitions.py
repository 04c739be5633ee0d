"""Release 0.3.0 does not know definitions: what it writes beside this release can be read, found, and corrected."""

from typing import Any

import httpx
import pytest

from tests.support.service import Account
from tests.upgrades.conftest import Releases

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.not_on_cluster("two releases are installed on one server"),
]
BODIES: dict[str, dict[str, Any]] = {
    "product": {"name": "Mug", "price": "5.00"},
    "order": {"line_items": [{"name": "Repair", "unit_price": "5.00", "quantity": 1}]},
    "customer": {"email": "ada@example.com"},
}


async def call(account: Account, method: str, path: str, **options: Any) -> httpx.Response:
    async with account.client() as client:
        return await client.request(method, path, **options)


@pytest.fixture(scope="module")
def defined(releases: Releases) -> Releases:
    """A definition for each kind of resource, in this release."""
    for resource in BODIES:
        key = "shared.months" if resource == "customer" else "months"
        words = ("define", resource, key, "--type", "integer", "--store", releases.old.handle)
        done = releases.new.service.run("metadata", *words)
        assert done.returncode == 0, done.stderr
    return releases


@pytest.mark.parametrize("resource", BODIES)
async def test_a_value_of_the_old_release_is_read_found_and_corrected(defined: Releases, resource: str) -> None:
    key, path = "shared.months" if resource == "customer" else "months", f"/{resource}s"
    wrong = {**BODIES[resource], "metadata": {key: "two years"}}
    assert (await call(defined.new, "POST", path, json=wrong)).status_code == 422
    made = await call(defined.old, "POST", path, json=wrong)
    assert made.status_code == 201, made.text
    here = f"{path}/{made.json()['data']['id']}"
    assert (await call(defined.new, "GET", here)).json()["data"]["metadata"] == {key: "two years"}
    untouched = await call(defined.new, "PATCH", here, json={"tags": ["seen"]})
    assert untouched.json()["data"]["metadata"] == {key: "two years"}
    ranged = {f"metadata[{key}][gte]": "0"}
    assert (await call(defined.new, "GET", path, params=ranged)).json()["meta"]["total"] == 0
    again = await call(defined.new, "PATCH", here, json={"metadata": {key: "two years"}})
    assert again.json()["errors"][0]["pointer"] == f"/metadata/{key}"
    valid = await call(defined.old, "PATCH", here, json={"metadata": {key: 24}})
    assert valid.status_code == 200, valid.text
    assert (await call(defined.new, "GET", path, params=ranged)).json()["meta"]["total"] == 1
