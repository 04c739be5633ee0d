"""Imports that a person starts: checked first, then written; files of any content are refused or read."""

import httpx

from stoa.access import audit
from stoa.db.pool import Database
from stoa.imports.runner import run_pending
from stoa.operations.maintenance import maintain
from tests.portal.store_pages import hidden
from tests.support.people import SAME_ORIGIN, User
from tests.support.shops import Shop

SHEET = b'sku;name;price;description\nCUP-1;Cup;9.00;\nCUP-2;;nine;"two\nlines"\nCUP-3;Jug;-1;=1+1\n'


async def upload(user: User, url: str, name: str, content: bytes, **fields: str) -> httpx.Response:
    """Submit the form of the open page with a file, as a browser does."""
    await user.open(url)
    data = {"_token": user.token, **hidden(user.text), **fields}
    files = {"file": (name, content, "application/octet-stream")}
    user.response = await user.client.post(url, data=data, files=files, headers=SAME_ORIGIN, follow_redirects=True)
    return user.response


async def products(shop: Shop) -> dict[str, str]:
    found = (await shop.client.get("/products?sort=id")).json()["data"]
    return {each["sku"]: each["price"] for each in found}


async def test_a_file_is_checked_then_imported(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    await run_pending(db)
    await upload(maria, f"{store_url}/import", "cups.csv", SHEET)
    checked = maria.path
    assert maria.notice == "The file is being checked. Nothing is written."
    await run_pending(db)
    await maria.open(checked)
    for expected in ("Dry run", "Would create", "2 rows would fail", "Row 2", "Row 3", "Maria Stone", "Import 1 row"):
        assert expected in maria.text, expected
    assert await products(shop) == {}
    form = hidden(maria.text)
    await maria.submit(f"{checked}/start", form)
    imported = maria.path
    assert (maria.notice, imported != checked) == ("The import is started.", True)
    await maria.open(checked)
    await maria.submit(f"{checked}/start", form)
    assert maria.notice == "This form was already submitted. Nothing was done twice."
    assert await run_pending(db) == 1
    assert await products(shop) == {"CUP-1": "9.00"}
    rows = await db.fetch(
        "SELECT DISTINCT actor FROM events WHERE store_id = $1 AND type <> 'app.installed'", shop.store_id
    )
    assert [row[0] for row in rows] == ['{"type":"account"}']
    entries = await audit.newest(db, shop.store_id, 2)
    assert [each.action for each in entries] == ["products.import_started", "products.import_checked"]
    assert {each.actor for each in entries} == {f"account:{maria.account.id}"}


async def test_a_checked_file_is_deleted_after_a_day(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    await upload(maria, f"{store_url}/import", "cups.csv", SHEET)
    checked = maria.path
    await run_pending(db)
    await maria.open(checked)
    form = hidden(maria.text)
    await db.execute("UPDATE imports SET finished_at = now() - interval '2 days' WHERE store_id = $1", shop.store_id)
    await maintain(db)
    await maria.open(checked)
    assert "The file was deleted." in maria.text
    assert f"{checked}/fix" not in maria.text, "the good rows would be lost"
    await maria.submit(f"{checked}/start", form)
    assert (maria.notice, await run_pending(db)) == ("The file is kept for one day. Upload it again.", 0)


REFUSED: tuple[tuple[str, bytes, dict[str, str], dict[str, str]], ...] = (
    ("cups.csv", b"", {}, {"file": "Select a file."}),
    ("cups.xlsx", SHEET, {}, {"file": "The name of the file must end in .ndjson, .jsonl, .csv, .json."}),
    (
        "cups.csv",
        b"sku,colour\nA,red\n",
        {},
        {"file": "1 column of the header cannot be used. colour is not a known field"},
    ),
    ("cups.csv", SHEET, {"resource": "orders"}, {"resource": "Select products or customers."}),
    ("cups.csv", SHEET, {"match_by": "email"}, {"match_by": "Rows of products are matched by sku, external_id, id."}),
    ("cups.csv", SHEET, {"mode": "destroy"}, {"": "Select one of the options."}),
    ("cups.ndjson", b"\xff\xfe{}", {}, {"": "The file is in UTF-16. Save it as UTF-8."}),
)
MALFORMED = (
    b"",
    b"--x",
    b"--x--\r\n",
    b"--x\r\n\r\n\r\n--x--",
    b'--x\r\nContent-Disposition: form-data; name="_token"\r\n\r\nno end',
    b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xff\r\n--x--',
    b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"a" * 70_000 + b"\r\n--x--",
    b"--x\r\n" + b"a" * 9_000 + b"\r\n\r\n\r\n--x--",
)


async def test_a_file_that_cannot_be_imported_is_refused_with_its_reason(maria: User, store_url: str) -> None:
    for name, content, fields, faults in REFUSED:
        response = await upload(maria, f"{store_url}/import", name, content, **fields)
        assert (response.status_code, maria.faults) == (422, faults)


async def test_a_malformed_upload_is_refused(maria: User, store_url: str) -> None:
    for body in MALFORMED:
        for boundary in ("x", '"x"', "", "\n"):
            headers = {**SAME_ORIGIN, "content-type": f"multipart/form-data; boundary={boundary}".strip()}
            response = await maria.client.post(f"{store_url}/import", content=body, headers=headers)
            assert response.status_code in (400, 403), (body[:60], boundary)
