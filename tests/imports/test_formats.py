"""The file formats of imports."""

import gzip

import msgspec
import pytest

from tests.imports.files import CSV, JSON, NDJSON, catalog, events, failures, import_file, lines, mug, send, sheet
from tests.support.shops import SHIRT, Shop


async def test_ndjson_imports_products_with_their_variants(shop: Shop) -> None:
    job = await import_file(shop, lines([SHIRT, mug(1)]))
    assert job["status"] == "succeeded"
    assert job["counts"] == {
        "total": 2, "processed": 2, "created": 2, "updated": 0, "unchanged": 0, "archived": 0, "failed": 0,
    }  # fmt: skip
    assert (job["progress"], job["errors"], job["resource"]) == (1.0, [], "products")
    found = await catalog(shop)
    assert [variant["sku"] for variant in found["Linen Shirt"]["variants"]] == ["LS-S", "LS-M"]
    assert found["Mug 1"]["stock"]["on_hand"] == 3
    assert await events(shop) == ["product.created", "product.created", "product.import_finished"]


async def test_ledger_entries_of_an_import_refer_to_it(shop: Shop) -> None:
    job = await import_file(shop, lines([mug(1)]))
    rows = await shop.db.fetch(
        "SELECT kind, reason, reference, delta_on_hand, request_id FROM stock_movements WHERE store_id = $1",
        shop.store_id,
    )
    assert [tuple(row) for row in rows] == [("import", "sync", job["id"], 3, job["request_id"])]


async def test_json_imports_items(shop: Shop) -> None:
    body = msgspec.json.format(msgspec.json.encode({"items": [SHIRT, mug(1)]}), indent=2)
    job = await import_file(shop, body, JSON)
    assert (job["status"], job["counts"]["created"]) == ("succeeded", 2)


@pytest.mark.parametrize("media", [NDJSON, CSV, JSON])
async def test_a_compressed_file_is_decompressed(shop: Shop, media: str) -> None:
    plain = {
        NDJSON: lines([mug(1)]),
        CSV: sheet("sku name price", ["MUG-1", "Mug 1", "12.50"]),
        JSON: b'{"items":[{"sku":"MUG-1","name":"Mug 1","price":12.5}]}',
    }
    answer = await shop.client.post(
        "/products/imports",
        content=gzip.compress(plain[media]),
        headers={"content-type": media, "content-encoding": "gzip"},
    )
    assert answer.status_code == 202
    await import_file(shop, lines([mug(2)]))
    assert set(await catalog(shop)) == {"Mug 1", "Mug 2"}


async def test_blank_lines_are_skipped_and_the_last_line_needs_no_newline(shop: Shop) -> None:
    job = await import_file(shop, b"\n" + lines([mug(1)]) + b"  \r\n\n" + lines([mug(2)]).rstrip())
    assert (job["status"], job["counts"]["total"], job["counts"]["created"]) == ("succeeded", 2, 2)


async def test_csv_columns_are_named_like_fields(shop: Shop) -> None:
    job = await import_file(
        shop,
        sheet(
            "SKU name price stock.on_hand barcode brand category tags images weight taxable seo.title metadata.Tier "
            "description variant.low_stock_threshold",
            ["B-1", "Bowl", "19.90", "7", "400", "Kiln", "Home/Kitchen", "blue| round",
             "https://images.example.com/1.jpg A bowl|https://images.example.com/2.jpg", "0.250", "FALSE", "Buy it",
             "gold", "", "2"],
        ),
        CSV,
    )  # fmt: skip
    assert job["status"] == "succeeded", job
    bowl = (await catalog(shop))["Bowl"]
    assert (bowl["price"], bowl["sku"], bowl["barcode"], bowl["brand"]) == ("19.90", "B-1", "400", "Kiln")
    assert (bowl["tags"], bowl["weight"], bowl["taxable"]) == (["blue", "round"], 0.25, False)
    assert [(image["url"], image["alt"]) for image in bowl["images"]] == [
        ("https://images.example.com/1.jpg", "A bowl"),
        ("https://images.example.com/2.jpg", None),
    ]
    assert (bowl["seo"]["title"], bowl["metadata"], bowl["description"]) == ("Buy it", {"Tier": "gold"}, None)
    assert (bowl["stock"]["on_hand"], bowl["variants"][0]["low_stock_threshold"]) == (7, 2)


async def test_csv_records_with_one_key_are_variants_of_one_product(shop: Shop) -> None:
    job = await import_file(
        shop,
        sheet(
            "external_id name price sku option.Size option.Color variant.price stock.on_hand",
            ["erp-1", "Shirt", "59", "S-S", "S", "Blue", "", "1"],
            ["erp-1", "", "", "S-M", "M", "Blue", "61", "2"],
            ["erp-1", "Shirt", "59", "S-L", "L", "Red", "", "3"],
            ["erp-2", "Cap", "9", "C-1", "One", "Red", "", "4"],
        ),
        CSV,
        match_by="external_id",
    )
    assert (job["status"], job["counts"]["total"], job["counts"]["created"]) == ("succeeded", 2, 2), job
    found = await catalog(shop)
    shirt = found["Shirt"]
    assert shirt["options"] == [
        {"name": "Size", "values": ["S", "M", "L"]},
        {"name": "Color", "values": ["Blue", "Red"]},
    ]
    assert [(v["sku"], v["price"], v["stock"]["on_hand"]) for v in shirt["variants"]] == [
        ("S-S", None, 1),
        ("S-M", "61.00", 2),
        ("S-L", None, 3),
    ]
    assert found["Cap"]["variants"][0]["option_values"] == {"Size": "One", "Color": "Red"}


async def test_csv_can_add_and_change_variants_of_an_existing_product(shop: Shop) -> None:
    await shop.add(SHIRT)
    job = await import_file(
        shop,
        sheet(
            "external_id sku option.Size stock.on_hand",
            ["erp-1", "LS-S", "S", "9"],
            ["erp-1", "LS-XL", "XL", "5"],
        ),
        CSV,
        match_by="external_id",
    )
    assert (job["status"], job["counts"]["updated"]) == ("succeeded", 1), job
    shirt = (await catalog(shop))["Linen Shirt"]
    assert {v["sku"]: v["stock"]["on_hand"] for v in shirt["variants"]} == {"LS-S": 9, "LS-M": 0, "LS-XL": 5}
    assert shirt["options"] == [{"name": "Size", "values": ["S", "M", "XL"]}]
    assert (shirt["description"], shirt["price"]) == ("Woven in a small mill.", "59.00")


async def test_names_group_records_in_a_file_with_options(shop: Shop) -> None:
    content = sheet(
        "name price sku option.Size", ["Cap", "9", "C-S", "S"], ["Cap", "", "C-M", "M"], ["Hat", "9", "H", "M"]
    )
    job = await import_file(shop, content, CSV)
    assert (job["status"], job["counts"]["created"]) == ("succeeded", 2), job
    assert len((await catalog(shop))["Cap"]["variants"]) == 2


async def test_a_stock_list_needs_only_skus_and_quantities(shop: Shop) -> None:
    await shop.add(SHIRT, mug(1))
    job = await import_file(
        shop, sheet("sku stock.on_hand", ["LS-M", "8"], ["LS-S", "4"], ["MUG-1", "0"]), CSV, mode="update"
    )
    assert (job["counts"]["updated"], job["counts"]["unchanged"]) == (2, 1), job
    found = await catalog(shop)
    assert [variant["stock"]["on_hand"] for variant in found["Linen Shirt"]["variants"]] == [4, 8]
    assert await events(shop, "product.%stock%") == ["product.back_in_stock", "product.out_of_stock"]
    assert (await events(shop)).count("product.inventory_changed") == 2


async def test_an_empty_cell_changes_nothing_and_null_clears(shop: Shop) -> None:
    await shop.add(SHIRT)
    job = await import_file(
        shop, sheet("external_id brand description price", ["erp-1", "", "null", "60"]), CSV, match_by="external_id"
    )
    assert job["counts"]["updated"] == 1
    shirt = (await catalog(shop))["Linen Shirt"]
    assert (shirt["brand"], shirt["description"], shirt["price"]) == ("Hearth & Loom", None, "60.00")


async def test_quotes_commas_and_newlines_in_cells_are_kept(shop: Shop) -> None:
    text = 'A "plain" thing,\r\nwell made;\n\nwith a blank line'
    content = sheet("sku name price description", ["Q-1", 'Bowl, "blue"', "5", text], ["Q-2", "Plate", "6", "x"])
    job = await import_file(shop, content, CSV)
    assert job["status"] == "succeeded", job
    found = await catalog(shop)
    assert found['Bowl, "blue"']["description"] == text
    assert found["Plate"]["sku"] == "Q-2"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
async def test_the_delimiter_of_a_csv_file_is_detected(shop: Shop, delimiter: str) -> None:
    content = f"sku{delimiter}name{delimiter}price\nD-1{delimiter}Dish{delimiter}7.50\n".encode()
    job = await import_file(shop, content, CSV)
    assert (job["status"], (await catalog(shop))["Dish"]["price"]) == ("succeeded", "7.50")


@pytest.mark.parametrize(("media", "content"), [
    (CSV, "sku,name,price\nB-1,Café,3\n"), (NDJSON, '{"sku":"B-1","name":"Café","price":3}'),
    (JSON, '{"items":[{"sku":"B-1","name":"Café","price":3}]}'),
])  # fmt: skip
async def test_a_byte_order_mark_is_ignored(shop: Shop, media: str, content: str) -> None:
    job = await import_file(shop, b"\xef\xbb\xbf" + content.encode(), media)
    assert job["status"] == "succeeded", job
    assert set(await catalog(shop)) == {"Café"}


async def test_a_json_column_contains_whole_rows(shop: Shop) -> None:
    job = await import_file(
        shop, sheet("row json", ["9", msgspec.json.encode(SHIRT).decode()], ["10", "nonsense"]), CSV
    )
    assert (job["counts"]["created"], job["counts"]["failed"]) == (1, 1)
    [wrong] = await failures(shop, job["id"])
    assert (wrong["json"], wrong["error_code"]) == ("nonsense", "malformed_json")


async def test_rows_cost_no_rate_limit_tokens(shop: Shop) -> None:
    before = await shop.client.get("/products")
    await send(shop, lines(mug(n) for n in range(500)))
    after = await shop.client.get("/products")
    spent = int(before.headers["x-ratelimit-remaining"]) - int(after.headers["x-ratelimit-remaining"])
    assert spent <= 2
