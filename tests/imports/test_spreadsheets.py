"""Files as spreadsheets and clients really send them, and words that say what is wrong with the others."""

import asyncio

import pytest

from stoa.imports.endpoints import LONGEST_WAIT_S, preferred_wait
from stoa.imports.runner import run_pending
from tests.imports.files import CSV, NDJSON, bring, lines, mug, refused, report
from tests.support.shops import Shop


async def test_columns_that_a_spreadsheet_left_empty_do_no_harm(shop: Shop) -> None:
    job = await bring(shop, b"sku,name,price,,\nA,Mug,1.00,,\nB,Bowl,2.00\n", CSV)
    assert (job["status"], job["counts"]["created"]) == ("succeeded", 2)


async def test_a_cell_below_no_name_fails_its_row(shop: Shop) -> None:
    job = await bring(shop, b"sku,name,price,\nA,Mug,1.00,\nB,Bowl,2.00,lost\n", CSV)
    assert (job["status"], job["counts"]["created"]) == ("partially_succeeded", 1)
    assert [(error["row"], error["detail"]) for error in job["errors"]] == [
        (2, "has a value in a column without a name")
    ]


async def test_lines_that_end_in_a_bare_carriage_return_are_named(shop: Shop) -> None:
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
def test_a_wait_is_read_as_its_standard_writes_it(prefer: str, seconds: int) -> None:
    assert preferred_wait({b"prefer": prefer.encode()}) == seconds


async def test_who_would_wait_for_hours_waits_as_long_as_one_may(shop: Shop) -> None:
    headers = {"content-type": NDJSON, "prefer": "wait=86400"}
    asked = asyncio.create_task(shop.client.post("/products/imports", content=lines([mug(1)]), headers=headers))
    while not asked.done():
        await run_pending(shop.db)
        await asyncio.sleep(0.01)
    assert (await asked).status_code == 200


async def test_a_row_hears_of_a_taken_key_at_its_own_place(shop: Shop) -> None:
    await bring(shop, lines([mug(1, variants=[{"external_id": "pos-1", "sku": "MUG-1"}])]))
    new = mug(2, variants=[{"sku": "MUG-2", "external_id": "pos-1"}])
    job = await bring(shop, lines([new, mug(3, variants=[{"sku": "MUG-3"}, {"sku": "MUG-3"}])]))
    found = [(error["row"], error["pointer"], error["code"]) for error in job["errors"]]
    assert found == [
        (1, "/variants/0/external_id", "external_id_taken"),
        (2, "/variants/1/option_values", "option_mismatch"),
    ]


async def test_a_product_may_get_its_options_from_a_file(shop: Shop) -> None:
    await bring(shop, lines([mug(1)]))
    row = {"sku": "MUG-1", "options": [{"name": "Colour", "values": ["Red", "Blue"]}], "variants": [
        {"sku": "MUG-1", "option_values": {"Colour": "Blue"}}, {"sku": "MUG-1R", "option_values": {"Colour": "Red"}},
    ]}  # fmt: skip
    job = await bring(shop, lines([row]))
    assert job["status"] == "succeeded", await report(shop, job["id"])
    (product,) = (await shop.client.get("/products", params={"include": "variants"})).json()["data"]
    assert [(variant["sku"], variant["title"]) for variant in product["variants"]] == [
        ("MUG-1", "Blue"),
        ("MUG-1R", "Red"),
    ]
