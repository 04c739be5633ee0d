"""Uploads: sources of bytes that can be read again, so that an interrupted upload can be retried."""

import io
import os
import tempfile
import threading
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol, Self, TypeAlias, runtime_checkable

import msgspec

from stoa_client.encoding import encode

NDJSON, CSV, JSON = "application/x-ndjson", "text/csv", "application/json"
_MEDIA = {".ndjson": NDJSON, ".jsonl": NDJSON, ".csv": CSV, ".json": JSON}
_PART = 64 * 1024
_IN_MEMORY = 1024 * 1024
_GZIP = b"\x1f\x8b"


@runtime_checkable
class BinaryFile(Protocol):
    """A file opened for reading bytes."""

    def read(self, size: int = ..., /) -> bytes: ...


Row: TypeAlias = Mapping[str, Any] | msgspec.Struct
Upload: TypeAlias = str | os.PathLike[str] | bytes | BinaryFile | Iterable[bytes] | Iterable[Row]
"""A path, bytes, a file opened in binary mode, an iterable of bytes, or an iterable of rows, sent as NDJSON."""
AsyncUpload: TypeAlias = Upload | AsyncIterable[bytes] | AsyncIterable[Row]


class Source:
    """Bytes that can be read repeatedly from the start; closes the file if it opened it."""

    def __init__(self, file: IO[bytes], media_type: str | None, *, owned: bool = True) -> None:
        self._file = file
        self._owned = owned
        self._lock = threading.Lock()
        self._start = file.tell()
        if media_type is None:
            self.__exit__()
            raise ValueError("pass media_type, one of " + ", ".join(sorted({*_MEDIA.values()})))
        self.media_type = media_type
        self.gzipped = file.read(2) == _GZIP
        self.size = file.seek(0, os.SEEK_END) - self._start

    def parts(self) -> Iterator[bytes]:
        """The bytes from the start. A late attempt may still read its parts while the next attempt reads them again."""
        at = self._start
        while part := self._read(at):
            yield part
            at += len(part)

    def _read(self, at: int) -> bytes:
        with self._lock:
            self._file.seek(at)
            return self._file.read(_PART)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._owned:
            self._file.close()


def source(given: Upload, media_type: str | None = None) -> Source:
    """A repeatable source for any upload; large data is spooled to disk, so memory use is constant."""
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        return Source(path.open("rb"), media_type or _media_of(path.name))
    if isinstance(given, bytes):
        return Source(io.BytesIO(given), media_type)
    if isinstance(given, BinaryFile):
        kind = media_type or _media_of(str(getattr(given, "name", "")))
        if isinstance(given, io.IOBase) and given.seekable():
            return Source(given, kind, owned=False)  # pyright: ignore[reportArgumentType] - it reads bytes and seeks
        with _Spool() as spool:
            for part in iter(lambda: given.read(_PART), b""):
                spool.add(part)
            return spool.source(kind)
    with _Spool() as spool:
        for each in given:
            spool.add(each)
        return spool.source(media_type)


async def async_source(given: AsyncUpload, media_type: str | None = None) -> Source:
    """A repeatable source for any upload, including asynchronous iterables."""
    if not isinstance(given, AsyncIterable):
        return source(given, media_type)
    with _Spool() as spool:
        async for each in given:
            spool.add(each)
        return spool.source(media_type)


class _Spool:
    """Stores data that can be read only once; on disk if it is large. An error while it is filled closes its file."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile[bytes](_IN_MEMORY)
        self._rows = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._file.close()

    def add(self, each: Any) -> None:
        if isinstance(each, bytes):
            self._file.write(each)
        else:
            self._rows = True
            self._file.write(encode(each) + b"\n")

    def source(self, media_type: str | None) -> Source:
        self._file.seek(0)
        return Source(self._file, media_type or (NDJSON if self._rows else None))


def _media_of(name: str) -> str | None:
    plain = name.lower().removesuffix(".gz")
    return next((media for ending, media in _MEDIA.items() if plain.endswith(ending)), None)
