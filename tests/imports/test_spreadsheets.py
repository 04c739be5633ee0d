"""Files in the forms that spreadsheets and clients produce."""

import asyncio

import pytest

from stoa.imports.endpoints import LONGEST_WAIT_S, preferred_wait
from stoa.imports.runner import run_pending
from tests.imports.files import CSV, NDJSON, import_file, lines, mug, refused, report
from tests.support.shops import Shop


async def test_empty_columns_of_a_spreadsheet_are_ignored(shop: Shop) -> None:
    job = await import_file(shop, b"sku,name,price,,\nA,Mug,1.00,,\nB,Bowl,2.00\n", CSV)
    assert (job["status"], job["counts"]["created"]) == ("succeeded", 2)


async def test_a_value_in_a_column_without_a_name_fails_its_row(shop: Shop) -> None:
    job = await import_file(shop, b"sku,name,price,\nA,Mug,1.00,\nB,Bowl,2.00,lost\n", CSV)
    assert (job["status"], job["counts"]["created"]) == ("partially_succeeded", 1)
    assert [(error["row"], error["detail"]) for error in job["errors"]] == [
        (2, "has a value in a column without a name")
    ]


async def test_lines_that_end_in_a_carriage_return_are_reported(shop: Shop) -> None:
    status, problem = await refused(shop, b"sku,name,price\rA,Mug,1.00\r", CSV)
    assert status == 422
    assert "carriage return" in problem["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        ("wait=7", 7),
        ("WAIT=7", 7),
        ('wait="7"', 7),
        ("wait = 7", 7),
        ("respond-async, wait=7", 7),
        ("wait=99999", LONGEST_WAIT_S),
        ("await=7", 0),
        ("wait=-7", 0),
        ("wait=7x", 0),
        ("wait", 0),
    ],
)
def test_prefer_wait_follows_its_rfc(prefer: str, seconds: int) -> None:
    assert preferred_wait({b"prefer": prefer.encode()}) == seconds


async def test_a_long_wait_is_limited(shop: Shop) -> None:
    headers = {"content-type": NDJSON, "prefer": "wait=86400"}
    asked = asyncio.create_task(shop.client.post("/products/imports", content=lines([mug(1)]), headers=headers))
    while not asked.done():
        await run_pending(shop.db)
        await asyncio.sleep(0.01)
    assert (await asked).status_code == 200


async def test_a_taken_key_of_a_nested_variant_is_reported_at_its_field(shop: Shop) -> None:
    await import_file(shop, lines([mug(1, variants=[{"external_id": "pos-1", "sku": "MUG-1"}])]))
    new = mug(2, variants=[{"sku": "MUG-2", "external_id": "pos-1"}])
    job = await import_file(shop, lines([new, mug(3, variants=[{"sku": "MUG-3"}, {"sku": "MUG-3"}])]))
    found = [(error["row"], error["pointer"], error["code"]) for error in job["errors"]]
    assert found == [
        (1, "/variants/0/external_id", "external_id_taken"),
        (2, "/variants/1/option_values", "option_mismatch"),
    ]


async def test_a_file_can_add_options_to_a_product(shop: Shop) -> None:
    await import_file(shop, lines([mug(1)]))
    row = {"sku": "MUG-1", "options": [{"name": "Color", "values": ["Red", "Blue"]}], "variants": [
        {"sku": "MUG-1", "option_values": {"Color": "Blue"}}, {"sku": "MUG-1R", "option_values": {"Color": "Red"}},
    ]}  # fmt: skip
    job = await import_file(shop, lines([row]))
    assert job["status"] == "succeeded", await report(shop, job["id"])
    (product,) = (await shop.client.get("/products", params={"include": "variants"})).json()["data"]
    assert [(variant["sku"], variant["title"]) for variant in product["variants"]] == [
        ("MUG-1", "Blue"),
        ("MUG-1R", "Red"),
    ]
