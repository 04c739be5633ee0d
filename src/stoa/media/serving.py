"""Serves pictures at /media: immutable files with entity tags and ranges, the small ones from memory."""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs

from stoa.media.addresses import name_in_path
from stoa.media.contract import MEDIA_TYPES, WIDTHS
from stoa.media.storage import Storage, key_of
from stoa.rest.problems import MalformedRequest, MethodNotAllowed, NotFound, ServiceUnavailable
from stoa.rest.request import Headers
from stoa.rest.response import Response

CACHED_BYTES = 32 * 1024 * 1024  # in each worker
CACHED_S = 3600.0  # so that a removed picture, or one of an erased store, disappears
_SMALL = 64 * 1024
_RANGE = re.compile(rb"bytes=(\d{0,15})-(\d{0,15})\Z")
_WIDTH = {f"w={width}".encode(): width for width in WIDTHS}
_SAFE: Headers = [
    (b"cache-control", b"public, max-age=31536000, immutable"),
    (b"accept-ranges", b"bytes"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"access-control-allow-origin", b"*"),
    (b"x-content-type-options", b"nosniff"),
]


class PictureFiles:
    """Answers requests for pictures. What it answers depends on the storage alone, so it needs no database."""

    def __init__(self, storage: Storage, clock: Callable[[], float] = time.monotonic) -> None:
        self._storage = storage
        self._clock = clock
        self._cached: OrderedDict[str, tuple[bytes, float]] = OrderedDict()  # with the time until which each is served
        self._bytes = 0

    async def close(self) -> None:
        await self._storage.close()

    async def respond(self, method: str, path: str, query: bytes, headers: Mapping[bytes, bytes]) -> Response:
        if method not in ("GET", "HEAD"):
            raise MethodNotAllowed(headers=[(b"allow", b"GET, HEAD")])
        name = name_in_path(path)
        if name is None:
            raise NotFound("There is no picture at this address.")
        width = _width(query)
        tag = b'"%b"' % key_of(name, width).partition("/")[2].encode()
        known = headers.get(b"if-none-match", b"")
        if tag in known or known == b"*":
            return Response(304, [*_SAFE, (b"etag", tag)], b"")
        try:
            data = await self._file(name, width)
        except OSError as error:
            raise ServiceUnavailable(
                "The storage of pictures is unavailable. Retry later.", headers=[(b"retry-after", b"5")]
            ) from error
        if data is None:
            raise NotFound("There is no picture at this address.")
        fields = [*_SAFE, (b"etag", tag), (b"content-type", MEDIA_TYPES[name.rpartition(".")[2]].encode())]
        matches = headers.get(b"if-range", tag) == tag
        return _part(data, fields, headers.get(b"range", b"") if matches else b"")

    async def _file(self, name: str, width: int | None) -> bytes | None:
        """A file; a picture that is not wider than the width has no smaller one."""
        data = await self._read(key_of(name, width))
        return await self._read(name) if data is None and width is not None else data

    async def _read(self, key: str) -> bytes | None:
        if key in self._cached:
            data, until = self._cached[key]
            if self._clock() < until:
                self._cached.move_to_end(key)
                return data
            del self._cached[key]
            self._bytes -= len(data)
        data = await self._storage.get(key)
        if data is not None and len(data) <= _SMALL and key not in self._cached:
            self._cached[key] = data, self._clock() + CACHED_S
            self._bytes += len(data)
            while self._bytes > CACHED_BYTES:
                self._bytes -= len(self._cached.popitem(last=False)[1][0])
        return data


def _width(query: bytes) -> int | None:
    if not query:
        return None
    if query in _WIDTH:
        return _WIDTH[query]
    wanted = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=10).get("w", [""])[-1]
    width = _WIDTH.get(f"w={wanted}".encode())
    if wanted and width is None:
        raise MalformedRequest(f"w must be one of {', '.join(map(str, WIDTHS))}.")
    return width


def _part(data: bytes, fields: Headers, wanted: bytes) -> Response:
    """The whole file, or the part that a Range header with one range names."""
    found = _RANGE.match(wanted)
    if found is None or found[0] == b"bytes=-":
        return Response(200, fields, data)
    size = len(data)
    if found[1]:
        begin, end = int(found[1]), min(int(found[2]) if found[2] else size - 1, size - 1)
    else:
        begin, end = max(0, size - int(found[2])), size - 1
    if begin > end:
        return Response(416, [*fields, (b"content-range", b"bytes */%d" % size)], b"")
    return Response(206, [*fields, (b"content-range", b"bytes %d-%d/%d" % (begin, end, size))], data[begin : end + 1])
