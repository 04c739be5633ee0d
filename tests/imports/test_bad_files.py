"""Unusable files are refused on upload, and nothing is stored."""

import gzip
import json
import time
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.imports.files import CSV, JSON, NDJSON, lines, mug, refused, send, sheet
from tests.support.shops import Shop


@pytest.mark.parametrize(
    ("header", "faults"),
    [
        ("sku;nmae;price", {"/nmae": "unknown_field"}),
        ("sku,name,name", {"/name": "invalid_format"}),
        ("sku,Name,name", {"/name": "invalid_format"}),
        ("name,price", {"/sku": "required"}),
        ("sku,option.,metadata.", {"/option.": "unknown_field", "/metadata.": "unknown_field"}),
        ("sku,created,tail", {"/created": "unknown_field", "/tail": "unknown_field"}),
        ('{"sku":"a"}', {'/{"sku":"a"}': "unknown_field"}),
    ],
)
async def test_a_csv_file_with_a_wrong_header_is_refused(shop: Shop, header: str, faults: dict[str, str]) -> None:
    status, problem = await refused(shop, f"{header}\nA,B,C\n".encode(), CSV)
    assert (status, problem["code"]) == (422, "validation_failed")
    assert {fault["pointer"]: fault["code"] for fault in problem["errors"]} == faults


async def test_a_header_has_five_hundred_columns_at_most(shop: Shop) -> None:
    columns = ",".join(f"metadata.k{n}" for n in range(100_000))
    status, problem = await refused(shop, f"sku,{columns}\nA\n".encode()[:1_000_000], CSV)
    assert (status, problem["code"]) == (422, "validation_failed")


async def test_a_misspelled_column_gets_a_suggestion(shop: Shop) -> None:
    _, problem = await refused(shop, b"sku,prise\nA,1\n", CSV)
    assert problem["errors"][0]["meta"] == {"did_you_mean": "price"}


@pytest.mark.parametrize(("content", "media"), [
    (b"", NDJSON), (b"\n \n", NDJSON), (b"", CSV), (b"\n\n", CSV), (b",,\n", CSV), (b"sku,name\n", CSV),
    (b"sku,name\n,,\n\n", CSV), (b'{"items":[]}', JSON), (b"\xef\xbb\xbf", CSV),
])  # fmt: skip
async def test_a_file_without_rows_is_refused(shop: Shop, content: bytes, media: str) -> None:
    status, problem = await refused(shop, content, media)
    assert (status, problem["code"]) == (422, "validation_failed")


@pytest.mark.parametrize("media", [NDJSON, CSV])
@pytest.mark.parametrize(
    "content",
    [
        "sku,name\nA,Café\n".encode("utf-16"),
        "sku,name\nA,Café\n".encode("utf-16-le"),
        "sku,name\nA,Café\n".encode("latin-1"),
        "sku,name\nA,Café\n".encode() + "B,Thé\n".encode("cp1252"),
        b"sku,name\nA,x\x00y\n",
    ],
    ids=["UTF-16", "UTF-16 without a mark", "Latin-1", "two encodings in one file", "NUL"],
)
async def test_an_unsupported_encoding_is_refused(shop: Shop, content: bytes, media: str) -> None:
    status, problem = await refused(shop, content, media)
    assert (status, problem["code"]) == (415, "unsupported_media_type")
    assert "UTF-8" in problem["detail"]


async def test_an_unsupported_charset_is_refused(shop: Shop) -> None:
    status, _ = await refused(shop, sheet("sku name price", ["A", "x", "1"]), "text/csv; charset=iso-8859-1")
    assert status == 415
    await send(shop, sheet("sku name price", ["A", "x", "1"]), 'text/csv; header=present; charset="UTF-8"')


@pytest.mark.parametrize("media", ["text/plain", "application/xml", "multipart/form-data; boundary=x", ""])
async def test_an_unsupported_media_type_is_refused(shop: Shop, media: str) -> None:
    status, problem = await refused(shop, lines([mug(1)]), media)
    assert (status, problem["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content",
    [b'sku,name\nA,"open\nB,x\n', b'sku,name\nA,"a"b\n', b'"sku,name\nA,b\n'],
    ids=["a quote never closed", "text behind a quote", "a header never closed"],
)
async def test_a_csv_file_with_broken_quotes_is_refused(shop: Shop, content: bytes) -> None:
    status, problem = await refused(shop, content, CSV)
    assert (status, problem["code"], problem["errors"][0]["code"]) == (422, "validation_failed", "invalid_format")


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b'{"items":', 400, "malformed_json"),
        (b"[]", 422, "validation_failed"),
        (b'{"items":{}}', 422, "validation_failed"),
        (b'{"items":[],"more":1}', 422, "validation_failed"),
        (b'{"items":' + b"[" * 20_000, 400, "malformed_json"),
        (b'{"items":[' + b'{"a":[' * 20_000 + b"]}" * 20_000 + b"]}", 400, "malformed_json"),
        (b"[" * 20_000 + b"]" * 20_000, 422, "validation_failed"),
        (b'{"items":[1,\xff]}', 400, "malformed_json"),
        (b'{"items":[' + b"{}," * 1_000 + b"{}]}", 413, "too_many_rows"),
        (b'{"items":["' + b"x" * 1_100_000 + b'"]}', 413, "payload_too_large"),
        (b'{"items":["' + b"x" * 17_000_000 + b'"]}', 413, "payload_too_large"),
    ],
    ids=[
        "cut",
        "an array",
        "no array",
        "another field",
        "only brackets",
        "nested objects",
        "nested arrays",
        "not UTF-8",
        "1,001 items",
        "a huge item",
        "a huge file",
    ],
)
async def test_json_that_is_not_a_list_of_items_is_refused(shop: Shop, content: bytes, status: int, code: str) -> None:
    answered, problem = await refused(shop, content, JSON)
    assert (answered, problem["code"]) == (status, code)
    assert len(str(problem)) < 2_000


@pytest.mark.parametrize(("media", "head", "row"), [(NDJSON, b"", b"{}\n"), (CSV, b"sku\n", b"A\n")])
async def test_too_many_rows_are_refused(shop: Shop, media: str, head: bytes, row: bytes) -> None:
    status, problem = await refused(shop, head + row * 100_001, media)
    assert (status, problem["code"], problem["max_rows"]) == (413, "too_many_rows", 100_000)
    job = await send(shop, head + row * 100_000, media, dry_run="true")
    assert job["counts"]["total"] == 100_000
    await shop.db.execute("DELETE FROM import_queue WHERE store_id = $1", shop.store_id)


@pytest.mark.parametrize("media", [NDJSON, CSV])
async def test_a_row_of_a_megabyte_is_refused(shop: Shop, media: str) -> None:
    content = b"sku\n" + (b"A," + b"x" * 100_000 + b"\n") * 2 + b"x" * 1_100_000 + b"\n"
    status, problem = await refused(shop, content, media)
    assert (status, problem["code"]) == (413, "payload_too_large")


async def test_records_of_one_product_have_at_most_a_megabyte(shop: Shop) -> None:
    content = b"external_id,sku,description\n" + (b"erp-1,A," + b"x" * 60_000 + b"\n") * 20
    status, problem = await refused(shop, content, CSV, match_by="external_id")
    assert (status, problem["code"]) == (413, "payload_too_large")


async def _packed(shop: Shop, content: bytes | AsyncIterator[bytes]) -> Any:
    return await shop.client.post(
        "/products/imports", content=content, headers={"content-type": NDJSON, "content-encoding": "gzip"}
    )


async def test_a_gzip_bomb_is_refused_while_it_is_decompressed(shop: Shop) -> None:
    started = time.process_time()
    answer = await _packed(shop, gzip.compress(b" " * 90_000_000))
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(lines(mug(n) for n in range(100)))[:-9],
        b"nothing packed",
        gzip.compress(lines([mug(1)])) + b"more",
    ],
    ids=["cut short", "not gzip", "something behind it"],
)
async def test_a_broken_gzip_is_refused(shop: Shop, content: bytes) -> None:
    answer = await _packed(shop, content)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert not await shop.db.fetch("SELECT 1 FROM imports WHERE store_id = $1", shop.store_id)


async def test_an_upload_is_refused_at_the_first_byte_behind_its_gzip(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoa.rest.body._DISCARD_BYTES", 0)  # what follows a refusal is not read here
    taken = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal taken
        yield gzip.compress(lines([mug(1)]))
        for _ in range(100):
            taken += 1
            yield bytes(65_536)

    answer = await _packed(shop, body())
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert taken == 1


async def test_a_gzip_of_empty_blocks_is_refused_at_a_hundred_megabytes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoa.rest.body._DISCARD_BYTES", 0)  # what follows a refusal is not read here
    taken = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal taken
        packed = zlib.compressobj(wbits=31)
        yield packed.compress(lines([mug(1)])) + packed.flush(zlib.Z_FULL_FLUSH)
        for _ in range(110):
            taken += 1
            yield b"\x00\x00\x00\xff\xff" * 200_000
        yield packed.flush()

    answer = await _packed(shop, body())
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert taken == 100


async def test_more_than_a_hundred_megabytes_are_refused_before_reading(shop: Shop) -> None:
    answer = await shop.client.post(
        "/products/imports", content=b"", headers={"content-type": NDJSON, "content-length": "100000001"}
    )
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


async def test_an_interrupted_upload_stores_nothing(shop: Shop) -> None:
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": lines(mug(n) for n in range(1_000)), "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def keep(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "scheme": "http", "query_string": b"", "http_version": "1.1",
        "path": f"/stores/{shop.store.handle}/api/v3/app/products/imports",
        "headers": [(b"host", b"testserver"), (b"authorization", f"Bearer {shop.token}".encode()),
                    (b"content-type", NDJSON.encode())],
    }  # fmt: skip
    await shop.application(scope, receive, keep)
    start, body = sent
    assert (start["status"], json.loads(body["body"])["code"]) == (400, "malformed_request")
    assert b"x-request-id" in dict(start["headers"])
    for table in ("imports", "import_parts", "import_queue"):
        assert not await shop.db.fetch(f"SELECT 1 FROM {table} WHERE store_id = $1", shop.store_id)


@pytest.mark.parametrize("resource", ["products", "customers"])
async def test_items_that_are_not_objects_are_refused(shop: Shop, resource: str) -> None:
    content = b'{"items":[1, {}, null, [{}], "a"]}'
    answer = await shop.client.post(f"/{resource}/imports", content=content, headers={"content-type": JSON})
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    faults = answer.json()["errors"]
    assert [fault["pointer"] for fault in faults] == ["/items/0", "/items/2", "/items/3", "/items/4"]
    assert {fault["code"] for fault in faults} == {"invalid_type"}
