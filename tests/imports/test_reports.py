"""Progress, reports, and their expiry."""

import msgspec

from stoa.imports.contract import ProductImportFinished
from stoa.imports.queries import DELETE_EXPIRED_REPORTS
from stoa.imports.runner import claim_import, run_import, run_pending
from tests.imports.files import (
    CSV,
    NDJSON,
    catalog,
    events,
    failures,
    import_file,
    job_of,
    lines,
    mug,
    report,
    send,
    sheet,
)
from tests.support.shops import Shop


async def test_failed_rows_are_returned_as_csv_for_correction(shop: Shop) -> None:
    content = sheet(
        "sku name price description",
        ["A", "Apple", "1", 'red, "sweet"\nand round'],
        ["B", "", "2", ""],
        ["C", "Cherry", "much", ""],
        ["D", "Date", "4", ""],
    )
    job = await import_file(shop, content, CSV)
    assert (job["counts"]["created"], job["counts"]["failed"]) == (2, 2)
    answer = await shop.client.get(f"/products/imports/{job['id']}", headers={"accept": CSV})
    assert answer.text.splitlines() == [
        "sku,name,price,description,error_code,error_detail",
        "B,,2,,required,/name: is required",
        'C,Cherry,much,,invalid_money,"/price: must be an amount such as ""19.99"""',
    ]
    mended = answer.content.replace(b"B,,2", b"B,Banana,2").replace(b"much", b"3")
    again = await import_file(shop, mended, CSV)
    assert (again["status"], again["counts"]["created"]) == ("succeeded", 2)
    assert set(await catalog(shop)) == {"Apple", "Banana", "Cherry", "Date"}


async def test_a_report_that_is_uploaded_again_has_the_error_columns_once(shop: Shop) -> None:
    job = await import_file(shop, sheet("sku name price", ["A", "", "1"]), CSV)
    answer = await shop.client.get(f"/products/imports/{job['id']}", headers={"accept": CSV})
    again = await import_file(shop, answer.content, CSV)
    second = await shop.client.get(f"/products/imports/{again['id']}", headers={"accept": CSV})
    assert second.text == answer.text


async def test_failed_rows_of_ndjson_are_returned_as_json_cells(shop: Shop) -> None:
    job = await import_file(shop, lines([mug(1), mug(2, price="much"), mug(3)]))
    [row] = await failures(shop, job["id"])
    assert (row["row"], row["error_code"]) == ("2", "invalid_money")
    assert msgspec.json.decode(row["json"]) == mug(2, price="much")
    answer = await shop.client.get(f"/products/imports/{job['id']}", headers={"accept": CSV})
    again = await import_file(shop, answer.content.replace(b'""much""', b'""9.00""'), CSV)
    assert (again["status"], (await catalog(shop))["Mug 2"]["price"]) == ("succeeded", "9.00")


async def test_records_of_one_product_are_returned_together(shop: Shop) -> None:
    content = sheet(
        "name;price;sku;option.Size".replace(";", " "),
        ["Cap", "x", "C-S", "S"],
        ["Cap", "", "C-M", "M"],
        ["Hat", "1", "H-S", "S"],
    )
    job = await import_file(shop, content, CSV)
    rows = await failures(shop, job["id"])
    assert [(row["sku"], row["error_code"]) for row in rows] == [("C-S", "invalid_money"), ("C-M", "")]


async def test_the_full_report_has_a_line_for_each_row(shop: Shop) -> None:
    job = await import_file(shop, lines(mug(n) for n in range(1, 1_203)))
    rows = await report(shop, job["id"])
    assert [row["row"] for row in rows] == list(range(1, 1_203))
    assert rows[16] == {"row": 17, "key": {"sku": "MUG-17"}, "status": "created", "id": rows[16]["id"], "errors": []}
    assert await failures(shop, job["id"]) == []


async def test_progress_advances_part_by_part(shop: Shop) -> None:
    job = await send(shop, lines(mug(n) for n in range(1_100)))
    assert (job["status"], job["progress"], job["started_at"]) == ("queued", 0.0, None)
    seen: list[tuple[str, float, int]] = []
    while (claimed := await claim_import(shop.db, "w")) is not None:
        await run_import(shop.db, claimed, "w", iter([False, True]).__next__)
        now = await job_of(shop, job["id"])
        seen.append((now["status"], now["progress"], now["counts"]["processed"]))
    assert seen == [("running", 0.4545, 500), ("running", 0.9091, 1_000), ("succeeded", 1.0, 1_100)]
    done = await job_of(shop, job["id"])
    assert done["created_at"] <= done["started_at"] <= done["finished_at"] < done["report_expires_at"]


async def test_a_job_has_a_version_and_an_etag(shop: Shop) -> None:
    job = await send(shop, lines([mug(1)]))
    path = f"/products/imports/{job['id']}"
    first = await shop.client.get(path)
    assert (await shop.client.get(path, headers={"if-none-match": first.headers["etag"]})).status_code == 304
    await run_pending(shop.db)
    after = await shop.client.get(path, headers={"if-none-match": first.headers["etag"]})
    assert (after.status_code, after.json()["data"]["version"] > job["version"]) == (200, True)
    narrow = await shop.client.get(path, params={"fields": "id,status"})
    assert narrow.json()["data"] == {"id": job["id"], "status": "succeeded"}


async def test_the_finished_event_contains_the_job(shop: Shop) -> None:
    job = await import_file(shop, lines([mug(1)]))
    [[kind, number, version, data, actor]] = await shop.db.fetch(
        """SELECT resource_type, resource_id, resource_version, data, actor FROM events
            WHERE store_id = $1 AND type = $2""",
        shop.store_id,
        ProductImportFinished.name,
    )
    assert (kind, version, msgspec.json.decode(data)) == ("import", job["version"], job)
    assert msgspec.json.decode(actor) == {"type": "app", "app_id": shop.app_id}
    assert number > 0


async def test_an_import_of_another_store_is_not_found(shop: Shop, other_shop: Shop) -> None:
    job = await import_file(shop, lines([mug(1)]))
    for accept in ("application/json", NDJSON, CSV):
        answer = await other_shop.client.get(f"/products/imports/{job['id']}", headers={"accept": accept})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_another_app_of_the_store_can_read_an_import(shop: Shop) -> None:
    job = await import_file(shop, lines([mug(1)]))
    reader = await shop.client_with(["products:read"])
    assert (await reader.get(f"/products/imports/{job['id']}")).json()["data"] == job
    answer = await reader.post("/products/imports", content=lines([mug(2)]), headers={"content-type": NDJSON})
    assert (answer.status_code, answer.json()["required_scope"]) == (403, "products:write")


async def test_a_report_expires(shop: Shop) -> None:
    job, kept = await import_file(shop, lines([mug(1)])), await import_file(shop, lines([mug(2)]))
    await shop.db.execute(
        "UPDATE imports SET report_expires_at = now() - interval '1 s' WHERE store_id = $1 AND id = $2",
        shop.store_id,
        job["id"],
    )
    for _ in range(2):
        for accept in ("application/json", NDJSON, CSV):
            answer = await shop.client.get(f"/products/imports/{job['id']}", headers={"accept": accept})
            assert (answer.status_code, answer.json()["code"]) == (410, "gone")
        await DELETE_EXPIRED_REPORTS.run(shop.db)
    assert not await shop.db.fetch(
        "SELECT 1 FROM import_rows WHERE store_id = $1 AND import_id = $2", shop.store_id, job["id"]
    )
    assert len(await report(shop, kept["id"])) == 1


async def test_the_file_is_deleted_when_the_job_is_finished(shop: Shop) -> None:
    await import_file(shop, lines([mug(1), mug(2, price="much")]))
    assert not await shop.db.fetch("SELECT 1 FROM import_parts WHERE store_id = $1", shop.store_id)
    assert not await shop.db.fetch("SELECT 1 FROM import_queue WHERE store_id = $1", shop.store_id)
    kept = await shop.db.fetch("SELECT row FROM import_rows WHERE store_id = $1 AND raw IS NOT NULL", shop.store_id)
    assert [row[0] for row in kept] == [2]


async def test_an_unsupported_accept_header_is_refused(shop: Shop) -> None:
    job = await import_file(shop, lines([mug(1)]))
    answer = await shop.client.get(f"/products/imports/{job['id']}", headers={"accept": "application/pdf"})
    assert answer.status_code == 406
    assert (await events(shop)).count("product.import_finished") == 1
