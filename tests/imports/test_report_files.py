"""The CSV report as a file: written like the upload, safe in a spreadsheet, and unchanged when it is uploaded again."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.imports.contract import Options
from stoa.imports.products import COLUMNS
from stoa.imports.queries import FailedRow
from stoa.imports.reading import Row, cells_of, cut, read_part
from stoa.imports.reports import report_header, report_rows
from stoa.rest.csv_rows import Header, quoted, unquoted
from stoa.rest.headers import CSV as CSV_MEDIA
from tests.imports.files import CSV, catalog, failures, import_file, lines, refused
from tests.support.shops import Shop

BOM = b"\xef\xbb\xbf"
ERRORS = '[{"pointer":"/name","code":"required","detail":"is required"}]'


@pytest.mark.parametrize("mark", [b"", BOM])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
async def test_the_report_is_written_like_the_upload(shop: Shop, delimiter: str, mark: bytes) -> None:
    content = mark + "sku,name,price,tags\nA,Mug,much,a|b\nB,Bowl,2.00,\n".replace(",", delimiter).encode()
    job = await import_file(shop, content, CSV)
    assert job["counts"]["failed"] == 1
    report = await shop.client.get(f"/products/imports/{job['id']}", headers={"accept": CSV})
    assert report.content.startswith(BOM) == bool(mark)
    first, second = report.content.removeprefix(mark).decode().splitlines()
    assert first.split(delimiter) == ["sku", "name", "price", "tags", "error_code", "error_detail"]
    assert second.startswith(delimiter.join(["A", "Mug", "much", "a|b", "invalid_money", ""]))
    again = await import_file(shop, report.content.replace(b"much", b"3.00"), CSV)
    assert (again["status"], (await catalog(shop))["Mug"]["price"]) == ("succeeded", "3.00")


async def test_a_formula_is_quoted_in_the_report_and_restored_by_the_next_upload(shop: Shop) -> None:
    names = ["=1+1", "+44", "-9", "@SUM(A1)", "'=kept", "''-kept", "plain", "'plain"]
    full_width = ["\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)", "'\uff1dkept", "\ufe661+1"]
    names += full_width
    records = [[f"S{n}", name, "much"] for n, name in enumerate(names)]
    text = io.StringIO()
    csv.writer(text).writerows([["sku", "name", "price"], *records])
    job = await import_file(shop, text.getvalue().encode(), CSV)
    shown = [row["name"] for row in await failures(shop, job["id"])]
    neutral = ["'=1+1", "'+44", "'-9", "'@SUM(A1)", "''=kept", "'''-kept", "plain", "'plain"]
    assert shown == [*neutral, *(f"'{name}" for name in full_width)]
    report = await shop.client.get(f"/products/imports/{job['id']}", headers={"accept": CSV})
    again = await import_file(shop, report.content, CSV)
    assert (again["counts"]["failed"], [row["name"] for row in await failures(shop, again["id"])]) == (14, shown)
    mended = await import_file(shop, report.content.replace(b"much", b"3.00"), CSV)
    assert mended["status"] == "succeeded", mended
    assert set(await catalog(shop)) == set(names)


async def test_an_upload_that_is_no_report_keeps_its_apostrophes(shop: Shop) -> None:
    await import_file(shop, b"sku,name,price\nA,'=1+1,1.00\n", CSV)
    assert set(await catalog(shop)) == {"'=1+1"}


async def test_unknown_columns_are_refused_or_ignored(shop: Shop) -> None:
    content = b"sku,name,price,=shelf,Shelf,Shelf\nA,Mug,1.00,x,x,x\nB,Bowl,much,=y,y,y\n"
    status, problem = await refused(shop, content, CSV)
    assert (status, {fault["code"] for fault in problem["errors"]}) == (422, {"unknown_field"})
    job = await import_file(shop, content, CSV, unknown_columns="ignore")
    assert (job["options"]["unknown_columns"], job["counts"]["created"]) == ("ignore", 1)
    report = await shop.client.get(f"/products/imports/{job['id']}", headers={"accept": CSV})
    header, record = report.text.splitlines()
    assert header == "sku,name,price,'=shelf,Shelf,Shelf,error_code,error_detail"
    assert record.startswith("B,Bowl,much,'=y,y,y,invalid_money,")
    mended = report.content.replace(b"much", b"3.00")
    again = await import_file(shop, mended, CSV, unknown_columns="ignore")
    assert again["status"] == "succeeded", again


async def test_a_file_without_its_key_is_refused_also_if_columns_are_ignored(shop: Shop) -> None:
    _, problem = await refused(shop, b"number,name\nA,Mug\n", CSV, unknown_columns="ignore")
    assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == [("/sku", "required")]


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
CELLS = st.one_of(
    st.tuples(st.text("'=+-@\t\r\n;,\" ", max_size=4), _TEXT).map("".join),
    st.sampled_from(["=1+1", "'", "''", "'=", "\t", "\r", "-", '"=1"', "null"]),
)


@given(CELLS)
def test_quoting_a_cell_is_undone_exactly(cell: str) -> None:
    assert unquoted(quoted(cell)) == cell
    assert quoted(cell)[:1] not in {"=", "+", "-", "@", "\t", "\r"}


@given(
    st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5),
    st.sampled_from([",", ";", "\t"]),
    st.booleans(),
    st.integers(1, 3),
)
def test_a_report_that_is_uploaded_again_has_the_same_cells(
    records: list[tuple[str, str]], delimiter: str, marked: bool, times: int
) -> None:
    text = io.StringIO()
    rows = [[f"S{n}", *cells] for n, cells in enumerate(records)]
    csv.writer(text, delimiter=delimiter).writerows([["sku", "name", "description"], *rows])
    content = (BOM if marked else b"") + text.getvalue().encode()
    for _ in range(times):
        found, header = _rows(content)
        assert [cells[:3] for row in found for cells in cells_of(row.raw, header)] == rows
        assert (header.delimiter, header.marked) == (delimiter, marked)
        failed = [FailedRow(row.number, "{}", ERRORS, row.raw) for row in found]
        content = report_header(header) + report_rows(failed, header)
        assert not [cell for cell in _plain_cells(content, delimiter) if cell[:1] in {"=", "+", "-", "@", "\t", "\r"}]


async def test_a_large_row_of_json_can_be_corrected_in_the_report(shop: Shop) -> None:
    images = [{"url": f"https://images.example.com/{n}/{'x' * 1_900}.jpg"} for n in range(250)]
    row = {"sku": "A", "name": "Mug", "price": "much", "images": images}
    job = await import_file(shop, lines([row, {"sku": "B", "name": "Bowl", "price": "2.00"}]))
    assert job["counts"]["failed"] == 1
    report = await shop.client.get(f"/products/imports/{job['id']}", headers={"accept": CSV})
    again = await import_file(shop, report.content.replace(b"much", b"3.00"), CSV)
    assert again["status"] == "succeeded", again


def _rows(content: bytes) -> tuple[list[Row], Header]:
    """The rows of a file, as the runner reads them."""
    header, parts = cut(io.BytesIO(content), CSV_MEDIA, COLUMNS, Options())
    assert header is not None
    sheet = COLUMNS.read_header(header, "sku")
    return [row for part in parts for row in read_part(part.first_row, part.data, sheet, header)], header


def _plain_cells(content: bytes, delimiter: str) -> list[str]:
    text = content.removeprefix(BOM).decode()
    return [cell for record in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) for cell in record]
