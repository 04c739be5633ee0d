"""The OpenAPI document where it differs from what msgspec would generate."""

from typing import Any

import pytest
from tests.support.shops import Shop

from stoa.description import openapi
from stoa.reference.document import inlined
from stoa.rest.headers import MOST_TAG_BYTES

DESCRIPTION: dict[str, Any] = openapi()
OPERATIONS: dict[str, Any] = {
    operation["operationId"]: inlined(operation, DESCRIPTION)
    for path in DESCRIPTION["paths"].values()
    for operation in path.values()
}


@pytest.mark.parametrize(("schema", "field"), [("NewProduct", "weight"), ("NewAddress", "latitude")])
def test_an_exact_number_is_described_as_a_number(schema: str, field: str) -> None:
    [number, _null] = DESCRIPTION["components"]["schemas"][schema]["properties"][field]["anyOf"]
    assert number["type"] == "number"
    assert "format" not in number


def test_a_batch_has_no_if_match_parameter() -> None:
    names = {name: [each["name"] for each in OPERATIONS[name]["parameters"]] for name in OPERATIONS}
    assert "If-Match" in names["update_variant"]
    assert "If-Match" not in names["update_variants"]


def test_an_operation_with_a_dry_run_documents_its_response() -> None:
    for name in ("create_order", "redeliver_webhook"):
        assert "200" in OPERATIONS[name]["responses"]


async def test_the_longest_documented_etag_list_is_accepted(shop: Shop) -> None:
    note = (await shop.client.post("/notes", json={"title": "a", "price": "1.00"})).json()["data"]
    path, longest = f"/notes/{note['id']}", '"' + "x" * (MOST_TAG_BYTES - 2) + '"'
    assert (await shop.client.get(path, headers={"if-none-match": longest})).status_code == 200
    assert (await shop.client.patch(path, json={"title": "b"}, headers={"if-match": longest})).status_code == 412
    for answer in (
        await shop.client.get(path, headers={"if-none-match": longest + "x"}),
        await shop.client.patch(path, json={"title": "b"}, headers={"if-match": longest + "x"}),
        await shop.client.delete(path, headers={"if-match": longest + "x"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (431, "headers_too_large")
