"""Forms with a file (multipart/form-data): the body is received into a file, so memory use does not depend on its size."""

import asyncio
import mmap
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec
from starlette.requests import Request

from stoa.portal.forms import MAX_BYTES, MAX_FIELDS, MalformedForm
from stoa.rest.body import check_length, next_part
from stoa.rest.problems import Refusal
from stoa.rest.uploads import UPLOAD_BYTES, UPLOAD_IDLE_SECONDS, UPLOAD_SECONDS

_BOUNDARY = re.compile(r'boundary="?([0-9A-Za-z\'()+_,./:=? -]{1,70})"?\Z')
_NAME, _FILENAME = (
    re.compile(rb';\s*name="([^"\r\n]*)"', re.IGNORECASE),
    re.compile(rb';\s*filename="([^"\r\n]*)"', re.IGNORECASE),
)
_HEADER_BYTES, _CHUNK = 8 * 1024, 1 << 20


class UploadedFile(msgspec.Struct):
    """A file of a form; it exists until the request ends."""

    name: str
    file: IO[bytes]

    @property
    def path(self) -> Path:
        return Path(self.file.name)

    @property
    def empty(self) -> bool:
        return self.path.stat().st_size == 0


class _Part(msgspec.Struct):
    name: str
    filename: str | None
    start: int
    end: int


def is_multipart(request: Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


async def read_multipart(request: Request) -> tuple[dict[str, list[str]], UploadedFile | None]:
    """Read the fields of a form, and its file if it has one."""
    boundary = _BOUNDARY.search(request.headers["content-type"].partition(";")[2].strip())
    if boundary is None:
        raise MalformedForm
    with tempfile.NamedTemporaryFile(prefix="stoa-form-") as body:
        try:
            await _receive(request, body)
        except Refusal as error:
            raise MalformedForm from error
        return await asyncio.to_thread(_read, body, b"--" + boundary[1].encode())


async def _receive(request: Request, body: IO[bytes]) -> None:
    most = UPLOAD_BYTES + MAX_BYTES
    check_length(dict(request.headers.raw), most)
    size, more, deadline = 0, True, time.monotonic() + UPLOAD_SECONDS
    while more:
        message = await next_part(request.receive, min(UPLOAD_IDLE_SECONDS, deadline - time.monotonic()))
        part: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(part)
        if size > most:
            raise MalformedForm
        body.write(part)
    body.flush()


def _read(body: IO[bytes], delimiter: bytes) -> tuple[dict[str, list[str]], UploadedFile | None]:
    fields: dict[str, list[str]] = {}
    upload: UploadedFile | None = None
    if not body.tell():
        raise MalformedForm
    size = count = 0
    with mmap.mmap(body.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for part in _parts(content, delimiter):
            count += 1
            if part.filename is not None:
                upload = _copied(content, part)
                continue
            size += part.end - part.start
            if size > MAX_BYTES or count > MAX_FIELDS:
                raise MalformedForm
            try:
                value = content[part.start : part.end].decode()
            except UnicodeDecodeError as error:
                raise MalformedForm from error
            fields.setdefault(part.name, []).append(value.replace("\r\n", "\n"))
    return fields, upload


def _parts(content: mmap.mmap, delimiter: bytes) -> Iterator[_Part]:
    """The parts of a body (RFC 7578), each between two delimiters."""
    if content[: len(delimiter)] != delimiter:
        raise MalformedForm
    at = len(delimiter)
    while content[at : at + 2] == b"\r\n":
        start = content.find(b"\r\n\r\n", at, at + _HEADER_BYTES)
        end = content.find(b"\r\n" + delimiter, start + 2) if start >= 0 else -1
        header = content[at:start]
        name = _NAME.search(header)
        if end < 0 or name is None:
            raise MalformedForm
        filename = _FILENAME.search(header)
        shown = None if filename is None else filename[1].decode("utf-8", "replace")
        yield _Part(name[1].decode("utf-8", "replace"), shown, min(start + 4, end), end)
        at = end + 2 + len(delimiter)
    if content[at : at + 2] != b"--":
        raise MalformedForm


def _copied(content: mmap.mmap, part: _Part) -> UploadedFile:
    file = tempfile.NamedTemporaryFile(prefix="stoa-upload-")  # noqa: SIM115 - closed when the request ends
    for start in range(part.start, part.end, _CHUNK):
        file.write(content[start : min(start + _CHUNK, part.end)])
    file.flush()
    return UploadedFile(part.filename or "", file)
