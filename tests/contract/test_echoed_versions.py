"""Every merge patch accepts the current version in its body, and refuses another one as a conflict."""

from typing import Any

import msgspec
import pytest
from tests.support.shops import Shop

from stoa.api import ENDPOINTS
from stoa.rest.endpoint import Endpoint, One


def _is_versioned(endpoint: Endpoint) -> bool:
    fields = msgspec.structs.fields(endpoint.resource) if endpoint.resource else ()
    return endpoint.method == "PATCH" and issubclass(endpoint.returns, One) and "version" in {f.name for f in fields}


PATCHES = [pytest.param(each, id=each.name) for each in ENDPOINTS if _is_versioned(each)]


@pytest.mark.parametrize("endpoint", PATCHES)
async def test_an_outdated_version_in_the_body_is_a_conflict(shop: Shop, endpoint: Endpoint) -> None:
    path = endpoint.path.format(**await shop.fill(endpoint.path))
    current = (await shop.client.patch(path, json={})).json()["data"]["version"]
    assert (await shop.client.patch(path, json={"version": current})).status_code == 200
    for outdated in (current - 1, current + 1):
        answer = await shop.client.patch(path, json={"version": outdated})
        problem: dict[str, Any] = answer.json()
        assert (answer.status_code, problem["code"], problem["current_version"]) == (412, "version_conflict", current)
        assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == [("/version", "version_conflict")]
    other = await shop.client.patch(path, json={"version": f"{current}"})
    assert [fault["code"] for fault in other.json()["errors"]] == ["read_only_field"]


async def test_an_outdated_version_in_an_item_is_a_conflict(shop: Shop) -> None:
    ids = await shop.fill("/products")
    product = (await shop.client.get(f"/products/{ids['product_id']}")).json()["data"]
    of_product: dict[str, Any] = {
        "op": "update",
        "id": product["id"],
        "data": {"version": product["version"] + 1, "price": "1.00"},
    }
    of_variant = {"id": ids["variant_id"], "data": {"version": product["variants"][0]["version"] + 1, "price": "1.00"}}
    for answer in (
        await shop.client.post("/products/batch", json={"items": [of_product]}),
        await shop.client.patch("/products/variants", json={"items": [of_variant]}),
    ):
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (412, "version_conflict")
        assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == [
            ("/items/0/data/version", "version_conflict")
        ]
    of_product["data"]["version"] = product["version"]
    assert (await shop.client.post("/products/batch", json={"items": [of_product]})).status_code == 200
