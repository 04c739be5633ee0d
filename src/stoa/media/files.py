"""Stores pictures: the row first, then the files, and both before anything refers to the picture."""

import asyncio
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from stoa.db.query import Executor
from stoa.media import queries
from stoa.media.addresses import PREFIX, name_in_url, name_of
from stoa.media.contract import Picture, StorageAway
from stoa.media.decoding import DecodedPicture, Decoder
from stoa.media.storage import Storage, key_of, open_storage
from stoa.settings import Settings, secret_key, service_url


class Media:
    """The storage and the decoder of one process."""

    def __init__(self, settings: Settings, storage: Storage | None = None, decoder: Decoder | None = None) -> None:
        self.storage = storage or open_storage(settings)
        self.decoder = decoder or Decoder()
        self._settings = settings

    async def keep(self, db: Executor, store_id: int, decoded: DecodedPicture) -> Picture:
        """Store a picture and its smaller sizes. `db` commits each statement by itself.

        The row comes first: it keeps the file from being removed. The caller then refers to the picture. Raises StorageAway if a
        file cannot be written.
        """
        name = name_of(secret_key(self._settings).current, store_id, decoded.sha256, decoded.extension)
        files = {key_of(name): decoded.file} | {key_of(name, w): file for w, file in decoded.smaller.items()}
        size = sum(len(file) for file in files.values())
        await queries.CLAIM_FILE.one(db, store_id, name, decoded.width, decoded.height, size, [*decoded.smaller])
        try:
            await asyncio.gather(*(self.storage.put(key, file) for key, file in files.items()))
        except OSError as error:
            raise StorageAway from error
        return Picture(self.address(name), decoded.width, decoded.height)

    async def known(self, db: Executor, store_id: int, urls: Iterable[str]) -> dict[str, Picture]:
        """The pictures of the store among these addresses; they are kept for a while, because a product is to show them."""
        names = {name: url for url in urls if (name := name_in_url(url)) is not None}
        own = [name for name in names if name.startswith(f"{store_id}/")]
        found = await queries.TOUCH_FILES.all(db, store_id, own) if own else []
        return {names[row.name]: Picture(names[row.name], row.width, row.height) for row in found}

    def address(self, name: str) -> str:
        return f"{service_url(self._settings)}{PREFIX}{name}"

    async def close(self) -> None:
        await self.decoder.close()
        await self.storage.close()


_opened: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Settings, Media]] = WeakKeyDictionary()


def media_of(settings: Settings) -> Media:
    """The media of this process, opened when it is first needed."""
    mine = _opened.setdefault(asyncio.get_running_loop(), {})
    if settings not in mine:
        mine[settings] = Media(settings)
    return mine[settings]


async def close_media() -> None:
    """Close what `media_of` has opened in this process."""
    for media in _opened.pop(asyncio.get_running_loop(), {}).values():
        await media.close()
