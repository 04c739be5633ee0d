"""What a handler answered, as bytes and headers; and what a refusal looks like."""

import zlib
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from stoa.rest.batch import Batch
from stoa.rest.endpoint import Call, Created, Endpoint, NoContent, One, Stream
from stoa.rest.lists import Page, Tombstone
from stoa.rest.problems import InsufficientScope, MissingToken, Refusal
from stoa.rest.requests import Request, tags
from stoa.rest.wire import Headers, Response, accepts_gzip

_JSON = (b"content-type", b"application/json")
_PROBLEM = (b"content-type", b"application/problem+json")


def render(request: Request, endpoint: Endpoint, call: Call, answer: Any, status: int | None = None) -> Response:
    if isinstance(answer, Page):
        return _page(request, call, cast("Page[Any]", answer))
    if isinstance(answer, Batch):
        batch = cast("Batch[Any]", answer)
        return Response(207 if batch.failed else 200, [_JSON], batch.body())
    if isinstance(answer, Stream):
        return Response(200, [(b"content-type", answer.media.encode())], b"", answer.parts)
    if isinstance(answer, NoContent):
        return Response(204, [], b"")
    if not isinstance(answer, One):
        raise TypeError(f"{endpoint.name} answered {type(answer).__name__}")
    tag = _tag(answer.version, request)
    if request.method in ("GET", "HEAD") and _listed(tags(request.headers, b"if-none-match"), tag):
        return Response(304, [(b"etag", tag)], b"")
    doc = answer.doc if call.fields is None else _only_fields(answer.doc, call.fields)
    headers: Headers = [_JSON, (b"etag", tag)]
    if isinstance(answer, Created):
        headers.append((b"location", f"{request.origin}{call.base}{answer.path}".encode()))
    # What would be created, but was only tried, is there to see and nowhere to be found.
    tried = issubclass(endpoint.answer, Created) and not isinstance(answer, Created)
    status = status or (200 if tried else endpoint.status)
    return Response(status, headers, b'{"data":%b,"meta":%b}' % (doc, answer.meta))


def _page(request: Request, call: Call, page: Page[Any]) -> Response:
    headers: Headers = [_JSON]
    if page.next_cursor or page.prev_cursor:
        headers.append((b"link", page.links(request.origin + request.path).encode()))
    docs = page.docs
    if call.fields is not None:
        fields = call.fields
        docs = [_only_fields(doc, fields) for doc in docs]
    return Response(200, headers, b'{"data":[%b],"meta":%b}' % (b",".join(docs), page.meta().encode()))


def _tag(version: int, request: Request) -> bytes:
    """A strong tag differs with the bytes: the version first, then which parts and packing were asked for."""
    chosen = b"-%08x" % zlib.crc32(request.query) if request.query else b""
    return b'"%d%s%s"' % (version, chosen, b"-gz" if accepts_gzip(request.headers) else b"")


def _listed(header: bytes | None, tag: bytes) -> bool:
    if header is None:
        return False
    return header.strip() == b"*" or any(part.strip().removeprefix(b"W/") == tag for part in header.split(b","))


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


_TOMBSTONE = frozenset(Tombstone.__struct_fields__)


def _only_fields(doc: bytes, fields: frozenset[str]) -> bytes:
    members = _members.decode(doc)
    if members.keys() == _TOMBSTONE:
        return doc  # narrowed, it would look like a resource that lives
    return msgspec.json.encode({name: raw for name, raw in members.items() if name in fields})


def deprecation_headers(endpoint: Endpoint) -> Headers:
    going = endpoint.deprecation
    if going is None:
        return []
    since = int(datetime(going.since.year, going.since.month, going.since.day, tzinfo=UTC).timestamp())
    sunset = going.sunset.strftime("%a, %d %b %Y 00:00:00 GMT")
    return [
        (b"deprecation", b"@%d" % since),
        (b"sunset", sunset.encode()),
        (b"link", f'<{going.guide}>; rel="deprecation"; type="text/html"'.encode()),
    ]


def refused(request: Request, refusal: Refusal) -> Response:
    request.code = refusal.code
    request.fault = refusal.faults[0] if refusal.faults else None
    headers = [_PROBLEM, *refusal.headers]
    if refusal.status == 401:
        headers.append((b"www-authenticate", _challenge(request, refusal)))
    elif isinstance(refusal, InsufficientScope):
        scope = refusal.members.get("required_scope", "")
        headers.append(
            (
                b"www-authenticate",
                f'Bearer realm="stoa", error="insufficient_scope", scope="{scope}"'.encode(),
            )
        )
    body = refusal.body(origin=request.origin, instance=request.path, request_id=request.request_id)
    return Response(refusal.status, headers, body)


def _challenge(request: Request, refusal: Refusal) -> bytes:
    metadata = f'resource_metadata="{request.origin}/.well-known/oauth-protected-resource{request.base}"'
    if isinstance(refusal, MissingToken):
        return f'Bearer realm="stoa", {metadata}'.encode()
    return f'Bearer realm="stoa", error="invalid_token", error_description="{refusal.title}", {metadata}'.encode()
