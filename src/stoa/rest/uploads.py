"""Large bodies, such as import files, received and decompressed into temporary files of limited total size."""

import errno
import hashlib
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Self

from stoa.rest.body import check_length, is_gzipped, next_part
from stoa.rest.endpoint import Upload
from stoa.rest.problems import PayloadTooLarge, RateLimited, ServiceUnavailable, UnsupportedMediaType
from stoa.rest.request import Receive

UPLOAD_BYTES = 100 * 1000 * 1000
UPLOAD_SECONDS = 600.0
UPLOAD_IDLE_SECONDS = 30.0
UPLOAD_RATIO = 200  # catalogs are repetitive, and the size itself is limited
RETRY_S = 5
_RETRY_AFTER = [(b"retry-after", b"%d" % RETRY_S)]
_FULL = (errno.ENOSPC, errno.EDQUOT)


class UploadSpace:
    """The bytes that the uploads of a worker occupy in temporary files, in total and for each owner: an app or an account."""

    def __init__(self, limit: int, limit_of_owner: int) -> None:
        self.held = 0
        self._limit = limit
        self._limit_of_owner = limit_of_owner
        self._held_by: Counter[str] = Counter()

    def take(self, owner: str, size: int) -> None:
        """Count bytes before they are written, or refuse them."""
        if self._held_by[owner] + size > self._limit_of_owner:
            raise RateLimited(
                f"Concurrent uploads may have at most {self._limit_of_owner:,} bytes in total after decompression. "
                "Retry when one of them is finished.",
                headers=_RETRY_AFTER,
            )
        if self.held + size > self._limit:
            refusal = ServiceUnavailable("Too many uploads are in progress. Retry later.", headers=_RETRY_AFTER)
            refusal.shed = "uploads"
            raise refusal
        self.held += size
        self._held_by[owner] += size

    @contextmanager
    def reserving(self, owner: str) -> Generator[Callable[[int], None]]:
        """Yield a function that counts bytes until the block ends."""
        held = 0

        def reserve(size: int) -> None:
            nonlocal held
            self.take(owner, size)
            held += size

        try:
            yield reserve
        finally:
            self.give_back(owner, held)

    def give_back(self, owner: str, size: int) -> None:
        self.held -= size
        self._held_by[owner] -= size
        if not self._held_by[owner]:
            del self._held_by[owner]


class UploadFile:
    """A temporary file without a name: the system removes it when it is closed, also when the process is killed."""

    def __init__(self, space: UploadSpace, owner: str) -> None:
        self.size = 0
        self._space = space
        self._owner = owner
        with _room_on_disk():
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`

    @property
    def path(self) -> Path:
        """Opens the file in this process until it is closed."""
        return Path(f"/proc/self/fd/{self._file.fileno()}")

    def write(self, data: bytes) -> None:
        self._space.take(self._owner, len(data))
        self.size += len(data)
        with _room_on_disk():
            self._file.write(data)

    def flush(self) -> None:
        with _room_on_disk():
            self._file.flush()

    def close(self) -> None:
        """Remove the file and free its space. May be called more than once."""
        self._space.give_back(self._owner, self.size)
        self.size = 0
        with suppress(OSError):  # of a full disk, which `write` or `flush` has reported
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_full_disk(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in _FULL


@contextmanager
def _room_on_disk() -> Generator[None]:
    try:
        yield
    except OSError as error:
        if is_full_disk(error):
            raise ServiceUnavailable(
                "The service has no room for uploads. Retry later.", headers=_RETRY_AFTER
            ) from error
        raise


def upload_type(headers: Mapping[bytes, bytes], allowed: tuple[str, ...]) -> str:
    media = headers.get(b"content-type", b"").lower().partition(b";")[0].strip().decode("latin-1")
    if media not in allowed:
        listed = ", ".join(allowed)
        raise UnsupportedMediaType(f"Send one of {listed}.", headers=[(b"accept-post", listed.encode())])
    return media


@asynccontextmanager
async def receive_upload(
    receive: Receive, headers: dict[bytes, bytes], media: str, space: UploadSpace, owner: str
) -> AsyncGenerator[Upload]:
    """Stream a body to a file, decompressing it on the way. Memory use does not depend on its size."""
    check_length(headers, UPLOAD_BYTES)
    decompressor = zlib.decompressobj(wbits=31) if is_gzipped(headers) else None
    digest = hashlib.sha256()
    received = size = 0
    deadline = time.monotonic() + UPLOAD_SECONDS
    with UploadFile(space, owner) as file:
        more = True
        while more:
            message = await next_part(receive, min(UPLOAD_IDLE_SECONDS, deadline - time.monotonic()))
            part: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            received += len(part)
            digest.update(part)
            while part:
                raw = _decompress(decompressor, part) if decompressor else part
                part = decompressor.unconsumed_tail if decompressor else b""
                size += len(raw)
                most = min(UPLOAD_BYTES, received * UPLOAD_RATIO + 100_000) if decompressor else UPLOAD_BYTES
                if size > most or received > UPLOAD_BYTES:  # compressed, any number of bytes can contain nothing
                    raise PayloadTooLarge(
                        f"The body may have at most {UPLOAD_BYTES:,} bytes, before and after decompression.",
                        max_bytes=UPLOAD_BYTES,
                    )
                file.write(raw)
                if decompressor and decompressor.unused_data:  # zlib would collect all that follows
                    raise UnsupportedMediaType("The gzip body is followed by other data.")
        if decompressor and not decompressor.eof:
            raise UnsupportedMediaType("The gzip body is truncated.")
        file.flush()
        yield Upload(file.path, media, size, digest.digest())


def _decompress(decompressor: "zlib._Decompress", part: bytes) -> bytes:  # pyright: ignore[reportPrivateUsage]
    try:
        return decompressor.decompress(part, 1 << 20)
    except zlib.error as error:
        raise UnsupportedMediaType("Content-Encoding is gzip, but the body is not valid gzip.") from error
