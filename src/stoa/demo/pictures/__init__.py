"""The pictures of the demo, which `python -m tools.demo_pictures` draws."""

import asyncio
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

    async def keep(url: str) -> tuple[str, Picture]:
        file = files(__name__) / f"{PurePosixPath(url).stem}.webp"
        decoded = DecodedPicture("image/webp", "webp", _SIDE, _SIDE, file.read_bytes(), {})
        return url, await media.keep(operator.db, store_id, decoded)

    try:
        return dict(await asyncio.gather(*(keep(url) for url in urls if url is not None)))
    finally:
        await media.close()
