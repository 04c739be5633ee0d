"""Forms with a file (multipart/form-data): read as they arrive, so that a refused form costs no more than its beginning.

Starlette's parser cannot replace this: it has no step between the fields and the file, where the token is checked, it limits
the size of each field but not of all, and it writes the file outside the space for uploads.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from starlette.requests import Request

from stoa.portal.kit.forms import MAX_BYTES, MAX_FIELDS, MalformedForm
from stoa.rest.body import check_length, next_part
from stoa.rest.problems import RateLimited, Refusal, ServiceUnavailable
from stoa.rest.uploads import UPLOAD_BYTES, UPLOAD_IDLE_SECONDS, UPLOAD_SECONDS, UploadFile

_BOUNDARY = re.compile(r'boundary="?([0-9A-Za-z\'()+_,./:=? -]{1,70})"?\Z')
_NAME, _FILENAME = (
    re.compile(rb';\s*name="([^"\r\n]*)"', re.IGNORECASE),
    re.compile(rb';\s*filename="([^"\r\n]*)"', re.IGNORECASE),
)
_HEADER_BYTES = 8 * 1024
_MOST_BYTES = UPLOAD_BYTES + MAX_BYTES

Fields = dict[str, list[str]]


class UploadedFile(msgspec.Struct):
    """The file of a form; it exists until the request ends."""

    name: str
    file: UploadFile

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def empty(self) -> bool:
        return self.file.size == 0


def is_multipart(request: Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


async def read_multipart(
    request: Request, check: Callable[[Fields], None], new_file: Callable[[], UploadFile]
) -> tuple[Fields, UploadedFile | None]:
    """Read the fields of a form, and its file if it has one.

    `check` gets the fields before the file, whose content is not received if it raises. Without a file, it gets all fields.
    """
    boundary = _BOUNDARY.search(request.headers["content-type"].partition(";")[2].strip())
    if boundary is None:
        raise MalformedForm
    form = _Form(b"--" + boundary[1].encode(), check, new_file)
    try:
        await _receive(request, form)
        if form.upload is None:
            check(form.fields)
        else:
            form.upload.file.flush()
    except BaseException as error:
        if form.upload is not None:
            form.upload.file.close()
        if isinstance(error, Refusal) and not isinstance(error, RateLimited | ServiceUnavailable):
            raise MalformedForm from error
        raise
    return form.fields, form.upload


async def _receive(request: Request, form: "_Form") -> None:
    check_length(dict(request.headers.raw), _MOST_BYTES)
    size, more, deadline = 0, True, time.monotonic() + UPLOAD_SECONDS
    while more:
        message = await next_part(request.receive, min(UPLOAD_IDLE_SECONDS, deadline - time.monotonic()))
        part: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(part)
        if size > _MOST_BYTES:
            raise MalformedForm
        form.feed(part)
    if not form.ended:
        raise MalformedForm


class _Form:
    """The parts of a body (RFC 7578), each between two delimiters, read from bytes that arrive in any pieces."""

    def __init__(self, delimiter: bytes, check: Callable[[Fields], None], new_file: Callable[[], UploadFile]) -> None:
        self.fields: Fields = {}
        self.upload: UploadedFile | None = None
        self.ended = False
        self._delimiter = b"\r\n" + delimiter
        self._check = check
        self._new_file = new_file
        self._rest = b"\r\n"  # not read yet; the first delimiter has no line break before it
        self._read: Callable[[], bool] = self._first_delimiter
        self._name = ""
        self._value = bytearray()
        self._parts = self._bytes = 0

    def feed(self, data: bytes) -> None:
        if self.ended:
            return
        self._rest += data
        while self._read() and not self.ended:
            pass

    def _first_delimiter(self) -> bool:
        if not self._rest.startswith(self._delimiter[: len(self._rest)]):
            raise MalformedForm
        return self._passed(len(self._delimiter), self._after_delimiter)

    def _after_delimiter(self) -> bool:
        mark = self._rest[:2]
        self.ended = mark == b"--"
        if not self.ended and len(mark) == 2 and mark != b"\r\n":
            raise MalformedForm
        return self._passed(2, self._header)

    def _header(self) -> bool:
        end = self._rest.find(b"\r\n\r\n", 0, _HEADER_BYTES)
        if end < 0:
            if len(self._rest) >= _HEADER_BYTES:
                raise MalformedForm
            return False
        header = self._rest[:end]
        name, filename = _NAME.search(header), _FILENAME.search(header)
        self._parts += 1
        if name is None or self._parts > MAX_FIELDS:
            raise MalformedForm
        if filename is None:
            self._name = name[1].decode("utf-8", "replace")
            return self._passed(end + 4, self._field)
        if self.upload is not None:
            raise MalformedForm
        self._check(self.fields)
        self.upload = UploadedFile(filename[1].decode("utf-8", "replace"), self._new_file())
        return self._passed(end + 4, self._file)

    def _field(self) -> bool:
        content, ends = self._content()
        self._value += content
        self._bytes += len(content)
        if self._bytes > MAX_BYTES:
            raise MalformedForm
        if ends:
            try:
                value = self._value.decode()
            except UnicodeDecodeError as error:
                raise MalformedForm from error
            self.fields.setdefault(self._name, []).append(value.replace("\r\n", "\n"))
            self._value.clear()
        return ends

    def _file(self) -> bool:
        content, ends = self._content()
        if self.upload is not None and content:
            self.upload.file.write(content)
        return ends

    def _content(self) -> tuple[bytes, bool]:
        """The content of the part as far as it has arrived, and whether it ends there."""
        end = self._rest.find(self._delimiter)
        if end >= 0:
            content = self._rest[:end]
            self._passed(end + len(self._delimiter), self._after_delimiter)
            return content, True
        certain = max(0, len(self._rest) - len(self._delimiter) + 1)  # what follows may begin a delimiter
        content, self._rest = self._rest[:certain], self._rest[certain:]
        return content, False

    def _passed(self, size: int, read: Callable[[], bool]) -> bool:
        """Go on with `read` after `size` bytes, if they have arrived."""
        if len(self._rest) < size:
            return False
        self._rest, self._read = self._rest[size:], read
        return True
