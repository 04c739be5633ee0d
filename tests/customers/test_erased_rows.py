"""Which rows of imports an erasure empties: those that name the person, in any spelling, and none of other people."""

import csv
import io
import json
from typing import Any

import msgspec
import pytest

from stoa.imports.runner import run_pending
from tests.customers.people import created
from tests.support.shops import Shop

NDJSON, CSV = "application/x-ndjson", "text/csv"
ANN: dict[str, Any] = {"email": "Ann@example.com", "phone": "+493012345"}
# Each is the value of another person, or names another one.
OF_OTHERS: list[dict[str, Any]] = [
    {"email": "joann@example.com"},
    {"email": "jo.ann@example.com"},
    {"email": "jo+ann@example.com"},
    {"email": "jo-ann@example.com"},
    {"email": "o'ann@example.com"},
    {"email": "jo/ann@example.com"},
    {"email": "jöann@example.com"},
    {"email": "jo\u0308ann@example.com"},
    {"email": "李ann@example.com"},
    {"email": "ann@example.com.au"},
    {"email": "ann@example.com-mail.example"},
    {"email": "ann@example.community"},
    {"email": "a1@other.example", "phone": "+4930123456"},
    {"email": "a2@other.example", "phone": "+49 30 12345-67"},
    {"email": "a3@other.example", "phone": "+44 9301 234567"},
    {"email": "a4@other.example", "note": "Call JoAnn@example.com, +49 (30) 123 45 678, or 1493012345."},
    {"email": "a5@other.example", "tags": ["4930", "12345"]},
    {"email": "a6@other.example", "note": "o'ann@example.com or jöann@example.com"},
]
OF_ANN: list[dict[str, Any]] = [
    {"email": "ANN@EXAMPLE.com"},
    {"email": " ann@example.com "},
    {"email": "b1@other.example", "phone": "0049 (30) 12345"},
    {"email": "b2@other.example", "phone": "+49 030 12345"},
    {"email": "b3@other.example", "note": "The same as <ann@example.com>."},
    {"email": "b4@other.example", "note": "mailto:ann@example.com"},
    {"email": "b5@other.example", "note": "first line\nann@example.com\nlast line"},
    {"email": "b6@other.example", "note": "Write to 'ann@example.com'."},
    {"email": "b7@other.example", "note": "担当\uff1aann@example.comまで"},
    {"email": "b8@other.example", "note": "49-30-123.45; in the evening"},
    {"email": "b9@other.example", "note": "+49 30 12345 +49 30 999999"},
    {"email": "b10@other.example", "tags": ["vip", "ann@example.com"]},
    {"email": "b11@other.example", "note": "Office: +49 (0)30 12345. Home: see above"},
    {"email": "b12@other.example", "note": "011 49 30 12345 from abroad"},
    {"email": "b13@other.example", "note": "ann@example.com\u200b"},
]


def csv_of(rows: list[dict[str, Any]], *, in_json: bool) -> str:
    table = io.StringIO()
    writer = csv.writer(table)
    if in_json:
        writer.writerows([["json"], *([msgspec.json.encode(row).decode()] for row in rows)])
    else:
        cells = [[row["email"], row.get("phone"), row.get("note"), "|".join(row.get("tags", []))] for row in rows]
        writer.writerows([["email", "phone", "note", "tags"], *cells])
    return table.getvalue()


async def upload(shop: Shop, content: str, media: str = NDJSON) -> str:
    """Queue an import of customers; returns its path."""
    answer = await shop.client.post("/customers/imports", content=content.encode(), headers={"content-type": media})
    assert answer.status_code == 202, answer.text
    return f"/customers/imports/{answer.json()['data']['id']}"


async def failed_rows(shop: Shop, path: str) -> list[int]:
    await run_pending(shop.db)
    return [error["row"] for error in (await shop.client.get(path)).json()["data"]["errors"]]


@pytest.mark.parametrize("form", ["ndjson", "escaped", "csv", "json cells"])
async def test_an_erasure_empties_the_waiting_rows_that_name_a_person_and_no_others(shop: Shop, form: str) -> None:
    await run_pending(shop.db)
    ann = await created(shop, ANN)
    rows = [*OF_OTHERS, *OF_ANN]
    match form:
        case "ndjson":
            path = await upload(shop, "".join(msgspec.json.encode(row).decode() + "\n" for row in rows))
        case "escaped":
            path = await upload(shop, "".join(json.dumps(row).replace("@", "\\u0040") + "\n" for row in rows))
        case _:
            path = await upload(shop, csv_of(rows, in_json=form == "json cells"), CSV)
    assert (await shop.client.delete(f"/customers/{ann['id']}")).status_code == 204
    emptied = [rows[number - 1] for number in await failed_rows(shop, path)]
    assert [row for row in emptied if row not in OF_ANN] == [], "rows of other people were emptied"
    assert [row for row in OF_ANN if row not in emptied] == [], "rows of the erased person stayed"


async def test_an_erasure_keeps_failed_rows_of_people_with_longer_identifiers_in_reports(shop: Shop) -> None:
    await run_pending(shop.db)
    ann = await created(shop, ANN)
    people = [
        {"email": "joann@example.com"},
        {"email": "ann@example.com"},
        {"email": "c@other.example", "phone": "+493012345678"},
    ]
    path = await upload(shop, "".join(json.dumps({**person, "locale": "?"}) + "\n" for person in people))
    assert await failed_rows(shop, path) == [1, 2, 3]
    query = """SELECT app_views FROM events WHERE store_id = $1 AND type = 'customer.import_finished'"""
    [[event]] = await shop.db.fetch(query, shop.store_id)
    assert '"ann@example.com"' in event
    await shop.client.delete(f"/customers/{ann['id']}")
    [[event]] = await shop.db.fetch(query, shop.store_id)
    assert ('"joann@example.com"' in event, '"ann@example.com"' in event) == (True, False)
    report = (await shop.client.get(path, headers={"accept": CSV})).text
    assert ("joann@example.com" in report, "+493012345678" in report) == (True, True)
    assert '"ann@example.com""' not in report


@pytest.mark.parametrize(
    "raw",
    [
        '{"email": "Ann\\u0040example.com',
        '{"note": "6" wide", "email": "ann@example.com"}',
        '{"email": "ann@example.com", "email": "b@other.example"}',
        '{"email": "b@other.example", "note": {"ann@example.com": 1}}',
        '{"email": "b@other.example", "phone": 493012345}',
    ],
)
async def test_an_erasure_finds_a_person_in_a_row_that_is_not_valid(shop: Shop, raw: str) -> None:
    await run_pending(shop.db)
    ann = await created(shop, ANN)
    assert await failed_rows(shop, await upload(shop, raw)) == [1]
    assert (await shop.client.delete(f"/customers/{ann['id']}")).status_code == 204
    assert await shop.db.fetch("SELECT raw FROM import_rows WHERE store_id = $1", shop.store_id) == [("",)]


async def test_an_erasure_passes_over_a_row_whose_external_id_is_not_text(shop: Shop) -> None:
    await run_pending(shop.db)
    ann = await created(shop, {**ANN, "external_id": "crm-ann"})
    path = await upload(shop, '{"email": "b@other.example", "external_id": ["crm"]}')
    assert await failed_rows(shop, path) == [1]
    assert (await shop.client.delete(f"/customers/{ann['id']}")).status_code == 204
    assert '[""crm""]' in (await shop.client.get(path, headers={"accept": CSV})).text
