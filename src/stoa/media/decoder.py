"""The process that decodes pictures: it trusts nothing, has little memory, cannot write files, and is killed when it takes too long.

It reads requests from standard input and writes the results to standard output until its parent closes them. Run it by
`Decoder` of `decoding.py`.
"""

import base64
import binascii
import contextlib
import io
import json
import os
import resource
import struct
import sys
import warnings
from typing import Any, BinaryIO, cast

from PIL import Image, ImageCms, ImageFile, ImageOps, UnidentifiedImageError

from stoa.media.contract import DECODE_CPU_S, LENGTH, MOST_PICTURE_BYTES, REPLY, WIDTHS, PictureRefused

FORMATS = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif", "AVIF": "image/avif"}
MOST_PIXELS = 40_000_000
LONGEST_SIDE = 2000  # of what is stored
MEMORY_BYTES = 1024 * 1024 * 1024
_QUALITY = 85
_SMOOTH = Image.Resampling.BICUBIC
_ALPHA = ("RGBA", "LA", "PA", "La", "RGBa")

Made = tuple[dict[str, Any], list[bytes]]


def main() -> None:
    limit_resources()
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    while head := requests.read(LENGTH.size):
        size, encoded = LENGTH.unpack(head)
        data = requests.read(size)
        if len(data) < size:
            return
        limit_time()
        answer(replies, data, encoded=bool(encoded))
        del data


def limit_resources() -> None:
    """Bound memory, and forbid files and core dumps; leave the processor to those who serve requests."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        os.nice(10)
    Image.MAX_IMAGE_PIXELS = None  # `normalized` refuses by the header, before anything is decoded
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    warnings.simplefilter("ignore")


def limit_time() -> None:
    """Let the kernel kill this process if the next picture needs more processor time, however busy the machine is."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime) + DECODE_CPU_S + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))


def answer(replies: BinaryIO, data: bytes, *, encoded: bool) -> None:
    files: list[bytes] = []
    try:
        facts, files = normalized(decoded(data) if encoded else data)
    except PictureRefused as refusal:
        facts = {"refused": str(refusal)}
    except MemoryError:
        facts = {"refused": "needs too much memory"}
    head = json.dumps(facts).encode()
    replies.write(REPLY.pack(len(head)) + head)
    replies.writelines(files)
    replies.flush()


def decoded(data: bytes) -> bytes:
    try:
        text = json.loads(b'"%b"' % data) if b"\\" in data else data  # JSON may escape slashes, plus and equals signs
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise PictureRefused("is not valid base64") from None


def normalized(data: bytes) -> Made:
    """A picture without metadata, upright, in RGB and at most 2000 pixels long, and its smaller sizes.

    A JPEG stays one. Everything else becomes WebP, which knows transparency. Of an animation, the first frame is kept.
    """
    if not data:
        raise PictureRefused("is empty")
    if len(data) > MOST_PICTURE_BYTES:
        raise PictureRefused(f"has more than {MOST_PICTURE_BYTES:,} bytes")
    try:
        with Image.open(io.BytesIO(data), formats=tuple(FORMATS)) as opened:
            return _made(opened, FORMATS[opened.format or ""])
    except UnidentifiedImageError:
        raise PictureRefused("is not a JPEG, PNG, WebP, GIF or AVIF file") from None
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, struct.error):
        raise PictureRefused("is truncated or damaged") from None


def _made(opened: Image.Image, media: str) -> Made:
    width, height = opened.size
    if width * height > MOST_PIXELS:
        raise PictureRefused(f"has {width} x {height} pixels; at most {MOST_PIXELS:,} are allowed")
    if media == "image/jpeg" and (longest := max(width, height)) > LONGEST_SIDE:
        # Decodes at a smaller scale, if that is large enough.
        opened.draft("RGB", (width * LONGEST_SIDE // longest, height * LONGEST_SIDE // longest))
    opened.load()
    picture = _plain(opened)
    kind = "jpg" if media == "image/jpeg" else "webp"
    files = [_encoded(picture, kind)]
    widths: list[int] = []
    smaller = picture
    for size in sorted((each for each in WIDTHS if each < picture.width), reverse=True):
        shape = (size, max(1, round(picture.height * size / picture.width)))
        smaller = smaller.resize(shape, _SMOOTH, reducing_gap=2.0)  # pyright: ignore[reportUnknownMemberType]
        widths.append(size)
        files.append(_encoded(smaller, kind))
    facts = {
        "media": media,
        "extension": kind,
        "width": picture.width,
        "height": picture.height,
        "widths": widths,
        "sizes": [len(file) for file in files],
    }
    return facts, files


def _plain(opened: Image.Image) -> Image.Image:
    """The pixels as people see them, in sRGB, without anything else that the file contains."""
    picture = ImageOps.exif_transpose(opened)
    transparent = picture.mode in _ALPHA or "transparency" in opened.info
    if picture.mode.startswith("I"):  # 16 bits
        picture = picture.point(lambda value: value / 256).convert("L")  # pyright: ignore[reportUnknownMemberType]
    if picture.mode not in ("RGB", "RGBA", "L", "CMYK"):
        picture = picture.convert("RGBA" if transparent else "RGB")
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE), _SMOOTH, reducing_gap=2.0)
    if picture.mode in ("RGB", "CMYK") and (profile := opened.info.get("icc_profile")):
        with contextlib.suppress(ImageCms.PyCMSError, OSError):  # an unusable profile
            own = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            common = cast("Any", ImageCms.createProfile("sRGB"))  # pyright: ignore[reportUnknownMemberType]
            picture = ImageCms.profileToProfile(picture, own, common, outputMode="RGB") or picture
    picture = picture.convert("RGBA" if transparent else "RGB")
    picture.info.clear()
    return picture


def _encoded(picture: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    if kind == "jpg":
        picture.save(file, "JPEG", quality=_QUALITY)
    else:
        picture.save(file, "WEBP", quality=_QUALITY, method=2)
    return file.getvalue()


if __name__ == "__main__":
    main()
