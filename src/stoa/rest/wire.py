"""Bytes in, bytes out: reading a request's body under its limits, and writing an answer."""

import asyncio
import gzip
import time
import zlib
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

import msgspec

from stoa.rest.problems import HeadersTooLarge, PayloadTooLarge, RequestTimeout, UnsupportedMediaType

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

MOST_HEADERS, MOST_HEADER_BYTES = 100, 16 * 1024
JSON_BODY_BYTES = 1024 * 1024
BODY_SECONDS = 30.0
INFLATE_RATIO = 20
_GZIP_FROM = 1_000

SAFE_HEADERS: Headers = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"api-version", b"3.0"),
]


class ClientGone(Exception):
    """The caller hung up; nobody is left to answer."""


class Response(msgspec.Struct):
    status: int
    headers: Headers
    body: bytes


def check_headers(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The header fields by name, refused when there are too many."""
    if len(headers) > MOST_HEADERS:
        raise HeadersTooLarge(f"A request may carry at most {MOST_HEADERS} header fields.")
    fields = dict(headers)
    if sum(map(len, fields)) + sum(map(len, fields.values())) > MOST_HEADER_BYTES:
        raise HeadersTooLarge(f"A request may carry at most {MOST_HEADER_BYTES} bytes of header fields.")
    return fields


def look_past_proxies(scope: Scope, proxies: int) -> None:
    """Take the caller's address and scheme from the outermost of our own proxies; what lies beyond it may be made up."""
    fields = dict(scope["headers"])
    addresses = fields.get(b"x-forwarded-for", b"").decode("latin-1").split(",")
    if len(addresses) >= proxies and (address := addresses[-proxies].strip()):
        scope["client"] = (address, 0)
    scheme = fields.get(b"x-forwarded-proto", b"").decode("latin-1").split(",")[-1].strip().lower()
    if scheme in ("http", "https"):
        scope["scheme"] = scheme


async def read_body(receive: Receive, headers: dict[bytes, bytes], most: int = JSON_BODY_BYTES) -> bytes:
    """Read a whole body, unpacked; size and time are limited while it arrives, not after."""
    declared = headers.get(b"content-length", b"0")
    if not declared.isdigit() or int(declared[:12]) > most:
        raise PayloadTooLarge(f"The body may have at most {most:,} bytes.", max_bytes=most)
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"identity", b"gzip"):
        raise UnsupportedMediaType(
            "A body may be packed with gzip, or not at all.", headers=[(b"accept-encoding", b"gzip")]
        )
    deadline = time.monotonic() + BODY_SECONDS
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                message = await receive()
        except TimeoutError as error:
            raise RequestTimeout(
                f"The body must arrive within {BODY_SECONDS:.0f} s.", headers=[(b"connection", b"close")]
            ) from error
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > most:
            raise PayloadTooLarge(f"The body may have at most {most:,} bytes.", max_bytes=most)
        parts.append(part)
        if not message.get("more_body", False):
            break
    raw = b"".join(parts)
    return _inflate(raw, most) if encoding == b"gzip" else raw


def _inflate(packed: bytes, most: int) -> bytes:
    """Unpack gzip, counting while it unpacks: a small body cannot become a huge one."""
    largest = min(most, len(packed) * INFLATE_RATIO + 1_000)
    unpacker = zlib.decompressobj(wbits=31)
    try:
        raw = unpacker.decompress(packed, largest + 1)
    except zlib.error as error:
        raise UnsupportedMediaType("The body says it is gzip but is not.") from error
    if len(raw) > largest:
        raise PayloadTooLarge(
            f"The body unpacks to more than {INFLATE_RATIO} times its size, or beyond the limit.",
            max_bytes=most,
        )
    if not unpacker.eof or unpacker.unused_data:
        raise UnsupportedMediaType("The gzip body is cut short or has something behind it.")
    return raw


def accepts_gzip(headers: dict[bytes, bytes]) -> bool:
    accept = headers.get(b"accept-encoding")
    if accept is None or b"gzip" not in accept:
        return False
    for part in accept.lower().split(b","):
        coding, _, q = part.partition(b";")
        if coding.strip() == b"gzip":
            return q.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


def acceptable(accept: bytes | None, offered: Sequence[bytes]) -> bytes | None:
    """The first offered media type that the Accept header likes best, or None."""
    if accept is None or accept in (b"*/*", offered[0]):
        return offered[0]
    best: tuple[float, bytes] | None = None
    for media in offered:
        kind = media.split(b"/")[0]
        quality, strength = 0.0, 0
        for part in accept.lower().split(b","):
            name, *parameters = [piece.strip() for piece in part.split(b";")]
            fit = {media: 3, kind + b"/*": 2, b"*/*": 1}.get(name, 0)
            if fit > strength:
                strength, quality = fit, _quality(parameters)
        if quality > 0 and (best is None or quality > best[0]):
            best = (quality, media)
    return best[1] if best else None


def _quality(parameters: Sequence[bytes]) -> float:
    for parameter in parameters:
        if parameter.startswith(b"q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0


async def send_response(send: Send, response: Response, *, head: bool = False, pack: bool = False) -> None:
    body, headers = response.body, response.headers
    if pack and len(body) >= _GZIP_FROM:
        body = gzip.compress(body, compresslevel=1, mtime=0)
        headers = [*headers, (b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]
    if response.status not in (204, 304):
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else body})
