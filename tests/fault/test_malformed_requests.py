"""Requests that are not valid HTTP get a problem document with a request id, and never an internal error."""

import asyncio
import json
from typing import Any

import pytest

from tests.support.service import PATIENCE_S, Account, Service, until

CHUNKED = "transfer-encoding: chunked\r\n"
BROKEN_BODIES = {
    "a chunk size that is no number": (CHUNKED, b"ZZ\r\nabc\r\n0\r\n\r\n"),
    "a chunk longer than its size": (CHUNKED, b"3\r\nabcXX0\r\n\r\n"),
    "a chunk size beyond 64 bits": (CHUNKED, b"FFFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n"),
    "a chunk that is cut": (CHUNKED, b"A\r\nabc"),
    "a body that is cut": ("content-length: 100\r\n", b"abc"),
}
BROKEN = [pytest.param(*body, id=name) for name, body in BROKEN_BODIES.items()]


async def exchange(port: int, head: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send a request and nothing more; returns the status, the headers and the body of the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}\r\n".encode() + body)
    if body:
        writer.write_eof()
    async with asyncio.timeout(PATIENCE_S):
        response = await reader.read()
    writer.close()
    await writer.wait_closed()
    received_head, _, content = response.partition(b"\r\n\r\n")
    first, *lines = received_head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, content


def logged(service: Service, request_id: str) -> dict[str, Any]:
    """The only log line of a request, which is written after the response."""
    until(lambda: request_id in service.output(), "the request is logged")
    [line] = [line for line in service.output().splitlines() if request_id in line]
    return json.loads(line)


@pytest.fixture(scope="package")
async def account(service: Service) -> Account:
    return await service.account("malformed")


@pytest.mark.parametrize(("framing", "body"), BROKEN)
@pytest.mark.parametrize(("path", "media"), [("/notes", "application/json"), ("/products/imports", "text/csv")])
async def test_a_malformed_body_gets_a_problem_and_one_log_line(
    account: Account, path: str, media: str, framing: str, body: bytes
) -> None:
    head = (
        f"POST /stores/{account.handle}/api/v3/app{path} HTTP/1.1\r\nhost: localhost\r\n{framing}"
        f"authorization: Bearer {account.token}\r\ncontent-type: {media}\r\n"
    )
    status, headers, content = await exchange(account.service.port, head, body)
    problem = json.loads(content)
    assert (status, problem["code"]) == (400, "malformed_request")
    assert headers["x-request-id"] == problem["request_id"]
    line = logged(account.service, problem["request_id"])
    assert (line["level"], line["status"], line["code"]) == ("info", 400, "malformed_request")


@pytest.mark.parametrize(("framing", "body"), BROKEN)
@pytest.mark.parametrize("path", ["/oauth/token", "/portal/sign-in"])
async def test_a_malformed_form_gets_400_and_a_request_id(
    service: Service, path: str, framing: str, body: bytes
) -> None:
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{framing}origin: http://localhost\r\n"
        "sec-fetch-site: same-origin\r\ncontent-type: application/x-www-form-urlencoded\r\n"
    )
    status, headers, content = await exchange(service.port, head, body)
    assert (status, bool(content)) == (400, True)
    line = logged(service, headers["x-request-id"])
    assert (line["level"], line["status"]) == ("info", 400)


@pytest.mark.parametrize("hosts", ["", "host: localhost\r\nhost: example.com\r\n"], ids=["none", "two"])
async def test_a_missing_or_repeated_host_gets_a_problem(service: Service, hosts: str) -> None:
    status, _, content = await exchange(service.port, f"GET /live HTTP/1.1\r\n{hosts}connection: close\r\n", b"")
    assert (status, json.loads(content)["code"]) == (400, "malformed_request")


async def test_a_health_check_by_http_1_0_needs_no_host(service: Service) -> None:
    assert (await exchange(service.port, "GET /live HTTP/1.0\r\n", b""))[0] == 200


@pytest.mark.parametrize("framing", [
    "content-length: 5\r\ncontent-length: 6\r\n",
    "content-length: 5\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
    "transfer-encoding: identity\r\n",
    "content-length: +5\r\n",
    "content-length: 5, 6\r\n",
    "transfer-encoding : chunked\r\n",
    "x-folded: a\r\n b\r\n",
])  # fmt: skip
async def test_an_ambiguous_request_ends_its_connection(service: Service, framing: str) -> None:
    """Otherwise the rest of the body would be read as a second request."""
    second = b"GET /smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    writer.write(f"POST /oauth/token HTTP/1.1\r\nhost: localhost\r\n{framing}\r\n".encode() + b"0\r\n\r\n" + second)
    async with asyncio.timeout(PATIENCE_S):
        response = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert response.startswith(b"HTTP/1.1 400")
    assert response.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("line", ["CONNECT localhost:80", "OPTIONS *", "TRACE /live", "GET http://localhost/nothing"])
async def test_an_unusual_target_is_refused(service: Service, line: str) -> None:
    head = f"{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    status, headers, _ = await exchange(service.port, head, b"")
    assert status in (400, 404, 405)
    assert headers["x-request-id"].startswith("req_")
