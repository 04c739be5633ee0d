"""Documents that earlier releases stored: this release reads, shows, changes, exports and delivers each of them."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

import stoa_client.models as sdk
from stoa.access.operator import find_store
from stoa.accounts.ownership import give
from stoa.api import ENDPOINTS
from stoa.db.editions import edition_of
from stoa.db.pool import Database
from stoa.orders import input_rows as orders
from stoa.products import documents as products
from stoa.settings import Settings
from stoa.store_data.export import export_store
from tests.contract.test_endpoints import described, schema_of
from tests.support.people import User, as_operator, maria
from tests.support.shops import Shop

__all__ = ["maria"]
FILES = sorted((Path(__file__).parent / "documents").glob("*.json"))
ENDPOINT = {endpoint.name: endpoint for endpoint in ENDPOINTS}
# For each resource: the operation that reads it, a change of it, and its model in the Python SDK.
RESOURCES: dict[str, tuple[str, dict[str, Any], type]] = {
    "products": ("get_product", {"brand": "Another mill"}, sdk.Product),
    "customers": ("get_customer", {"company": "Another mill"}, sdk.Customer),
    "orders": ("get_order", {"tags": ["seen"]}, sdk.Order),
}
Recorded = dict[str, list[dict[str, Any]]]


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
async def recorded(request: pytest.FixtureRequest, shop: Shop) -> Recorded:
    """The rows of a release, stored in the store of the test."""
    rows: Recorded = json.loads(request.param.read_text())
    for table, found in rows.items():
        for row in found:
            columns = ", ".join(row)
            await shop.db.execute(
                f"INSERT INTO {table} ({columns}) SELECT {columns} FROM json_populate_record(NULL::{table}, $1::json)",
                json.dumps({**row, "store_id": shop.store_id}),
            )
    return rows


def test_a_release_is_recorded() -> None:
    assert "0.2.0" in [file.stem for file in FILES]


@pytest.mark.parametrize("resource", RESOURCES)
async def test_the_api_returns_the_document_complete_and_changes_it(
    shop: Shop, recorded: Recorded, resource: str
) -> None:
    name, change, model = RESOURCES[resource]
    [row] = recorded[resource]
    path = f"/{resource}/{row['id']}"
    assert described(ENDPOINT[name])
    before = (await shop.client.get(path)).json()
    jsonschema.validate(before, schema_of(ENDPOINT[name], 200), cls=jsonschema.Draft202012Validator)
    msgspec.convert(before["data"], model)
    listed = (await shop.client.get(f"/{resource}")).json()["data"]
    assert listed == [{key: value for key, value in before["data"].items() if key != "variants"}]
    changed = await shop.client.patch(path, json=change)
    assert changed.status_code == 200, changed.text
    after = changed.json()["data"]
    same = {key for key in before["data"] if key not in {*change, "updated_at", "version", "variants"}}
    assert {key: after[key] for key in same} == {key: before["data"][key] for key in same}
    assert change.items() <= after.items()
    [[data]] = await shop.db.fetch(
        "SELECT data FROM events WHERE store_id = $1 AND resource_id = $2 ORDER BY position DESC LIMIT 1",
        shop.store_id,
        row["id"],
    )
    assert json.loads(data).keys() >= after.keys() - {"metadata"}


async def test_a_change_stores_the_document_in_the_current_edition(shop: Shop, recorded: Recorded) -> None:
    [order] = recorded["orders"]
    [first, *_] = recorded["variants"]
    await shop.client.patch(f"/orders/{order['id']}", json={"note": "Seen"})
    await shop.client.patch(f"/products/{first['product_id']}/variants/{first['id']}", json={"barcode": "77"})
    stored = await shop.db.fetch("SELECT edition FROM orders WHERE store_id = $1", shop.store_id)
    assert [tuple(row) for row in stored] == [(edition_of(orders.PARTS),)]
    stored = await shop.db.fetch(
        "SELECT edition FROM variants WHERE store_id = $1 AND id = $2", shop.store_id, first["id"]
    )
    assert [tuple(row) for row in stored] == [(products.VARIANT_EDITION,)]


async def test_the_portal_shows_the_document(
    shop: Shop, recorded: Recorded, maria: User, db: Database, settings: Settings
) -> None:
    await give(as_operator(db, settings), maria.email, store=shop.store.handle)
    for resource in RESOURCES:
        for path in (f"/{resource}", f"/{resource}/{recorded[resource][0]['id']}"):
            page = await maria.open(f"/portal/stores/{shop.store.handle}{path}")
            assert page.status_code == 200, path


async def test_the_export_contains_the_document_as_the_api_returns_it(
    shop: Shop, recorded: Recorded, settings: Settings
) -> None:
    row = await find_store(shop.db, shop.store.handle)
    text = b"".join([part async for part in export_store(shop.db, row, settings)])
    lines = [json.loads(line) for line in text.splitlines()]
    found = {(line["type"], line["data"]["id"]): line["data"] for line in lines if line["type"] != "store"}
    [order], [product] = recorded["orders"], recorded["products"]
    shown = (await shop.client.get(f"/orders/{order['id']}")).json()["data"]
    assert found["order", order["id"]] == shown
    variants = (await shop.client.get(f"/products/{product['id']}/variants")).json()["data"]
    assert [found["variant", each["id"]] for each in variants] == variants
