"""An HTTP/1 answer read as its bytes come in: status, headers and the beginning of the body, and where it ends."""

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MOST_BODY_BYTES = 4096
_MOST_OTHER_BYTES = 32_768  # of heads, trailers and the sizes of chunks: all that is not body
_FINAL, _LAST, _BODILESS = 200, 599, (204, 304)


class InvalidAnswer(ValueError):
    """What came is no answer that HTTP/1 knows."""


class Reading:
    """One answer as far as it came in; `reusable` says whether its connection stands where the next answer begins."""

    __slots__ = ("_done", "_fed", "_parser", "_taken", "_until_closed", "body", "fields", "reusable", "status")

    def __init__(self) -> None:
        self.status = 0
        self.fields: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.reusable = False
        self._parser = HttpResponseParser(self)
        self._fed = 0
        self._taken = 0  # of the body
        self._done = False
        self._until_closed = False

    def feed(self, data: bytes) -> bool:
        """Take what came; says whether the answer is whole, or long enough."""
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self._done:  # else it is only what follows that is wrong
                raise InvalidAnswer from error
            self.reusable = False
        if self.status > _LAST or self._fed - self._taken > _MOST_OTHER_BYTES:
            raise InvalidAnswer
        if self._done:
            return True
        if len(self.body) == MOST_BODY_BYTES:
            self.reusable = False
            return True
        return False

    def end(self) -> bool:
        """The other side closed: whether that ends the answer as it should."""
        self.reusable = False
        return self._until_closed

    def all(self, name: bytes) -> list[bytes]:
        """The values of a header, named in lower case."""
        return [value for each, value in self.fields if each == name]

    # --- what the parser tells ----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._done:
            self.reusable = False  # nobody asked for more

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._done and not self.status:
            self.fields.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._done:
            return
        if status < _FINAL:  # only a word in between
            self.fields.clear()
            return
        self.status = status
        codings, lengths = self.all(b"transfer-encoding"), self.all(b"content-length")
        self._until_closed = status not in _BODILESS and not lengths and b"chunked" not in b",".join(codings).lower()
        self.reusable = self._parser.should_keep_alive() and not (codings and lengths)

    def on_body(self, body: bytes) -> None:
        self._taken += len(body)
        self.body += body[: MOST_BODY_BYTES - len(self.body)]

    def on_message_complete(self) -> None:
        self._done = self._done or bool(self.status)
