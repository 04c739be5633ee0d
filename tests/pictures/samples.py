"""Pictures for tests, good and hostile, made in memory."""

import base64
import io
import struct
import zlib
from typing import Any

from PIL import Image

SCRIPT = b"<script>alert(1)</script>"


def picture(width: int = 300, height: int = 200, kind: str = "JPEG", mode: str = "RGB", **options: Any) -> bytes:
    """A picture whose left half is red and whose right half is blue."""
    made = Image.new("RGB", (width, height), (200, 30, 30))
    made.paste((30, 30, 200), (width // 2, 0, width, height))
    file = io.BytesIO()
    made.convert(mode).save(file, kind, **options)
    return file.getvalue()


def photo(side: int, seed: int = 0) -> bytes:
    """A JPEG that does not compress well, about a megabyte for each million pixels."""
    file = io.BytesIO()
    noise = Image.effect_noise((side, side), 64)
    Image.merge("RGB", (noise, noise.rotate(90 + seed), noise.rotate(180))).save(file, "JPEG", quality=92)
    return file.getvalue()


def with_exif(orientation: int) -> bytes:
    """A JPEG that a camera took, with its position on Earth."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "Secret Camera Maker"
    exif.get_ifd(0x8825)[2] = (51.0, 3.0, 13.0)
    return picture(300, 200, exif=exif)


def animation(kind: str = "GIF") -> bytes:
    frames = [Image.new("RGB", (40, 30), (n * 60, 0, 0)) for n in range(4)]
    file = io.BytesIO()
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], duration=50)
    return file.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it has very many pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" * 1_000_000, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def upload(data: bytes, content_type: str = "image/jpeg", **more: Any) -> dict[str, Any]:
    """An image of a request."""
    return {"content_type": content_type, "data": base64.b64encode(data).decode(), **more}


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))
