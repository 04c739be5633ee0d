"""Long polling of feeds: one query serves all waiting requests of this process."""

import asyncio
import time
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from stoa.db.errors import NodeAway
from stoa.db.query import Executor
from stoa.rest.problems import TooManyInFlight
from stoa.webhooks.api.queries import LAST_SEQUENCES, OWNER_OF_APP

POLL_S = 0.1
MAX_WAITING, MAX_PER_APP = 500, 5  # an app has its slots on each store
MAX_PER_ACCOUNT = 50  # of all apps of one account on all stores, so that no account takes the slots of the others


class Watch:
    """The waiting requests of this process. It polls only while there are any, and holds no connection in between."""

    def __init__(self, db: Executor) -> None:
        self._db = db
        self._waiting: dict[asyncio.Future[None], tuple[int, int, int]] = {}
        self._per_app: Counter[tuple[int, int]] = Counter()
        self._per_account: Counter[tuple[str, int]] = Counter()
        self._sleeping: set[asyncio.Future[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    async def until_after(self, store_id: int, app_id: int, webhook_id: int, after: int, seconds: float) -> None:
        """Wait until a subscription has a later sequence, the time is up, or the service stops."""
        owner = await OWNER_OF_APP.one(self._db, app_id)
        account = ("account", owner) if owner is not None else ("app", app_id)
        with self._slot(store_id, app_id, account) as turn:
            self._waiting[turn] = (store_id, webhook_id, after)
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._poll())
            try:
                async with asyncio.timeout(seconds):
                    await turn
            except TimeoutError:
                return
            finally:
                self._waiting.pop(turn, None)

    async def rest(self, seconds: float) -> bool:
        """Sleep this long; returns False once the service stops."""
        turn = asyncio.get_running_loop().create_future()
        self._sleeping.add(turn)
        try:
            if not self._stopped:
                await asyncio.wait([turn], timeout=seconds)
        finally:
            self._sleeping.discard(turn)
        return not self._stopped

    @contextmanager
    def _slot(self, store_id: int, app_id: int, account: tuple[str, int]) -> Generator[asyncio.Future[None]]:
        key = (store_id, app_id)
        if self._per_app[key] >= MAX_PER_APP:
            raise _too_many(f"At most {MAX_PER_APP} requests of one app can wait for one store at the same time.")
        if self._per_account[account] >= MAX_PER_ACCOUNT:
            raise _too_many(f"At most {MAX_PER_ACCOUNT} requests of the apps of one account can wait at the same time.")
        if self._per_app.total() >= MAX_WAITING:
            raise _too_many("Too many requests wait for events.")
        self._per_app[key] += 1
        self._per_account[account] += 1
        turn = asyncio.get_running_loop().create_future()
        if self._stopped:
            turn.set_result(None)
        try:
            yield turn
        finally:
            self._per_app[key] -= 1
            if not self._per_app[key]:
                del self._per_app[key]
            self._per_account[account] -= 1
            if not self._per_account[account]:
                del self._per_account[account]

    async def _poll(self) -> None:
        while self._waiting:
            started = time.monotonic()
            try:
                await self._poll_once()
            except Exception as error:  # noqa: BLE001 - every waiting request fails, and may be retried
                for turn in [turn for turn in self._waiting if not turn.done()]:
                    turn.set_exception(error)
                return
            await asyncio.sleep(max(0.0, started + POLL_S - time.monotonic()))

    async def _poll_once(self) -> None:
        asked = dict(self._waiting)
        try:
            await self._answer(asked)
        except NodeAway:
            for store in {store_id for store_id, _, _ in asked.values()}:
                of_store = {turn: wanted for turn, wanted in asked.items() if wanted[0] == store}
                try:
                    await self._answer(of_store)
                except NodeAway as error:
                    for turn in of_store:
                        if not turn.done():
                            turn.set_exception(error)

    async def _answer(self, asked: Mapping[asyncio.Future[None], tuple[int, int, int]]) -> None:
        stores = sorted({store_id for store_id, _, _ in asked.values()})
        ids = sorted({webhook_id for _, webhook_id, _ in asked.values()})
        heads = {head.webhook_id: head.last_sequence for head in await LAST_SEQUENCES.all(self._db, stores, ids)}
        for turn, (_, webhook_id, after) in asked.items():
            if heads.get(webhook_id, 0) > after and not turn.done():
                turn.set_result(None)

    def stop(self) -> None:
        """End all waits, now and from now on, because the service stops."""
        self._stopped = True
        for turn in [turn for turn in (*self._waiting, *self._sleeping) if not turn.done()]:
            turn.set_result(None)


def _too_many(detail: str) -> TooManyInFlight:
    return TooManyInFlight(detail, headers=[(b"retry-after", b"1")])


_watches: WeakKeyDictionary[Executor, Watch] = WeakKeyDictionary()


def watch_of(db: Executor) -> Watch:
    """The watch of this process on a database."""
    if db not in _watches:
        _watches[db] = Watch(db)
    return _watches[db]


def stop_waiting(databases: Iterable[Executor]) -> None:
    """End the waits on these databases, now and from now on."""
    for db in databases:
        watch_of(db).stop()
