"""Reads the header fields of a request, and the address of its client."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, ip_address, ip_network

from stoa.rest.problems import HeadersTooLarge, InvalidToken, MalformedRequest, MissingToken, UrlTooLong
from stoa.rest.request import Headers, Scope

JSON, NDJSON, JSONL, CSV = "application/json", "application/x-ndjson", "application/jsonl", "text/csv"
STREAMS = (NDJSON, JSONL, CSV)  # what every list can be beside a page of JSON
MOST_HEADERS, MOST_HEADER_BYTES, MOST_TAG_BYTES = 100, 16 * 1024, 4096
MOST_URL_BYTES = 32 * 1024  # below the 64 KiB from which the server itself answers 414
_WITHOUT_HOST = ("1", "1.0")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SINGLE = (b"authorization", b"idempotency-key", b"content-type", b"content-encoding")
_VERSION = re.compile(rb'(?:"(\d{1,9})(?:\.([0-9a-f]{8}|0))?[^"]*"|(\d{1,9}))\Z')


def check_headers(scope: Scope) -> dict[bytes, bytes]:
    """Index the header fields by name.

    Too many, too large ones, and a missing or repeated Host are refused, as are a long URL and a second field of a name that
    has one value: a proxy may have checked the other one.
    """
    headers: Headers = scope["headers"]
    if len(scope["path"]) + len(scope["query_string"]) > MOST_URL_BYTES:
        raise UrlTooLong(f"The path and the query of a URL may have at most {MOST_URL_BYTES} bytes in total.")
    if len(headers) > MOST_HEADERS:
        raise HeadersTooLarge(f"A request may have at most {MOST_HEADERS} header fields.")
    fields = dict(headers)
    if sum([len(name) + len(value) for name, value in headers]) > MOST_HEADER_BYTES:
        raise HeadersTooLarge(f"The header fields of a request may have at most {MOST_HEADER_BYTES} bytes in total.")
    hosts = [value for name, value in headers if name == b"host"]
    # Granian adds an empty Host if there is none. HTTP/1.0 has no Host header, and simple health checks speak it.
    if len(hosts) > 1 or (not (hosts and hosts[0]) and scope["http_version"] not in _WITHOUT_HOST):
        raise MalformedRequest("Send exactly one Host header.", headers=[(b"connection", b"close")])
    if len(fields) < len(headers):
        names = [name for name, _ in headers]
        for name in _SINGLE:
            if names.count(name) > 1:
                raise MalformedRequest(f"Send at most one {name.decode().title()} header.")
    return fields


def has_body(headers: Mapping[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def trust_proxies(scope: Scope, proxies: int) -> None:
    """Take the client's address and scheme from the outermost trusted proxy. A client can forge entries before it.

    A proxy appends its entry to the field, or adds a field of its own, which means the same.
    """
    headers: Headers = scope["headers"]
    fields = dict(headers)
    sent = b",".join(value for name, value in headers if name == b"x-forwarded-for")
    addresses = sent.decode("latin-1").split(",")
    if len(addresses) >= proxies and (address := addresses[-proxies].strip()):
        scope["client"] = (address, 0)
    scheme = fields.get(b"x-forwarded-proto", b"").decode("latin-1").split(",")[-1].strip().lower()
    if scheme in ("http", "https"):
        scope["scheme"] = scheme


@lru_cache(maxsize=4096)
def address_of(host: str) -> str:
    """The address by which a client is counted; an IPv6 client usually has a whole /64."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(address, IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, 64), strict=False))


def method_label(method: str) -> str:
    """The method for metrics and logs: callers can send any word, so unknown methods count as one."""
    return method if method in _METHODS else "other"


def bearer_token(headers: Mapping[bytes, bytes]) -> str:
    value = headers.get(b"authorization")
    if value is None:
        raise MissingToken("Send Authorization: Bearer <token>.")
    kind, _, token = value.partition(b" ")
    if kind.lower() != b"bearer":
        raise MissingToken("Send Authorization: Bearer <token>.")
    try:
        return token.strip().decode("ascii")
    except UnicodeDecodeError as error:
        raise InvalidToken from error


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
    """The offered media type that the Accept header prefers, or None if it accepts none of them. An empty one accepts any."""
    if not accept or accept in (b"*/*", offered[0]) or not accept.strip(b" \t,"):
        return offered[0]
    best: tuple[float, bytes] | None = None
    for media in offered:
        kind = media.split(b"/")[0]
        quality, strength = 0.0, 0
        for part in accept.lower().split(b","):
            name, *parameters = [piece.strip() for piece in part.split(b";")]
            match = {media: 3, kind + b"/*": 2, b"*/*": 1}.get(name, 0)
            if match > strength:
                strength, quality = match, _quality(parameters)
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


def tags(headers: Mapping[bytes, bytes], name: bytes) -> bytes | None:
    """A header field that lists entity tags. A longer one than the OpenAPI description allows is refused."""
    header = headers.get(name)
    if header is not None and len(header) > MOST_TAG_BYTES:
        raise HeadersTooLarge(f"{name.decode().title()} may have at most {MOST_TAG_BYTES} bytes.")
    return header


def versions_allowed(headers: Mapping[bytes, bytes]) -> frozenset[tuple[int, str | None]] | None:
    """The versions that If-Match allows, with or without quotes. A tag that is no version matches nothing.

    An entity tag may contain a digest of what only the caller's app sees, or a 0 if there was nothing.
    """
    header = tags(headers, b"if-match")
    if header is None or header.strip() == b"*":
        return None
    return frozenset(
        (int(match[1] or match[3]), match[2].decode() if match[2] else None)
        for part in header.split(b",")
        if (match := _VERSION.match(part.strip()))
    )
