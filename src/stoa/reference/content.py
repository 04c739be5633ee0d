"""Documents of a release, ready to send: compressed, and with a digest for callers that have them."""

import gzip
import hashlib
from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from stoa.rest.headers import accepts_gzip


class Content(msgspec.Struct, frozen=True):
    """A document of this release, which changes only with a release."""

    body: bytes
    gzipped: bytes
    digest: str
    media: str

    @classmethod
    def of(cls, body: bytes, media: str) -> "Content":
        return cls(body, gzip.compress(body, compresslevel=6, mtime=0), hashlib.sha256(body).hexdigest()[:16], media)

    @classmethod
    def page(cls, text: str) -> "Content":
        return cls.of(text.encode(), "text/html; charset=utf-8")

    def response(self, request: Request, headers: Mapping[str, str], status: int = 200) -> Response:
        """The content in the encoding that the caller accepts, or 304 if the caller has it."""
        zipped = accepts_gzip(dict(request.headers.raw))
        vary = f"Accept-Encoding, {headers['Vary']}" if "Vary" in headers else "Accept-Encoding"
        sent = {**headers, "ETag": f'"{self.digest}-gzip"' if zipped else f'"{self.digest}"', "Vary": vary}
        if status == 200 and self.digest in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=sent)
        if zipped:
            return Response(self.gzipped, status, {**sent, "Content-Encoding": "gzip"}, self.media)
        return Response(self.body, status, sent, self.media)
