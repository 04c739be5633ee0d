"""HTTP: methods, content negotiation, compression, header limits and security headers."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import pytest
from tests.support.databases import PATIENCE_S
from tests.support.shops import Shop


async def test_head_is_get_without_the_body(shop: Shop) -> None:
    got = await shop.client.get("/notes")
    head = await shop.client.head("/notes")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(got.content))


@pytest.mark.parametrize(("method", "path", "allowed"), [
    ("PUT", "/notes", "GET, HEAD, POST"),
    ("POST", "/notes/1", "DELETE, GET, HEAD, PATCH"),
    ("OPTIONS", "/crash", "GET, HEAD"),
    ("TRACE", "/crash", "GET, HEAD"),
    ("FOO", "/old-notes/1", "GET, HEAD"),
])  # fmt: skip
async def test_an_unsupported_method_is_refused_with_the_supported_ones(
    shop: Shop, method: str, path: str, allowed: str
) -> None:
    answer = await shop.client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert answer.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["", "/", "/product", "/products/", "/products/abc", "/products/-1", "/products/1.0",
                                  "/products/" + "9" * 30, "/products/1/nothing", "/products/%00", "/products/\u0663"])  # fmt: skip
async def test_an_unknown_path_is_not_found(shop: Shop, path: str) -> None:
    answer = await shop.client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(("accept", "status"), [
    ("application/json", 200), ("*/*", 200), ("application/*;q=0.1", 200), ("text/html, */*;q=0.1", 200), ("", 200), (" ", 200), (",", 200),
    ("text/html", 406), ("application/json;q=0", 406), ("application/xml, image/*", 406), ("application/json;q=bad", 406),
])  # fmt: skip
async def test_the_accept_header_is_respected(shop: Shop, accept: str, status: int) -> None:
    answer = await shop.client.get("/notes", headers={"accept": accept})
    assert answer.status_code == status


async def test_a_large_response_is_compressed_if_the_client_accepts_gzip(shop: Shop) -> None:
    for n in range(12):
        await shop.client.post("/notes", json={"title": f"a note with a long title {n}", "price": "1"})
    plain = await shop.client.get("/notes", headers={"accept-encoding": "identity"})
    compressed = await shop.client.get("/notes", headers={"accept-encoding": "br, gzip"})
    assert compressed.headers["content-encoding"] == "gzip"
    assert compressed.content == plain.content
    refused = await shop.client.get("/notes", headers={"accept-encoding": "gzip;q=0"})
    assert "content-encoding" not in refused.headers
    assert gzip.compress(plain.content) != plain.content


async def test_too_many_or_too_large_headers_are_refused(shop: Shop) -> None:
    answer = await shop.client.get("/notes", headers=[(f"x-{n}", "1") for n in range(101)])
    assert (answer.status_code, answer.json()["code"]) == (431, "headers_too_large")
    answer = await shop.client.get("/notes", headers={"x-large": "a" * 17_000})
    assert answer.status_code == 431


async def test_a_long_url_is_refused(shop: Shop) -> None:
    answer = await shop.client.get("/notes", params={"q": "a" * 33_000})
    assert (answer.status_code, answer.json()["code"]) == (414, "url_too_long")


async def test_every_response_has_security_headers_and_a_request_id(shop: Shop) -> None:
    for answer in (await shop.client.get("/notes"), await shop.client.get("/nothing")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["api-version"] == "3.2"
        assert answer.headers["x-request-id"].startswith("req_")
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("sent", ["has space", "semi;colon", "a" * 129, "<script>"])
async def test_an_invalid_request_id_is_replaced(shop: Shop, sent: str) -> None:
    answer = await shop.client.get("/notes", headers={"x-request-id": sent})
    assert answer.headers["x-request-id"].startswith("req_")


async def test_an_internal_error_reveals_no_details(shop: Shop) -> None:
    answer = await shop.client.get("/crash")
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal_error"
    assert "secret detail" not in answer.text
    assert "Traceback" not in answer.text


async def test_a_deprecated_endpoint_sends_its_sunset_date(shop: Shop) -> None:
    answer = await shop.client.get("/old-notes/1")
    assert answer.headers["deprecation"] == "@1767225600"
    assert answer.headers["sunset"] == "Fri, 01 Jan 2027 00:00:00 GMT"
    assert answer.links["deprecation"]["url"] == "https://docs.example.com/old-notes"


async def test_a_slow_body_times_out(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoa.rest.body.BODY_SECONDS", 0.2)

    read_on = False

    async def slow_body() -> AsyncIterator[bytes]:
        nonlocal read_on
        yield b" "
        await asyncio.sleep(PATIENCE_S)
        read_on = True

    answer = await shop.client.post("/notes", content=slow_body(), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (408, "request_timeout")
    assert not read_on
