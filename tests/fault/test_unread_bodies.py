"""A refused request may leave its body unread. Its client still gets the response, and its connection serves the next request."""

import asyncio

import pytest

from tests.support.service import PATIENCE_S, Account, Service

LARGE = 300_000
TOO_LARGE = 2 * 1024 * 1024
CHUNKED = b"transfer-encoding: chunked\r\n"


@pytest.fixture(scope="package")
async def account(service: Service) -> Account:
    return await service.account("unread")


async def twice(account: Account, body: bytes, *, token: str, framing: bytes = b"") -> list[bytes]:
    """The first lines of the responses to a request with this body and to another request on the same connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", account.service.port)
    head = f"POST /stores/{account.handle}/api/v3/app/notes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    framed = framing or b"content-length: %d\r\n" % len(body)
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if framing else body
    writer.write(head.encode() + framed + f"authorization: Bearer {token}\r\n\r\n".encode() + sent)
    lines: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        await writer.drain()
        lines.append(await response_line(reader))
        writer.write(b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n")
        lines.append(await response_line(reader))
    writer.close()
    return lines


async def response_line(reader: asyncio.StreamReader) -> bytes:
    """Read a response; returns its first line with its `connection` header."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *fields = head.lower().split(b"\r\n")
    length = next(int(each.partition(b":")[2]) for each in fields if each.startswith(b"content-length:"))
    await reader.readexactly(length)
    return first + b"".join(each for each in fields if each.startswith(b"connection:"))


@pytest.mark.parametrize("framing", [b"", CHUNKED], ids=["length", "chunked"])
async def test_a_connection_outlives_a_refusal_of_an_unread_body(account: Account, framing: bytes) -> None:
    assert await twice(account, b"x" * LARGE, token="wrong", framing=framing) == [
        b"http/1.1 401 unauthorized",
        b"http/1.1 200 ok",
    ]


@pytest.mark.parametrize("framing", [b"", CHUNKED], ids=["length", "chunked"])
async def test_the_sender_of_a_body_that_is_too_large_is_told(account: Account, framing: bytes) -> None:
    body = b'{"title":"' + b"x" * TOO_LARGE + b'"}'
    assert await twice(account, body, token=account.token, framing=framing) == [
        b"http/1.1 413 payload too large",
        b"http/1.1 200 ok",
    ]


async def test_a_body_that_waits_for_permission_ends_the_connection_if_it_is_refused(account: Account) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", account.service.port)
    head = f"POST /stores/{account.handle}/api/v3/app/notes HTTP/1.1\r\nhost: localhost\r\n"
    writer.write(
        head.encode() + b"content-length: 20000\r\nexpect: 100-continue\r\nauthorization: Bearer wrong\r\n\r\n"
    )
    async with asyncio.timeout(PATIENCE_S):
        assert await response_line(reader) == b"http/1.1 401 unauthorizedconnection: close"
        assert await reader.read() == b"", "what follows must not be read as the body"
    writer.close()
