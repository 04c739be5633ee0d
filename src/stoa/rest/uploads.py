"""Large bodies, such as import files, received and decompressed into a temporary file."""

import hashlib
import tempfile
import time
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from stoa.rest.body import check_length, is_gzipped, next_part
from stoa.rest.problems import PayloadTooLarge, UnsupportedMediaType
from stoa.rest.request import Receive, Upload

UPLOAD_BYTES = 100 * 1000 * 1000
UPLOAD_SECONDS = 600.0
UPLOAD_IDLE_SECONDS = 30.0
UPLOAD_RATIO = 200  # catalogs are repetitive, and the size itself is limited


def upload_type(headers: Mapping[bytes, bytes], allowed: tuple[str, ...]) -> str:
    media = headers.get(b"content-type", b"").lower().partition(b";")[0].strip().decode("latin-1")
    if media not in allowed:
        listed = ", ".join(allowed)
        raise UnsupportedMediaType(f"Send one of {listed}.", headers=[(b"accept-post", listed.encode())])
    return media


@asynccontextmanager
async def receive_upload(receive: Receive, headers: dict[bytes, bytes], media: str) -> AsyncGenerator[Upload]:
    """Stream a body to a file, decompressing it on the way. Memory use does not depend on its size."""
    check_length(headers, UPLOAD_BYTES)
    decompressor = zlib.decompressobj(wbits=31) if is_gzipped(headers) else None
    digest = hashlib.sha256()
    received = size = 0
    deadline = time.monotonic() + UPLOAD_SECONDS
    with tempfile.NamedTemporaryFile(prefix="stoa-upload-") as file:
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
                if size > UPLOAD_BYTES or (decompressor and size > received * UPLOAD_RATIO + 100_000):
                    raise PayloadTooLarge(
                        f"The decompressed body may have at most {UPLOAD_BYTES:,} bytes.", max_bytes=UPLOAD_BYTES
                    )
                file.write(raw)
        if decompressor and (not decompressor.eof or decompressor.unused_data):
            raise UnsupportedMediaType("The gzip body is truncated or followed by other data.")
        file.flush()
        yield Upload(Path(file.name), media, size, digest.digest())


def _decompress(decompressor: "zlib._Decompress", part: bytes) -> bytes:  # pyright: ignore[reportPrivateUsage]
    try:
        return decompressor.decompress(part, 1 << 20)
    except zlib.error as error:
        raise UnsupportedMediaType("Content-Encoding is gzip, but the body is not valid gzip.") from error
