"""Paths outside the app API: health, the OpenAPI document and pages, with the same header limits."""

import hashlib
import json
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.support.shops import Shop

from stoa.access import oauth
from stoa.description import openapi


async def test_live_and_ready_report_their_status(shop: Shop) -> None:
    assert (await shop.service.get("/live")).json() == {"status": "live"}
    ready = await shop.service.get("/ready")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")


async def test_the_openapi_document_is_served(shop: Shop) -> None:
    document = (await shop.service.get("/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    assert "/api/v3/app/products" in document["paths"]


async def test_the_root_redirects_to_the_reference_which_has_an_etag_and_is_compressed(shop: Shop) -> None:
    assert (await shop.service.get("/")).headers["location"] == "/docs"
    plain = await shop.service.get("/docs")
    compressed = await shop.service.get("/docs", headers={"accept-encoding": "gzip"})
    assert compressed.headers["content-encoding"] == "gzip"
    assert compressed.text == plain.text
    assert "default-src 'none'" in plain.headers["content-security-policy"]
    same = await shop.service.get("/docs", headers={"if-none-match": plain.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/nothing", 404), ("/docs/../secret", 404), ("/stores/x/nothing", 404)],
)
async def test_an_unknown_page_returns_a_problem_document(shop: Shop, path: str, status: int) -> None:
    answer = await shop.service.get(path)
    assert (answer.status_code, answer.json()["code"]) == (status, "not_found")
    assert answer.headers["x-request-id"] == answer.json()["request_id"]


@pytest.mark.parametrize(
    "path", ["/nothing", "/stores/x/nothing", "/docs/nothing", "/problems/nothing", "/oauth/nothing"]
)
async def test_a_browser_gets_a_page_at_an_unknown_address(shop: Shop, path: str) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "accept-encoding": "gzip"}
    answer = await shop.service.get(path, headers=browser)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "Page not found" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["content-encoding"] == "gzip"
    assert "Accept" in answer.headers["vary"].replace("Accept-Encoding", "")
    program = await shop.service.get(path, headers={"accept": "application/json"})
    assert (program.status_code, program.headers["content-type"]) == (404, "application/problem+json")
    sent = await shop.service.post(path, headers=browser)
    assert sent.headers["content-type"] == "application/problem+json"


async def test_pages_limit_methods_and_headers(shop: Shop) -> None:
    assert (await shop.service.post("/live")).json()["code"] == "method_not_allowed"
    answer = await shop.service.get("/live", headers=[(f"x-{n}", "1") for n in range(101)])
    assert (answer.status_code, answer.json()["code"]) == (431, "headers_too_large")


async def test_an_unknown_store_is_not_found_by_path_or_by_host(shop: Shop) -> None:
    by_path = await shop.service.get("/stores/nowhere/api/v3/app/products")
    by_host = await shop.service.get("/api/v3/app/products", headers={"host": "nowhere.localhost"})
    for answer in (by_path, by_host):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert answer.json()["detail"] == "There is no store at this address."


async def test_path_and_host_return_the_same_response(shop: Shop) -> None:
    await shop.fill()
    token = {"authorization": f"Bearer {shop.token}"}
    by_path = await shop.client.get("/products")
    by_host = await shop.service.get(
        "/api/v3/app/products", headers={**token, "host": f"{shop.store.handle}.LocalHost:8000"}
    )
    assert by_host.json() == by_path.json()


@pytest.mark.parametrize("path", ["/oauth/token/", "/oauth/revoke/", "/live/", "/ready/", "/openapi.json/", "/nothing/",
                                  "/.well-known/oauth-authorization-server/", "/stores/{handle}/oauth/token/",
                                  "/stores/{handle}/oauth/token//", "/oauth//token", "//oauth/token",
                                  "/stores/{handle}/api/v3/app/products/"])  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_trailing_slash_is_not_found_instead_of_redirected(shop: Shop, path: str, method: str) -> None:
    answer = await shop.service.request(
        method, path.format(handle=shop.store.handle), headers={"host": "api.example.com"}
    )
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "location" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/portal/", "/portal", "/portal/apps"])
async def test_pages_redirect_to_relative_urls(shop: Shop, path: str) -> None:
    answer = await shop.service.get(path, headers={"host": "attacker.example.com"})
    assert answer.status_code in (303, 307)
    assert answer.headers["location"].startswith("/")
    assert not answer.headers["location"].startswith("//")


async def request_with_hosts(shop: Shop, path: str, version: str, hosts: int) -> tuple[int, bytes]:
    """Send a request with this many Host headers; returns the status and the body."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def keep(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"testserver"), (b"host", b"other.example.com")][:hosts]
    scope = {
        "type": "http", "method": "GET", "scheme": "http", "query_string": b"", "http_version": version, "path": path,
        "root_path": "", "server": ("127.0.0.1", 8000),
        "headers": [*headers, (b"authorization", f"Bearer {shop.token}".encode())],
    }  # fmt: skip
    await shop.application(scope, receive, keep)
    assert b"x-request-id" in {name.lower() for name, _ in sent[0]["headers"]} or sent[0]["status"] == 200
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize("path", ["/live", "/stores/{handle}/api/v3/app/products", "/portal/sign-in", "/nothing"])
@pytest.mark.parametrize(("version", "hosts"), [("1.1", 0), ("1.1", 2), ("1.0", 2)])
async def test_a_missing_or_repeated_host_is_refused(shop: Shop, path: str, version: str, hosts: int) -> None:
    status, body = await request_with_hosts(shop, path.format(handle=shop.store.handle), version, hosts)
    assert (status, json.loads(body)["code"]) == (400, "malformed_request")


@pytest.mark.parametrize("path", ["/products", "/stores/{handle}/oauth/token"])
@pytest.mark.parametrize("name", ["Authorization", "Idempotency-Key", "Content-Type", "Content-Encoding"])
async def test_a_second_header_of_a_name_with_one_value_is_refused(shop: Shop, path: str, name: str) -> None:
    client = shop.client if path == "/products" else shop.service
    first = {"Authorization": f"Bearer {shop.token}", "Content-Type": "application/json"}.get(name, "a")
    headers = [(name, first), (name, "Basic YTpi" if name == "Authorization" else "b")]
    client.headers.pop("authorization", None)
    answer = await client.post(path.format(handle=shop.store.handle), content=b"{}", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed_request")
    assert name in answer.json()["detail"]


async def test_a_health_check_without_a_host_header_may_use_http_1_0(shop: Shop) -> None:
    assert (await request_with_hosts(shop, "/live", "1.0", 0))[0] == 200


async def test_the_openapi_document_is_compressed_and_sent_once(shop: Shop) -> None:
    first = await shop.service.get("/openapi.json", headers={"accept-encoding": "gzip"})
    assert (first.status_code, first.headers["content-encoding"]) == (200, "gzip")
    assert json.loads(first.content)["paths"].keys() == openapi()["paths"].keys()
    again = await shop.service.get("/openapi.json", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    plain = await shop.service.get("/openapi.json", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert hashlib.sha256(plain.content).digest() == hashlib.sha256(first.content).digest()


async def test_an_unexpected_error_of_the_token_endpoint_is_a_problem_document_and_is_logged(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise RuntimeError("the cause")

    monkeypatch.setattr(oauth, "authenticate", fails)
    with capture_logs() as logs:
        answer = await shop.service.post(
            "/oauth/token", data={"grant_type": "client_credentials"}, auth=(shop.client_id, shop.client_secret)
        )
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "the cause" not in answer.text
    assert [(each["request_id"], each["status"]) for each in logs if each["event"] == "request"] == [
        (answer.headers["x-request-id"], 500)
    ]
