"""Bytes in, bytes out: reading a request's body under its limits, and writing an answer."""

import asyncio
import gzip
import hashlib
import tempfile
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
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


class Upload(msgspec.Struct):
    """A large body, received and unpacked into a file that lives as long as the request."""

    file: Path
    media: str
    size: int
    digest: bytes


class ClientGone(Exception):
    """The caller hung up; nobody is left to answer."""


class Response(msgspec.Struct):
    status: int
    headers: Headers
    body: bytes
    parts: AsyncIterator[bytes] | None = None  # instead of the body, for what is made while it is sent


def check_headers(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The header fields by name, refused when there are too many."""
    if len(headers) > MOST_HEADERS:
        raise HeadersTooLarge(f"A request may carry at most {MOST_HEADERS} header fields.")
    fields = dict(headers)
    if sum([len(name) + len(value) for name, value in headers]) > MOST_HEADER_BYTES:
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
    packed = _packing(headers)
    deadline = time.monotonic() + BODY_SECONDS
    parts: list[bytes] = []
    size = 0
    while True:
        message = await _next(receive, deadline - time.monotonic())
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > most:
            raise PayloadTooLarge(f"The body may have at most {most:,} bytes.", max_bytes=most)
        parts.append(part)
        if not message.get("more_body", False):
            break
    raw = b"".join(parts)
    return _inflate(raw, most) if packed else raw


UPLOAD_BYTES = 100 * 1000 * 1000
UPLOAD_SECONDS = 600.0
UPLOAD_IDLE_SECONDS = 30.0


@asynccontextmanager
async def receive_upload(receive: Receive, headers: dict[bytes, bytes], media: str) -> AsyncGenerator[Upload]:
    """Receive a large body into a file, unpacking as it comes; memory stays flat whatever its size."""
    packed = _packing(headers)
    declared = headers.get(b"content-length", b"0")
    if not declared.isdigit() or int(declared[:12]) > UPLOAD_BYTES:
        raise PayloadTooLarge(f"The body may have at most {UPLOAD_BYTES:,} bytes.", max_bytes=UPLOAD_BYTES)
    unpacker = zlib.decompressobj(wbits=31) if packed else None
    digest = hashlib.sha256()
    received = size = 0
    deadline = time.monotonic() + UPLOAD_SECONDS
    with tempfile.NamedTemporaryFile(prefix="stoa-upload-") as file:
        more = True
        while more:
            message = await _next(receive, min(UPLOAD_IDLE_SECONDS, deadline - time.monotonic()))
            part: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            received += len(part)
            digest.update(part)
            while part:
                raw = _unpack(unpacker, part) if unpacker else part
                part = unpacker.unconsumed_tail if unpacker else b""
                size += len(raw)
                if size > UPLOAD_BYTES or (unpacker and size > received * UPLOAD_RATIO + 100_000):
                    raise PayloadTooLarge(
                        f"The body may unpack to at most {UPLOAD_BYTES:,} bytes.", max_bytes=UPLOAD_BYTES
                    )
                file.write(raw)
        if unpacker and (not unpacker.eof or unpacker.unused_data):
            raise UnsupportedMediaType("The gzip body is cut short or has something behind it.")
        file.flush()
        yield Upload(Path(file.name), media, size, digest.digest())


UPLOAD_RATIO = 200  # catalogues repeat themselves, and the size itself is limited


def _unpack(unpacker: "zlib._Decompress", part: bytes) -> bytes:  # pyright: ignore[reportPrivateUsage]
    try:
        return unpacker.decompress(part, 1 << 20)
    except zlib.error as error:
        raise UnsupportedMediaType("The body says it is gzip but is not.") from error


def _packing(headers: dict[bytes, bytes]) -> bool:
    """Whether a body is packed; another packing than gzip is refused."""
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"identity", b"gzip"):
        raise UnsupportedMediaType(
            "A body may be packed with gzip, or not at all.", headers=[(b"accept-encoding", b"gzip")]
        )
    return encoding == b"gzip"


async def _next(receive: Receive, seconds: float) -> MutableMapping[str, Any]:
    """The next part of a body, or a refusal when it does not come in time."""
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
    except TimeoutError as error:
        raise RequestTimeout(
            f"The body must arrive within {BODY_SECONDS:.0f} s.", headers=[(b"connection", b"close")]
        ) from error
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message


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
    if response.status not in (204, 304) and response.parts is None:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if response.parts is not None and not head:
        async for part in response.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"" if head else body})
