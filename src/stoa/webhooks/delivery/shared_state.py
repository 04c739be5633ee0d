"""The state that the lane runners of one worker share: its HTTP client, its limits and the database's clock."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import structlog

from stoa.access.sealing import Sealer, Unsealable
from stoa.db.pool import Database
from stoa.webhooks.delivery.queries import DATABASE_ERRORS, NOW, Subscription
from stoa.webhooks.delivery.retry_policy import DeliveryConfig, Verdict
from stoa.webhooks.http.client import Sender, Target

MAX_IN_FLIGHT = 2000
MAX_PER_HOST = MAX_IN_FLIGHT // 4  # only a slow host reaches this


class SentAttempt(msgspec.Struct):
    """One attempt, for metrics."""

    outcome: Verdict
    seconds: float
    latency: float | None  # from the event to the first byte sent; only for a first attempt


class HostLimits:
    """Counts the requests in flight, in total and per host, so that one slow host leaves room for all others."""

    def __init__(self, max_in_flight: int = MAX_IN_FLIGHT, max_per_host: int = MAX_PER_HOST) -> None:
        self.slots = asyncio.Semaphore(max_in_flight)
        self._max_per_host = max_per_host
        self._in_flight: Counter[str] = Counter()

    def full(self, host: str) -> bool:
        return self._in_flight.get(host, 0) >= self._max_per_host

    def acquire(self, host: str) -> None:
        self._in_flight[host] += 1

    def release(self, host: str) -> None:
        self._in_flight[host] -= 1
        if not self._in_flight[host]:
            del self._in_flight[host]


class SharedState:
    """The state that the lane runners of one worker share; only the lane scheduler changes it."""

    def __init__(
        self,
        database: Database,
        sender: Sender,
        sealer: Sealer,
        config: DeliveryConfig,
        observe: Callable[[SentAttempt], None],
    ) -> None:
        self.database = database
        self.sender = sender
        self.config = config
        self._sealer = sealer
        self.observe = observe
        self.hosts = HostLimits()
        self.next_send_at: dict[int, float] = {}  # by subscription, for rate limits
        self.stopping = False
        self.full = False  # all lane slots are taken
        self.settling_fails = (
            False  # an outcome that cannot be stored would be sent again: send nothing until it can be
        )
        self.renewed_at = time.monotonic()
        self.clock_offset = 0.0  # of the database's clock

    def now(self) -> datetime:
        """The database's time, which decides what is due."""
        return datetime.fromtimestamp(time.time() + self.clock_offset, UTC)

    async def synchronize_clock(self) -> None:
        with contextlib.suppress(*DATABASE_ERRORS):
            before = time.time()
            moment = await NOW.one(self.database)
            self.clock_offset = moment.timestamp() - (before + time.time()) / 2

    def may_send(self) -> bool:
        blocked = self.stopping or self.settling_fails
        return not blocked and time.monotonic() - self.renewed_at < self.config.stop_after

    def target(self, subscription: Subscription) -> Target | None:
        """The receiver with its secrets in clear; None if there is no URL."""
        if subscription.url is None:
            return None
        row = (subscription.store_id, subscription.id)
        try:
            sealed = [subscription.sealed_secret, subscription.sealed_old_secret]
            keys = [self._sealer.open(each, "webhooks", "secret", *row) for each in sealed if each is not None]
            headers: dict[str, str] = {}
            if subscription.sealed_headers is not None:
                text = self._sealer.open(subscription.sealed_headers, "webhooks", "headers", *row)
                headers = msgspec.json.decode(text, type=dict[str, str])
        except Unsealable as error:
            structlog.get_logger().error(
                "unsealing a webhook failed", store_id=subscription.store_id, error=type(error).__name__
            )
            return None
        return Target(subscription.url, keys, headers)
