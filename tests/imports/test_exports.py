"""Lists as CSV files: the columns of the import, cells that are safe to open, and an import that changes nothing."""

import csv
import io
import json
from typing import Any

import httpx
import pytest

from stoa.db.listing import Listing
from stoa.imports.customers import CUSTOMERS
from stoa.imports.products import PRODUCTS
from stoa.imports.runner import run_pending
from tests.support.shops import MUG, PERSON, SHIRT, Shop
from tests.support.stream_reader import Reader, write_notes

CSV, NDJSON = {"accept": "text/csv"}, "application/x-ndjson"


def records(answer: httpx.Response) -> list[dict[str, str]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.text, newline=""), strict=True))


async def imported(shop: Shop, path: str, file: bytes, media: str = "text/csv") -> dict[str, Any]:
    answer = await shop.client.post(
        f"{path}/imports", params={"match_by": "id"}, content=file, headers={"content-type": media}
    )
    assert answer.status_code == 202, answer.text
    await run_pending(shop.db)
    return (await shop.client.get(f"{path}/imports/{answer.json()['data']['id']}")).json()["data"]


TRICKY: list[dict[str, Any]] = [
    {**MUG, "name": "=1+1", "sku": "F-1", "description": '+SUM(A1)\nsecond line, "quoted"', "tags": ["a b", "-x"]},
    {**MUG, "name": "null", "sku": "F-2", "description": " padded "},
    {**MUG, "name": "Bars", "sku": "F-3", "images": [{"url": "https://images.example.com/a.jpg", "alt": "one | two"}]},
    {**MUG, "name": "Numbers", "sku": "F-4", "metadata": {"year": 2026, "tier": "gold"}, "weight": 1.25},
    {**MUG, "name": "Keys", "sku": "F-5", "metadata": {"Tier": "gold", "a.b": "c", "x": "'=y"}},
]


async def test_products_are_exported_with_the_columns_of_the_import(shop: Shop) -> None:
    await shop.add(SHIRT, MUG)
    rows = records(await shop.client.get("/products", headers=CSV))
    names = list(rows[0])
    fixed = [name for name in (*PRODUCTS.columns.resource, *PRODUCTS.columns.member) if not name.endswith(".")]
    assert [name for name in names if name in fixed] == fixed
    assert names[-2:] == ["json", "exported_at"]
    assert set(names) - {*fixed, "json", "exported_at"} == {
        "metadata.material", "metadata.year", "metadata.washable", "option.Size",
    }  # fmt: skip


async def test_a_product_has_a_record_for_each_variant(shop: Shop) -> None:
    await shop.add({**SHIRT, "metadata": {"material": "linen"}}, {**MUG, "stock": {"on_hand": 3}})
    small, medium, mug = records(await shop.client.get("/products", headers=CSV))
    assert (small["name"], small["sku"], small["option.Size"], small["stock.on_hand"]) == (
        "Linen Shirt",
        "LS-S",
        "S",
        "4",
    )
    assert (medium["name"], medium["sku"], medium["option.Size"], medium["variant.price"]) == ("", "LS-M", "M", "61.00")
    assert medium["id"] == small["id"]
    assert (small["tags"], small["images"]) == ("linen|summer", "https://images.example.com/shirt.jpg A shirt")
    assert (mug["price"], mug["option.Size"], mug["metadata.material"], mug["json"]) == ("12.50", "", "", "")


async def test_an_export_of_products_that_is_imported_again_changes_nothing(shop: Shop) -> None:
    for product in (SHIRT, MUG, *TRICKY):
        assert (await shop.client.post("/products", json=product)).status_code == 201
    before = (await shop.client.get("/products", params={"include": "variants"})).json()["data"]
    answer = await shop.client.get("/products", headers=CSV)
    job = await imported(shop, "/products", answer.content)
    assert job["counts"] == {
        "total": 7, "processed": 7, "created": 0, "updated": 0, "unchanged": 7, "archived": 0, "failed": 0
    }, job["errors"]  # fmt: skip
    assert (await shop.client.get("/products", params={"include": "variants"})).json()["data"] == before


async def test_numbers_stay_numbers_in_an_export_that_is_imported_again(shop: Shop) -> None:
    body = {**MUG, "weight": 0.1 + 0.2, "metadata": {"ratio": 1.5, "dose": 1e-7}}
    assert (await shop.client.post("/products", json=body)).status_code == 201
    assert (await shop.client.post("/products", json={**MUG, "sku": "MUG-2", "weight": 1e-7})).status_code == 201
    before = (await shop.client.get("/products", params={"include": "variants"})).json()["data"]
    job = await imported(shop, "/products", (await shop.client.get("/products", headers=CSV)).content)
    assert (job["counts"]["unchanged"], job["errors"]) == (2, [])
    assert (await shop.client.get("/products", params={"include": "variants"})).json()["data"] == before


async def test_a_weight_with_many_digits_has_a_cell(shop: Shop) -> None:
    assert (await shop.client.post("/products", json={**MUG, "weight": 0.1 + 0.2})).status_code == 201
    (row,) = records(await shop.client.get("/products", headers=CSV))
    assert (row["weight"], row["json"]) == ("0.30000000000000004", "")


async def test_the_line_items_of_an_order_have_numbers_in_their_cell(shop: Shop) -> None:
    mug = {**MUG, "weight": 0.25, "stock": {"on_hand": 1}}
    assert (await shop.client.post("/products", json=mug)).status_code == 201
    assert (
        await shop.client.post("/orders", json={"line_items": [{"sku": "MUG-1", "quantity": 1}]})
    ).status_code == 201
    (row,) = records(await shop.client.get("/orders", headers=CSV))
    assert json.loads(row["line_items"])[0]["weight"] == 0.25


@pytest.mark.parametrize("include", ["", "variants"])
async def test_lines_of_products_that_are_imported_again_change_nothing(shop: Shop, include: str) -> None:
    for product in (SHIRT, MUG, *TRICKY):
        assert (await shop.client.post("/products", json=product)).status_code == 201
    before = (await shop.client.get("/products", params={"include": "variants"})).json()["data"]
    answer = await shop.client.get(
        "/products", params={"include": include} if include else {}, headers={"accept": NDJSON}
    )
    *lines, _end = answer.content.splitlines(keepends=True)
    job = await imported(shop, "/products", b"".join(lines), NDJSON)
    assert (job["counts"]["total"], job["counts"]["unchanged"]) == (7, 7), job["errors"]
    assert (await shop.client.get("/products", params={"include": "variants"})).json()["data"] == before


async def test_lines_of_customers_that_are_imported_again_change_nothing(shop: Shop) -> None:
    ada = {**PERSON, "phone": "+15550100123", "metadata": {"tier": "gold", "shared.vip": "yes"}, "tags": ["b2b", "vip"]}
    for person in (ada, {"email": "bob@example.com", "note": "=home", "first_name": "null"}):
        assert (await shop.client.post("/customers", json=person)).status_code == 201
    before = (await shop.client.get("/customers")).json()["data"]
    *lines, _end = (await shop.client.get("/customers", headers={"accept": NDJSON})).content.splitlines(keepends=True)
    job = await imported(shop, "/customers", b"".join(lines), NDJSON)
    assert (job["counts"]["total"], job["counts"]["unchanged"]) == (2, 2), job["errors"]
    assert (await shop.client.get("/customers")).json()["data"] == before


async def test_an_export_that_is_edited_in_a_spreadsheet_is_an_import(shop: Shop) -> None:
    await shop.add(SHIRT, TRICKY[0])
    answer = await shop.client.get("/products", params={"fields": "id,name,price"}, headers=CSV)
    rows = records(answer)
    assert list(rows[0]) == ["id", "name", "price", "json", "exported_at"]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=";")
    writer.writeheader()
    writer.writerows({**row, "price": "7.00"} for row in rows)
    job = await imported(shop, "/products", text.getvalue().encode())
    assert (job["counts"]["updated"], job["counts"]["failed"]) == (2, 0), job["errors"]
    found = (await shop.client.get("/products")).json()["data"]
    assert [(each["name"], each["price"]) for each in found] == [("Linen Shirt", "7.00"), ("=1+1", "7.00")]


async def test_what_a_spreadsheet_would_compute_is_quoted(shop: Shop) -> None:
    await shop.add(TRICKY[0])
    (row,) = records(await shop.client.get("/products", headers=CSV))
    assert row["name"] == "'=1+1"
    assert row["description"] == '\'+SUM(A1)\nsecond line, "quoted"'
    assert row["price"] == "12.50"


async def test_a_row_that_cells_cannot_hold_exactly_is_in_one_cell(shop: Shop) -> None:
    (number,) = await shop.add(TRICKY[1])
    (row,) = records(await shop.client.get("/products", headers=CSV))
    assert {name: cell for name, cell in row.items() if cell} == {
        "id": str(number), "json": row["json"], "exported_at": row["exported_at"]
    }  # fmt: skip
    assert json.loads(row["json"])["name"] == "null"


async def test_keys_that_occur_only_later_are_not_lost(shop: Shop) -> None:
    await shop.add(*({**MUG, "sku": f"K-{n}", "name": f"Mug {n}"} for n in range(250)))
    await shop.add({**MUG, "sku": "K-L", "metadata": {"late": "yes"}, "name": "Late"})
    answer = await shop.client.get("/products", headers=CSV)
    rows = records(answer)
    assert "metadata.late" not in rows[0]
    assert json.loads(rows[-1]["json"])["metadata"] == {"late": "yes"}
    job = await imported(shop, "/products", answer.content)
    assert (job["counts"]["unchanged"], job["counts"]["failed"]) == (251, 0), job["errors"]


async def test_keys_leave_room_for_the_other_columns(shop: Shop) -> None:
    await shop.add(
        *(
            {**SHIRT, "external_id": None, "options": [{"name": f"Size {n}", "values": ["S"]}], "metadata": keys,
             "variants": [{"sku": f"R-{n}", "option_values": {f"Size {n}": "S"}, "stock": {"on_hand": n}}]}
            for n in range(25)
            for keys in [{f"k{n}.{key}": "x" for key in range(20)}]
        )
    )  # fmt: skip
    answer = await shop.client.get("/products", headers=CSV)
    rows = records(answer)
    fixed = [name for name in (*PRODUCTS.columns.resource, *PRODUCTS.columns.member) if not name.endswith(".")]
    names = list(rows[0])
    assert [name for name in names if name in fixed] == fixed
    assert (len(names), names[-2:]) == (500, ["json", "exported_at"])
    assert {len(json.loads(row["json"])["metadata"]) for row in rows if row["json"]} == {20}
    job = await imported(shop, "/products", answer.content)
    assert (job["counts"]["unchanged"], job["counts"]["failed"]) == (25, 0), job["errors"]


async def test_an_option_of_several_lines_does_not_break_the_header(shop: Shop) -> None:
    name = "Si\nze"
    variant = {"sku": "O-1", "option_values": {name: "S"}}
    await shop.add({**SHIRT, "options": [{"name": name, "values": ["S"]}], "variants": [variant]}, MUG)
    answer = await shop.client.get("/products", params={"fields": "id,variants"}, headers=CSV)
    job = await imported(shop, "/products", answer.content)
    assert (job["counts"]["unchanged"], job["counts"]["failed"]) == (2, 0), job["errors"]
    odd, plain = records(answer)
    assert json.loads(odd["json"])["variants"][0]["option_values"] == {name: "S"}
    assert plain["sku"] == "MUG-1"


async def test_the_time_of_a_deletion_is_not_left_out_for_keys(shop: Shop) -> None:
    for n in range(6):
        person = {"email": f"p{n}@example.com", "metadata": {f"k{n}.{key}": "x" for key in range(90)}}
        assert (await shop.client.post("/customers", json=person)).status_code == 201
    params = {"include_deleted": "true", "updated_since": "2020-01-01T00:00:00Z"}
    rows = records(await shop.client.get("/customers", params=params, headers=CSV))
    assert list(rows[0])[-3:] == ["deleted_at", "json", "exported_at"]
    assert "address.city" in rows[0]
    assert any(row["metadata.k0.0"] == "x" for row in rows)


async def test_customers_are_exported_with_the_columns_of_the_import(shop: Shop) -> None:
    ada = {**PERSON, "phone": "+15550100123", "metadata": {"tier": "gold", "shared.vip": "yes"}, "tags": ["b2b", "vip"]}
    assert (await shop.client.post("/customers", json=ada)).status_code == 201
    assert (await shop.client.post("/customers", json={"email": "bob@example.com", "note": "@home"})).status_code == 201
    answer = await shop.client.get("/customers", headers=CSV)
    first, second = records(answer)
    fixed = [name for name in CUSTOMERS.columns.resource if not name.endswith(".")]
    assert [name for name in first if name in fixed] == fixed
    assert (first["address.city"], first["tags"], first["phone"]) == ("Ghent", "b2b|vip", "'+15550100123")
    assert (first["metadata.tier"], first["metadata.shared.vip"]) == ("gold", "yes")
    assert (second["note"], second["address.city"]) == ("'@home", "")
    before = (await shop.client.get("/customers")).json()["data"]
    job = await imported(shop, "/customers", answer.content)
    assert (job["counts"]["unchanged"], job["counts"]["failed"]) == (2, 0), job["errors"]
    assert (await shop.client.get("/customers")).json()["data"] == before


async def test_another_app_exports_no_private_metadata(shop: Shop) -> None:
    await shop.client.post("/customers", json={**PERSON, "metadata": {"tier": "gold"}})
    other = await shop.client_with(["customers:read"])
    (row,) = records(await other.get("/customers", headers=CSV))
    assert "metadata.tier" not in row
    assert "gold" not in row.values()


async def test_orders_have_their_fields_as_columns(shop: Shop) -> None:
    await shop.fill()
    (row,) = records(await shop.client.get("/orders", headers=CSV))
    (order,) = (await shop.client.get("/orders")).json()["data"]
    assert row["number"] == str(order["number"])
    assert row["total"] == order["total"]
    assert row["totals.items"] == order["totals"]["items"]
    assert json.loads(row["line_items"]) == order["line_items"]
    assert row["contact.email"] == ""
    assert "json" not in row


@pytest.mark.parametrize("path", ["/products", "/products/variants", "/customers", "/orders", "/webhooks"])
async def test_an_empty_file_has_a_header(shop: Shop, path: str) -> None:
    answer = await shop.client.get(path, headers=CSV)
    assert answer.text.startswith("id,")
    assert records(answer) == []


async def test_deleted_resources_have_their_time(shop: Shop) -> None:
    first, _ = await shop.add(MUG, {**SHIRT, "metadata": {}})
    await shop.client.delete(f"/products/{first}")
    params = {"include_deleted": "true", "updated_since": "2020-01-01T00:00:00Z"}
    rows = records(await shop.client.get("/products", params=params, headers=CSV))
    gone = next(row for row in rows if row["id"] == str(first))
    assert gone["deleted_at"]
    assert gone["name"] == ""
    assert [row["deleted_at"] for row in rows if row["id"] != str(first)] == ["", ""]


async def test_included_data_is_a_column(shop: Shop) -> None:
    await shop.fill()
    plain = records(await shop.client.get("/products/inventory", headers=CSV))
    assert "locations" not in plain[0]
    rows = records(await shop.client.get("/products/inventory", params={"include": "locations"}, headers=CSV))
    page = (await shop.client.get("/products/inventory", params={"include": "locations"})).json()["data"]
    assert [json.loads(row["locations"]) for row in rows] == [level["locations"] for level in page]


async def test_a_broken_file_aborts_the_connection(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    await write_notes(shop, 1_501)
    reader = Reader(shop, "/notes", "text/csv")
    await reader.take()  # the next rows are read meanwhile, but not those after them

    async def failing(*_: Any, **__: Any) -> Any:
        raise ValueError

    monkeypatch.setattr(Listing, "page", failing)
    await reader.read_on()
    assert not reader.ended, "the last chunk is missing, so that the client notices"
    assert reader.text.startswith(b"id,title,")
