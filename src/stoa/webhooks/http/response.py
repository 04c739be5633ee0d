"""Reads an HTTP/1 response incrementally: its status, its headers, the start of its body, and where it ends."""

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_BODY_BYTES = 4096
_MAX_OTHER_BYTES = 32_768  # headers, trailers and chunk sizes: everything but the body
_FINAL, _LAST, _BODILESS = 200, 599, (204, 304)


class InvalidResponse(ValueError):
    """The received bytes are not a valid HTTP/1 response."""


class ResponseReader:
    """One response as far as it was received; `reusable` is true if its connection can carry another request."""

    __slots__ = ("_body_size", "_done", "_fed", "_parser", "_until_closed", "body", "fields", "reusable", "status")

    def __init__(self) -> None:
        self.status = 0
        self.fields: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.reusable = False
        self._parser = HttpResponseParser(self)
        self._fed = 0
        self._body_size = 0
        self._done = False
        self._until_closed = False

    def feed(self, data: bytes) -> bool:
        """Parse received bytes; returns whether the response is complete, or its body long enough."""
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self._done:  # otherwise only the bytes after the response are wrong
                raise InvalidResponse from error
            self.reusable = False
        if self.status > _LAST or self._fed - self._body_size > _MAX_OTHER_BYTES:
            raise InvalidResponse
        if self._done:
            return True
        if len(self.body) == MAX_BODY_BYTES:
            self.reusable = False
            return True
        return False

    def end(self) -> bool:
        """The receiver closed the connection; returns whether that completes the response."""
        self.reusable = False
        return self._until_closed

    def all(self, name: bytes) -> list[bytes]:
        """The values of a header, named in lower case."""
        return [value for each, value in self.fields if each == name]

    # --- callbacks of the parser --------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._done:
            self.reusable = False  # an unrequested second response

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._done and not self.status:
            self.fields.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._done:
            return
        if status < _FINAL:  # an interim response
            self.fields.clear()
            return
        self.status = status
        codings, lengths = self.all(b"transfer-encoding"), self.all(b"content-length")
        self._until_closed = status not in _BODILESS and not lengths and b"chunked" not in b",".join(codings).lower()
        self.reusable = self._parser.should_keep_alive() and not (codings and lengths)

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        self.body += body[: MAX_BODY_BYTES - len(self.body)]

    def on_message_complete(self) -> None:
        self._done = self._done or bool(self.status)
