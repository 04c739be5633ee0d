"""Responses: what a handler returned, or a refusal, as status, headers and bytes."""

import asyncio
import gzip
import re
import time
import zlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from stoa.rest.batch import Batch
from stoa.rest.call import Call
from stoa.rest.endpoint import Created, Endpoint, NoContent, One, Stream
from stoa.rest.headers import accepts_gzip, tags
from stoa.rest.limits import DOCUMENT_BYTES
from stoa.rest.lists import Page, Tombstone
from stoa.rest.problems import InsufficientScope, MissingToken, Refusal
from stoa.rest.request import Headers, Peer, Request, Send
from stoa.rest.unsent import WHOLE_BYTES, UnsentResponses

_JSON = (b"content-type", b"application/json")
_PROBLEM = (b"content-type", b"application/problem+json")
_GZIP_FROM = 1_000
_GZIP_WINDOW = 31  # the largest window, in the format of gzip
STALLED_S = 120  # a client of a stream that takes nothing for this long is disconnected
STREAM_BYTES = 128 * 1024  # streams are few, and larger parts cost less time
PART_BYTES = 32 * 1024  # the server copies several in advance: 303 KiB for each client that does not read

SAFE_HEADERS: Headers = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"api-version", b"3.2"),
]


class StreamBroken(Exception):
    """A stream failed and cannot say so: its connection is aborted."""


class Response(msgspec.Struct):
    status: int
    headers: Headers
    body: bytes
    parts: AsyncGenerator[bytes] | None = None  # a streamed body


async def send_response(
    send: Send, response: Response, unsent: UnsentResponses, peer: Peer, *, head: bool = False, compress: bool = False
) -> float:
    """Send a response; returns the time at which the server had its first part."""
    body, headers = response.body, response.headers
    if compress and len(body) >= _GZIP_FROM:
        body = gzip.compress(body, compresslevel=1, mtime=0)
        headers = [*headers, (b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]
    if response.status not in (204, 304) and response.parts is None:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    if response.parts is not None and not head:
        return await _send_parts(send, response, response.parts, unsent, peer, compress=compress)
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if head or len(body) <= WHOLE_BYTES:
        return await send_body(send, b"" if head else body, unsent)
    with unsent.keeping(peer, len(body)):
        return await send_body(send, body, unsent)


async def _send_parts(
    send: Send, response: Response, parts: AsyncGenerator[bytes], unsent: UnsentResponses, peer: Peer, *, compress: bool
) -> float:
    """Send a stream, each part when the client has taken those before; returns the time at which the server had the first.

    A stream that fails ends without its last chunk, so that the client notices.
    """
    headers = [*response.headers, (b"vary", b"accept, accept-encoding")]
    if compress:
        headers.append((b"content-encoding", b"gzip"))
    packer = zlib.compressobj(level=1, wbits=_GZIP_WINDOW) if compress else None
    first_at = 0.0
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    try:
        async with aclosing(parts):
            async for part in parts:
                body = part
                if (
                    packer is not None
                ):  # so that the client can read the whole part; others wait for the event loop meanwhile
                    body = await asyncio.to_thread(packer.compress, part)
                    body += packer.flush(zlib.Z_SYNC_FLUSH)
                with unsent.keeping(peer, len(body) + len(part)):  # about as much is read ahead
                    for start in range(0, len(body), STREAM_BYTES):
                        piece = body[start : start + STREAM_BYTES]
                        unsent.at_most += len(piece)
                        async with asyncio.timeout(STALLED_S):
                            await send({"type": "http.response.body", "body": piece, "more_body": True})
                        first_at = first_at or time.perf_counter()
    except (StreamBroken, TimeoutError):
        return first_at or time.perf_counter()
    await send({"type": "http.response.body", "body": packer.flush() if packer else b""})
    return first_at or time.perf_counter()


async def send_body(send: Send, body: bytes, unsent: UnsentResponses) -> float:
    """Send a whole body; returns the time at which the server had its first part.

    A large body is sent in parts, and the server takes the next one when the client has taken those before. Otherwise each
    client that does not read would keep a copy of its response in the server.
    """
    if len(body) <= WHOLE_BYTES:
        unsent.at_most += len(body)
        await send({"type": "http.response.body", "body": body})
        return time.perf_counter()
    await unsent.room()
    unsent.at_most += len(body)
    first_at = 0.0
    for start in range(0, len(body), PART_BYTES):
        more = start + PART_BYTES < len(body)
        await send({"type": "http.response.body", "body": body[start : start + PART_BYTES], "more_body": more})
        first_at = first_at or time.perf_counter()
    return first_at


def render(request: Request, endpoint: Endpoint, call: Call, result: Any, status: int | None = None) -> Response:
    """The response for what a handler returned; its type decides the status."""
    if isinstance(result, Page):
        return _page(request, call, cast("Page[Any]", result))
    if isinstance(result, Batch):
        batch = cast("Batch[Any]", result)
        call.costs_documents(len(memoryview(raw)) for raw in batch.resources)
        return Response(207 if batch.failed else 200, [_JSON], batch.body())
    if isinstance(result, Stream):
        return Response(200, [(b"content-type", result.media.encode())], b"", result.parts)
    if isinstance(result, NoContent):
        return Response(204, [], b"")
    if not isinstance(result, One):
        raise TypeError(f"{endpoint.name} returned {type(result).__name__}")
    if len(result.doc) >= DOCUMENT_BYTES:
        call.costs_documents([len(result.doc)])
    tag = _tag(result.version, request, result.own)
    known = tags(request.headers, b"if-none-match")
    if request.method in ("GET", "HEAD") and _matches(known, tag, None if result.own else result.version):
        return Response(304, [(b"etag", tag)], b"")
    doc = result.doc if call.fields is None else _only_fields(result.doc, call.fields)
    headers: Headers = [_JSON, (b"etag", tag)]
    if isinstance(result, Created):
        headers.append((b"location", f"{request.origin}{call.base}{result.path}".encode()))
    # A dry run shows what would be created: status 200, no Location.
    dry_run = issubclass(endpoint.returns, Created) and not isinstance(result, Created)
    status = status or (200 if dry_run else endpoint.status)
    return Response(status, headers, b'{"data":%b,"meta":%b}' % (doc, result.meta))


# The SDKs up to 0.3 recognize a tombstone by exactly three members (decision 51).
_COMPARES_TOMBSTONES = re.compile(rb"stoa-(?:python|typescript)/0\.[0-3]\.")
_NEWER_MEMBER = re.compile(rb'(\{"id":[0-9]+,"deleted_at":"[^"]+"),"updated_at":"[^"]+"')


def _page(request: Request, call: Call, page: Page[Any]) -> Response:
    headers: Headers = [_JSON]
    if page.next_cursor or page.prev_cursor:
        headers.append((b"link", page.links(request.origin + request.path).encode()))
    docs = page.docs
    if call.fields is not None:
        fields = call.fields
        docs = [_only_fields(doc, fields) for doc in docs]
    if _COMPARES_TOMBSTONES.match(request.headers.get(b"user-agent", b"")):
        docs = [_NEWER_MEMBER.sub(rb"\1", doc) for doc in docs]
    return Response(200, headers, b'{"data":[%b],"meta":%b}' % (b",".join(docs), page.meta().encode()))


def _tag(version: int, request: Request, own: str) -> bytes:
    """A strong entity tag: the version first, then the caller's own part and the representation, which change the bytes."""
    chosen = b"-%08x" % zlib.crc32(request.query) if request.query else b""
    private = b".%s" % own.encode() if own else b""
    return b'"%d%s%s%s"' % (version, private, chosen, b"-gz" if accepts_gzip(request.headers) else b"")


def _matches(header: bytes | None, tag: bytes, version: int | None) -> bool:
    """Whether If-None-Match names the current representation in any encoding, or just the version, if that says all.

    The comparison is weak (RFC 9110, section 13.1.2), so a proxy or a client that knows the version only may omit `-gz`.
    """
    if header is None:
        return False
    current = (_without_encoding(tag), b"%d" % version if version is not None else None)
    return header.strip() == b"*" or any(_without_encoding(part) in current for part in header.split(b","))


def _without_encoding(tag: bytes) -> bytes:
    return tag.strip().removeprefix(b"W/").strip(b'"').removesuffix(b"-gz")


def lines_of(docs: Sequence[bytes], fields: frozenset[str] | None) -> bytes:
    """Documents as lines, each with its end."""
    shown = docs if fields is None else [_only_fields(doc, fields) for doc in docs]
    return b"\n".join([*shown, b""])


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TOMBSTONE = frozenset(Tombstone.__struct_fields__)


def _only_fields(doc: bytes, fields: frozenset[str]) -> bytes:
    members = _members.decode(doc)
    if members.keys() == _TOMBSTONE:
        return doc  # a sparse tombstone would look like a live resource
    return msgspec.json.encode({name: raw for name, raw in members.items() if name in fields})


def deprecation_headers(endpoint: Endpoint) -> Headers:
    deprecation = endpoint.deprecation
    if deprecation is None:
        return []
    since = deprecation.since
    started = int(datetime(since.year, since.month, since.day, tzinfo=UTC).timestamp())
    sunset = deprecation.sunset.strftime("%a, %d %b %Y 00:00:00 GMT")
    return [
        (b"deprecation", b"@%d" % started),
        (b"sunset", sunset.encode()),
        (b"link", f'<{deprecation.guide}>; rel="deprecation"; type="text/html"'.encode()),
    ]


def refused(request: Request, refusal: Refusal) -> Response:
    """The problem document for a refusal."""
    request.code = refusal.code
    request.faults = refusal.faults
    request.shed = refusal.shed
    request.refused_app_id = refusal.app_id
    headers = [_PROBLEM, *refusal.headers]
    if refusal.status == 401:
        headers.append((b"www-authenticate", _challenge(request, refusal)))
    elif isinstance(refusal, InsufficientScope):
        scope = refusal.members.get("required_scope", "")
        challenge = f'Bearer realm="stoa", error="insufficient_scope", scope="{scope}"'
        headers.append((b"www-authenticate", challenge.encode()))
    body = refusal.body(origin=request.origin, instance=request.path, request_id=request.request_id)
    return Response(refusal.status, headers, body)


def _challenge(request: Request, refusal: Refusal) -> bytes:
    metadata = f'resource_metadata="{request.origin}/.well-known/oauth-protected-resource{request.base}"'
    if isinstance(refusal, MissingToken):
        return f'Bearer realm="stoa", {metadata}'.encode()
    return f'Bearer realm="stoa", error="invalid_token", error_description="{refusal.title}", {metadata}'.encode()
