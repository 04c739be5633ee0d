"""What the rest of Stoa knows of pictures: their types and limits, and a picture that is stored."""

import struct
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

MOST_PICTURE_BYTES = 8 * 1024 * 1024
# The base64 of a picture, and room for the rest of the request.
MOST_BODY_BYTES = 12 * 1024 * 1024
DECODE_CPU_S = 5  # of processor time for one picture; the process is then killed
WIDTHS = (64, 160, 320, 640, 1280)  # the values of `w`
MEDIA_TYPES = {"jpg": "image/jpeg", "webp": "image/webp"}  # of what is stored, by extension
# The messages between the decoder and its parent: how long the data is and whether it is base64, and how long the reply is.
LENGTH, REPLY = struct.Struct(">QB"), struct.Struct(">Q")

PictureType = Literal["image/jpeg", "image/png", "image/webp", "image/gif", "image/avif"]
PictureStatus = Literal["pending", "ready", "failed"]
PictureData = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=11_184_812,
        description="The file as base64, at most 8 MB before encoding, with at most 40 million pixels. Stoa removes its metadata, turns it upright, and stores it with at most 2,000 pixels on the longer side.",
    ),
]


class Picture(msgspec.Struct, frozen=True):
    """A picture that Stoa stores: its address, and the size of what is stored."""

    url: str
    width: int
    height: int


class PictureRefused(Exception):
    """The data is not a picture that Stoa stores; the message completes "The picture ..."."""


class PicturesUnavailable(Exception):
    """No picture can be stored at the moment; the message is a sentence that says why."""


class DecoderBusy(PicturesUnavailable):
    def __init__(self) -> None:
        super().__init__("Too many pictures are being decoded.")


class StorageAway(PicturesUnavailable):
    def __init__(self) -> None:
        super().__init__("The storage of pictures is unavailable.")
