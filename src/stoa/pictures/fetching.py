"""Fetches the pictures that images name by `source_url`, stores them, and changes their products."""

import asyncio
from collections import Counter

from stoa.db.connection import Connection
from stoa.db.pool import Database
from stoa.events.outbox import Cause
from stoa.ids import new_id
from stoa.loops import log_failure
from stoa.media import queries
from stoa.media.contract import MOST_PICTURE_BYTES, DecoderBusy, Picture, PictureRefused
from stoa.media.decoding import Decoder
from stoa.media.files import Media
from stoa.media.queries import Fetch
from stoa.products.images import fetched
from stoa.products.save import load, save
from stoa.settings import Settings
from stoa.webhooks.http.address_guard import Allowed
from stoa.webhooks.http.download import Downloader, DownloadFailed

NAME = "pictures"
MOST_AT_ONCE, MOST_OF_A_STORE = 16, 8
LEASE_S = 120.0  # longer than a download, its turn at the decoder, and the transaction
RETRY_S = (10.0, 60.0, 600.0)  # after each failure; then the image has failed
_PROCESSES = 2
_POLL_S = 0.5
_OUTAGE_S = 30.0  # of the storage or the database


class PictureFetcher:
    """Fetches pictures until none is due. Any number of workers may do so; leases keep them apart."""

    def __init__(self, database: Database, settings: Settings, downloader: Downloader | None = None) -> None:
        self._database = database
        self._media = Media(settings, decoder=Decoder(processes=_PROCESSES, wait_s=LEASE_S / 2))
        self._downloader = downloader or Downloader(Allowed.parse(settings.webhook_allow))
        self._turn, self._turns = 0, dict[int, int]()  # when each store that waits was last given a place

    async def close(self) -> None:
        self._downloader.close()
        await self._media.close()

    async def run(self, stop: asyncio.Event) -> None:
        """Fetch what is due, now and later, until the stop."""
        while not stop.is_set():
            await self.fetch_due(stop)
            try:
                async with asyncio.timeout(_POLL_S):
                    await stop.wait()
            except TimeoutError:
                continue

    async def fetch_due(self, stop: asyncio.Event | None = None) -> None:
        """Fetch every picture that is due. The stores share the places, so that slow servers of one delay no other."""
        running: dict[asyncio.Task[None], int] = {}
        try:
            while True:
                if stop is None or not stop.is_set():
                    await self._start(running)
                if not running:
                    return
                done, _ = await asyncio.wait(running, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    del running[task]
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _start(self, running: dict[asyncio.Task[None], int]) -> None:
        """Give each free place to the store with the fewest places, and among these to the one that has waited longest."""
        if len(running) >= MOST_AT_ONCE:
            return
        busy = Counter(running.values())
        due = await queries.STORES_WITH_FETCHES.all(self._database.autocommit)
        self._turns = {each: self._turns[each] for each in due if each in self._turns}
        while len(running) < MOST_AT_ONCE and (due := [each for each in due if busy[each] < MOST_OF_A_STORE]):
            store_id = min(due, key=lambda each: (busy[each], self._turns.get(each, 0)))
            leased = await queries.LEASE_FETCHES.all(self._database.autocommit, store_id, 1, LEASE_S)
            for each in leased:
                running[asyncio.create_task(self._fetch(store_id, each))] = store_id
            busy[store_id] += 1
            self._turn += 1
            self._turns[store_id] = self._turn
            if not leased:
                due.remove(store_id)

    async def _fetch(self, store_id: int, fetch: Fetch) -> None:
        try:
            outcome = await self._outcome(store_id, fetch)
            if outcome is not None:
                await self._database.in_transaction(lambda db: _settle(db, store_id, fetch, outcome), store_id)
        except DecoderBusy:
            await self._postpone(store_id, fetch, RETRY_S[0], of_source=False)
        except Exception as error:  # noqa: BLE001 - one picture must not keep the others from being fetched
            log_failure(NAME, error)
            await self._postpone(store_id, fetch, _OUTAGE_S, of_source=False)

    async def _outcome(self, store_id: int, fetch: Fetch) -> Picture | str | None:
        """The stored picture, or why there is none; None if a later try may succeed."""
        try:
            data = await self._downloader.get(fetch.source_url, MOST_PICTURE_BYTES)
            decoded = await self._media.decoder.decode(data)
        except DownloadFailed as failure:
            if failure.lasting or fetch.attempts > len(RETRY_S):
                return str(failure)
            await self._postpone(store_id, fetch, RETRY_S[fetch.attempts - 1])
            return None
        except PictureRefused as refusal:
            return f"the file {refusal}"
        return await self._media.keep(self._database.autocommit, store_id, decoded)

    async def _postpone(self, store_id: int, fetch: Fetch, seconds: float, *, of_source: bool = True) -> None:
        """Fetch it again later. Only failures of its source count against its retries."""
        names = (fetch.product_id, fetch.image_id, fetch.source_url)
        await queries.POSTPONE_FETCH.run(self._database.autocommit, store_id, *names, seconds, 0 if of_source else 1)


async def _settle(db: Connection, store_id: int, fetch: Fetch, outcome: Picture | str) -> None:
    """Change the product, once: only one transaction ends the fetch. Its event shows the old and the new images; a silent fetch,
    of an import without events, has none."""
    products = await load(db, store_id, ids=[fetch.product_id])
    if not await queries.END_FETCH.run(db, store_id, fetch.product_id, fetch.image_id, fetch.source_url):
        return
    for product in products:
        images = None if product.deleted else fetched(product.fields.images, fetch.image_id, fetch.source_url, outcome)
        if images is not None:
            product.set_fields(images=images)
    await save(db, store_id, products, Cause(None, new_id("req")), events=not fetch.silent)
