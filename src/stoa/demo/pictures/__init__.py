"""The pictures of the demo, which `python -m tools.demo_pictures` draws."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import PurePosixPath

from stoa.access.operator import Operator
from stoa.media.contract import Picture
from stoa.media.decoding import DecodedPicture
from stoa.media.files import Media

_SIDE = 400


async def keep_pictures(operator: Operator, store_id: int, urls: Sequence[str | None]) -> dict[str, Picture]:
    """Store the drawn pictures of a catalog, and return them by the address that the catalog names."""
    media = Media(operator.settings)

    try:
        kept: dict[str, Picture] = {}
        for url in urls:  # one after the other: they share the connection of a transaction
            if url is not None:
                file = files(__name__) / f"{PurePosixPath(url).stem}.webp"
                decoded = DecodedPicture("image/webp", "webp", _SIDE, _SIDE, file.read_bytes(), {})
                kept[url] = await media.keep(operator.db, store_id, decoded)
        return kept
    finally:
        await media.close()
