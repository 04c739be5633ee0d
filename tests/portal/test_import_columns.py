"""Faults of a file in the words of a spreadsheet: lines, columns, the column that was meant, and the marked cell."""

import csv
import io

import pytest

from stoa.db.pool import Database
from stoa.imports.runner import run_pending
from stoa.portal.stores.import_columns import Place, in_words, marked_cells, place_of
from stoa.rest.problems import Fault
from tests.portal.test_import_actions import upload
from tests.support.people import SAME_ORIGIN, User
from tests.support.shops import Shop


@pytest.mark.parametrize(
    ("pointer", "place"),
    [
        ("", None),
        ("/price", Place("price")),
        ("/stock/on_hand", Place("stock.on_hand")),
        ("/metadata/tier", Place("metadata.tier")),
        ("/tags/3", Place("tags")),
        ("/collections/0/handle", Place("collections")),
        ("/variants/0/sku", Place("sku")),
        ("/variants/2/price", Place("variant.price", 2)),
        ("/variants/1/stock/on_hand", Place("stock.on_hand", 1)),
        ("/variants/1/option_values/Size", Place("option.Size", 1)),
        ("/variants/1/option_values", Place("option.", 1)),
        ("/variants/1", None),
        ("/metadata/a~1b", Place("metadata.a/b")),
    ],
)
def test_a_pointer_leads_to_a_column(pointer: str, place: Place | None) -> None:
    assert place_of(pointer) == place


def test_a_cell_is_marked_by_its_record_and_column() -> None:
    faults = [
        Fault("/variants/1/price", "invalid_money", "must be a price"),
        Fault("/variants/0/option_values", "option_mismatch", "are missing"),
        Fault("/name", "required", "is required"),
        Fault("", "invalid_format", "has more cells than the header"),
    ]
    columns = ["SKU", "Option.Size", "variant.price"]
    assert marked_cells(faults, columns) == {"1.2": "must be a price", "0.1": "are missing"}


def test_a_fault_is_a_sentence_with_the_column_that_was_meant() -> None:
    fault = Fault("/stock.onhand", "unknown_field", "is not a known field", {"did_you_mean": "stock.on_hand"})
    assert in_words(fault) == "stock.onhand is no column that Stoa knows. Did you mean stock.on_hand?"
    assert in_words(Fault("", "invalid_format", "has more cells")) == "Has more cells."


async def test_a_wrong_column_names_the_one_that_was_meant(maria: User, store_url: str) -> None:
    await upload(maria, f"{store_url}/import", "cups.csv", b"sku,name,price,stock.onhand\nA,B,1,2\n")
    assert "Did you mean stock.on_hand?" in maria.faults["file"]


async def test_the_page_marks_the_cell_in_its_line(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    await upload(
        maria, f"{store_url}/import", "cups.csv", b"sku,name,price,stock.on_hand\nA,Cup,1.00,2\nB,Bowl,2.00,lots\n"
    )
    path = maria.path
    await run_pending(db)
    await maria.open(path)
    assert ("Line 3" in maria.text, "<code>stock.on_hand</code>" in maria.text) == (True, True)
    await maria.open(f"{path}/fix")
    assert "Line 3" in maria.text
    marked = maria.response.text.split('name="cells[2.0.3]"')[0].rpartition("<input")[2]
    assert "wrong" in marked
    assert maria.response.text.count("input wrong") == 1


@pytest.mark.parametrize("resource", ["products", "customers"])
async def test_a_template_can_be_imported(shop: Shop, maria: User, store_url: str, db: Database, resource: str) -> None:
    await maria.open(f"{store_url}/import")
    data = {"_token": maria.token, "template": resource}
    answer = await maria.client.post(f"{store_url}/import/template", data=data, headers=SAME_ORIGIN)
    assert answer.headers["content-disposition"] == f'attachment; filename="{resource}.csv"'
    header, example = list(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert len(header) == len(example)
    await upload(maria, f"{store_url}/import", f"{resource}.csv", answer.content, resource=resource)
    assert maria.response.status_code == 200, maria.faults
    await run_pending(db)
    await maria.open(maria.path)
    assert "Every row can be written" in maria.text
