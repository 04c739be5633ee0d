"""Waiting for a feed's next event: many may wait, and one question to the database serves them all."""

import asyncio
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from stoa.db.query import Executor
from stoa.rest.problems import RateLimited
from stoa.webhooks.api.queries import HEADS

LOOK_EVERY_S = 0.1
MOST_WAITING, MOST_OF_ONE_APP = 500, 5


class Watch:
    """Those who wait in this process; it asks only while somebody does, and holds no connection in between."""

    def __init__(self, db: Executor) -> None:
        self._db = db
        self._waiting: dict[asyncio.Future[None], tuple[int, int, int]] = {}
        self._of_app: Counter[tuple[int, int]] = Counter()
        self._resting: set[asyncio.Future[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._over = False

    async def until_after(self, store_id: int, app_id: int, webhook_id: int, after: int, seconds: float) -> None:
        """Wait until a subscription has come past this sequence, the time is up, or the service is to stop."""
        with self._seat(store_id, app_id) as turn:
            self._waiting[turn] = (store_id, webhook_id, after)
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._look())
            try:
                async with asyncio.timeout(seconds):
                    await turn
            except TimeoutError:
                return
            finally:
                self._waiting.pop(turn, None)

    async def rest(self, seconds: float) -> bool:
        """Wait so long, for one who then looks himself; false once the service is to stop."""
        turn = asyncio.get_running_loop().create_future()
        self._resting.add(turn)
        try:
            if not self._over:
                await asyncio.wait([turn], timeout=seconds)
        finally:
            self._resting.discard(turn)
        return not self._over

    @contextmanager
    def _seat(self, store_id: int, app_id: int) -> Generator[asyncio.Future[None]]:
        key = (store_id, app_id)
        if self._of_app[key] >= MOST_OF_ONE_APP or self._of_app.total() >= MOST_WAITING:
            raise RateLimited(
                f"At most {MOST_OF_ONE_APP} requests of an app may wait at the same time.",
                headers=[(b"retry-after", b"1")],
            )
        self._of_app[key] += 1
        turn = asyncio.get_running_loop().create_future()
        if self._over:
            turn.set_result(None)
        try:
            yield turn
        finally:
            self._of_app[key] -= 1
            if not self._of_app[key]:
                del self._of_app[key]

    async def _look(self) -> None:
        while self._waiting:
            started = time.monotonic()
            try:
                await self._look_once()
            except Exception as error:  # noqa: BLE001 - whoever waits is told, and may ask again
                for turn in [turn for turn in self._waiting if not turn.done()]:
                    turn.set_exception(error)
                return
            await asyncio.sleep(max(0.0, started + LOOK_EVERY_S - time.monotonic()))

    async def _look_once(self) -> None:
        asked = dict(self._waiting)
        stores = sorted({store_id for store_id, _, _ in asked.values()})
        ids = sorted({webhook_id for _, webhook_id, _ in asked.values()})
        heads = {head.webhook_id: head.last_sequence for head in await HEADS.all(self._db, stores, ids)}
        for turn, (_, webhook_id, after) in asked.items():
            if heads.get(webhook_id, 0) > after and not turn.done():
                turn.set_result(None)

    def stop(self) -> None:
        """Send everybody home, now and from now on: the service is to end, and nothing new will come."""
        self._over = True
        for turn in [turn for turn in (*self._waiting, *self._resting) if not turn.done()]:
            turn.set_result(None)


_watches: WeakKeyDictionary[Executor, Watch] = WeakKeyDictionary()


def watch_of(db: Executor) -> Watch:
    """The one watch of this process on a database."""
    if db not in _watches:
        _watches[db] = Watch(db)
    return _watches[db]


def stop_waiting() -> None:
    for watch in _watches.values():
        watch.stop()
