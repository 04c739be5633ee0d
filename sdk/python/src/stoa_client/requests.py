"""Requests: URL, query string, headers and body."""

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, cast
from urllib.parse import quote

import msgspec

from stoa_client.answers import Model, etag_of
from stoa_client.encoding import encode
from stoa_client.time_limits import SLOWEST_UPLOAD
from stoa_client.uploads import Source

PREFIX = "/api/v3/app"
_ADDRESS = re.compile(r"https?://[^/\s]", re.IGNORECASE)
JSON = "application/json"
_COMPARISON = re.compile(r"_(gte|gt|lte|lt)\Z")
_KEY = re.compile(r"[\x21-\x7e]{1,255}\Z")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request, which is the same on every retry."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | Source | None = None
    auth: tuple[str, str] | None = None
    wait_s: float = 0.0  # how long the service was asked to wait
    stream: bool = False  # whether the response body is read in parts

    @property
    def allowance_s(self) -> float:
        """What the call may take in addition to its time limits: the wait that it asks for, and the time of its upload."""
        size = self.content.size if isinstance(self.content, Source) else len(self.content or b"")
        return self.wait_s + size / SLOWEST_UPLOAD


def request(
    method: str,
    url: str,
    *,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    upload: Source | None = None,
    accept: str = JSON,
    idempotency_key: str | None = None,
    if_match: Any = None,
    if_none_match: Any = None,
    wait_s: float = 0.0,
    stream: bool = False,
    checkpoints: bool = False,
    auth: tuple[str, str] | None = None,
) -> Request:
    """A request to the app API; every write gets an idempotency key, so that retries are safe."""
    headers = {"accept": accept}
    if method != "GET":
        headers["idempotency-key"] = secrets.token_urlsafe(24) if idempotency_key is None else _checked(idempotency_key)
    if if_match is not None:
        headers["if-match"] = entity_tag(if_match)
    if if_none_match is not None:
        headers["if-none-match"] = entity_tag(if_none_match)
    if wait_s:
        headers["prefer"] = f"wait={wait_s:.0f}"
    if checkpoints:
        headers["prefer"] = "checkpoints"
    content: bytes | Source | None = upload
    if body is not None:
        content = encode(body)
    if upload is not None:
        headers |= {"content-type": upload.media_type, "content-length": str(upload.size)}
        if upload.gzipped:
            headers["content-encoding"] = "gzip"
    elif content is not None:
        headers["content-type"] = JSON
    return Request(
        method=method,
        url=url + _query_string(query or {}),
        headers=headers,
        content=content,
        auth=auth,
        wait_s=wait_s + float((query or {}).get("wait") or 0),
        stream=stream,
    )


def _checked(key: str) -> str:
    """The idempotency key, if a header can carry it and the service accepts it."""
    if not _KEY.match(key):
        raise ValueError("an idempotency key must consist of 1 to 255 visible ASCII characters, without spaces")
    return key


def entity_tag(given: Any) -> str:
    """The ETag of a version number, an ETag, or a resource.

    A resource that came in a response of its own has its ETag, which also covers metadata that only this app sees.
    """
    if isinstance(given, Model) and (etag := etag_of(given)):
        return etag
    version = getattr(given, "version", given)
    if isinstance(version, int):
        return f'"{version}"'
    if isinstance(version, str):
        return version
    raise TypeError("pass a version, an ETag or a resource that has a version")


def address(name: str, given: str) -> str:
    """The URL of a store or of a token endpoint, without slashes at its end."""
    trimmed = given.strip().rstrip("/")
    if not _ADDRESS.match(trimmed):
        raise ValueError(
            f"{name} must start with https:// or http://, such as https://shop.example.com, but is {given!r}"
        )
    return trimmed


def path_of(given: str) -> str:
    """A path under the prefix of the API, also if it was given without its first slash."""
    return given if given.startswith("/") else f"/{given}"


def segment(value: int | str) -> str:
    """An id as one segment of a path. It may come from outside, and must not lead to another resource, such as `../orders/7`."""
    text = str(value)
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is not an id")
    return quote(text, safe="")


def _query_string(query: Mapping[str, Any]) -> str:
    pairs = [pair for name, value in query.items() for pair in _pairs(_COMPARISON.sub(r"[\1]", name), value)]
    return "?" + "&".join(f"{quote(name, safe='[]')}={quote(text, safe=',:')}" for name, text in pairs) if pairs else ""


def _pairs(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The parameters of a value; a mapping becomes `name[key]=value`, also inside another one."""
    if isinstance(value, Mapping):
        for key, each in cast("Mapping[str, Any]", value).items():
            yield from _pairs(f"{name}[{key}]", each)
    elif value is not None:
        yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time needs a time zone, such as datetime.now(UTC)")
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, str | int | float | date):
        return str(value)
    if isinstance(value, Sequence | set | frozenset):
        return ",".join(_text(each) for each in cast("Sequence[Any]", value))
    raise TypeError(f"{type(value).__name__} is not allowed in a query")
