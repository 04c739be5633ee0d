"""Imports that a person starts: checked first, then written; files of any content are refused or read."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from stoa.access import audit
from stoa.db.pool import Database
from stoa.imports.runner import run_pending
from stoa.operations.maintenance import maintain
from stoa.portal.kit.forms import MAX_FIELDS
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
    for expected in ("Dry run", "Would create", "2 rows would fail", "Line 3", "Line 4", "Maria Stone", "Import 1 row"):
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
        {"file": "1 column of the header cannot be used. colour is no column that Stoa knows."},
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


async def test_a_full_disk_is_temporary(maria: User, store_url: str, small_disk: Path) -> None:
    response = await upload(maria, f"{store_url}/import", "cups.csv", SHEET + b"CUP-4;Cup;9.00;\n" * 100_000)
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    assert "no room for uploads" in response.text
    assert not list(small_disk.iterdir())
    assert (await upload(maria, f"{store_url}/import", "cups.csv", SHEET)).status_code == 200


def part(name: str, content: bytes = b"", file: str = "") -> bytes:
    """A part of a form with the boundary x."""
    shown = f'; filename="{file}"' if file else ""
    return f'--x\r\nContent-Disposition: form-data; name="{name}"{shown}\r\n\r\n'.encode() + content + b"\r\n"


async def submit_parts(user: User, url: str, *parts: bytes) -> tuple[int, int]:
    """Send a form part by part; returns the status, and how many parts the service took before it answered."""
    taken = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal taken
        for taken, each in enumerate(parts, 1):  # noqa: B007
            yield each
        yield b"--x--\r\n"

    headers = {**SAME_ORIGIN, "content-type": "multipart/form-data; boundary=x"}
    response = await user.client.post(url, content=body(), headers=headers)
    return response.status_code, taken


async def test_a_form_has_at_most_one_file(maria: User, store_url: str) -> None:
    await maria.open(f"{store_url}/import")
    files = [part("file", file="cups.csv")] * 20_000
    status, taken = await submit_parts(maria, f"{store_url}/import", part("_token", maria.token.encode()), *files)
    assert status == 400
    assert taken <= 4, "the second file is refused when its header arrives"


async def test_every_part_counts_toward_the_limit_also_after_a_file(maria: User, store_url: str) -> None:
    await maria.open(f"{store_url}/import")
    token, fields = part("_token", maria.token.encode()), [part(f"f{n}") for n in range(2 * MAX_FIELDS)]
    for before in ([token], [token, part("file", SHEET, "cups.csv")]):
        status, taken = await submit_parts(maria, f"{store_url}/import", *before, *fields)
        assert status == 400
        assert taken <= MAX_FIELDS + 2


async def test_the_token_is_checked_before_the_file_is_received(maria: User, store_url: str) -> None:
    await maria.open(f"{store_url}/import")
    opening = part("file", SHEET, "cups.csv").removesuffix(b"\r\n")
    content = [b"CUP-9;Cup;9.00;\n" * 4_000] * 100
    for before in ([], [part("_token", b"forged")], [part("once", b"1")]):
        status, taken = await submit_parts(maria, f"{store_url}/import", *before, opening, *content, b"\r\n")
        assert status == 403
        assert taken <= len(before) + 2
    status, _ = await submit_parts(maria, f"{store_url}/import", part("resource", b"products"))
    assert status == 403, "a form without a file needs its token too"


async def test_a_form_is_read_the_same_however_its_bytes_arrive(maria: User, store_url: str) -> None:
    await maria.open(f"{store_url}/import")
    values = {"_token": maria.token, **hidden(maria.text), "resource": "orders", "mode": "a\r\n--y"}
    fields = b"".join(part(name, value.encode()) for name, value in values.items())
    whole = fields + part("file", b"\r\n--\r\r\n--", "cups.csv") + part("on_error", b"continue")
    for size in (1, 2, 3, 7, len(whole)):
        pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
        assert (await submit_parts(maria, f"{store_url}/import", *pieces))[0] == 422, size


async def test_a_running_import_is_cancelled_on_its_page(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    await run_pending(db)
    await upload(maria, f"{store_url}/import", "cups.csv", SHEET)
    page = maria.path
    assert "Cancel the import" in maria.text
    form = hidden(maria.text)
    await maria.submit(f"{page}/cancel", form)
    assert (maria.path, maria.notice) == (page, "The import is cancelled. Rows that were already written stay.")
    assert "Cancelled" in maria.text
    assert "Cancel the import" not in maria.text
    await maria.submit(f"{page}/cancel", form)
    assert maria.notice == "This form was already submitted. Nothing was done twice."
    assert await run_pending(db) == 0
    [entry] = await audit.newest(db, shop.store_id, 1)
    assert (entry.action, entry.actor) == ("products.import_cancelled", f"account:{maria.account.id}")
