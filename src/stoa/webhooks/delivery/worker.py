"""The delivery worker of one process: runs the router, the lane scheduler, redelivery jobs, the courier of email and
maintenance until stopped."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import structlog

from stoa.access.addresses import base_url
from stoa.access.operator import Operator
from stoa.access.sealing import Sealer
from stoa.accounts import reset_requests
from stoa.db.errors import NodeAway, cause
from stoa.db.pool import Database, connect, path_to_server
from stoa.events.notify import CHANNEL
from stoa.ids import new_id
from stoa.mail.courier import Courier, CourierConfig
from stoa.settings import Settings, secret_key, service_url
from stoa.webhooks.delivery import expiring_secrets, maintenance, queries
from stoa.webhooks.delivery.lane_scheduler import LaneScheduler
from stoa.webhooks.delivery.queries import APPLICATION_NAME, DATABASE_ERRORS, LISTENER_NAME
from stoa.webhooks.delivery.redelivery import requeue_next_slice
from stoa.webhooks.delivery.retry_policy import DeliveryConfig, SentAttempt
from stoa.webhooks.delivery.router import Router
from stoa.webhooks.http.address_guard import Allowed
from stoa.webhooks.http.client import Sender

_RETRY_S = 0.5
_STATEMENT_MS = 30_000
_DURABLE, _RELAXED, _LISTENING = 3, 8, 1
CONNECTIONS = _DURABLE + _RELAXED + _LISTENING


def _ignore_attempt(_: SentAttempt) -> None:
    return None


def _pool(url: str, size: int) -> Database:
    return Database(url, size=size, statement_timeout_ms=_STATEMENT_MS, name=APPLICATION_NAME)


def _set(event: asyncio.Event, _: Any) -> None:
    event.set()


class DeliveryWorker:
    """Delivers webhooks; `observe` is called for each attempt."""

    def __init__(
        self,
        url: str,
        settings: Settings,
        config: DeliveryConfig | None = None,
        *,
        observe: Callable[[SentAttempt], None] = _ignore_attempt,
        courier: CourierConfig | None = None,
    ) -> None:
        self._config = config or DeliveryConfig()
        self._settings = settings
        self._listening_url = settings.database_direct_url or url
        self._durable = _pool(url, _DURABLE)
        # For statements that do not wait for the disk: an outcome that a crash of the database undoes is only sent again.
        self._relaxed = _pool(url, _RELAXED)
        self.pools = {"durable": self._durable, "relaxed": self._relaxed}
        self._sender = Sender(
            Allowed.parse(settings.webhook_allow),
            request_timeout_s=self._config.request_timeout,
            connect_timeout_s=self._config.connect_timeout,
        )
        sealer = Sealer(secret_key(settings))
        self.scheduler = LaneScheduler(
            self._relaxed, sealer, self._sender, self._config, observe, base_url(service_url(settings), "")
        )
        self._router = Router(
            self._durable, self._relaxed, self.scheduler, self._config.poll, self._config.takeover_after
        )
        self._courier = Courier(self._durable, settings, courier)

    async def run(self, stop: asyncio.Event) -> None:
        await self._create_partitions(stop)
        loops = (
            self._listen(),
            self._router.run(),
            self._every(self._config.heartbeat, self._report),
            self._every(4 * self._config.poll, self._redeliver),
            self._every(expiring_secrets.EVERY_S, self._remind),
            self._every(reset_requests.EVERY_S, self._answer_resets),
            self._every(self._config.maintenance_every, lambda: maintenance.maintain(self._durable, self._config)),
        )
        tasks = [asyncio.create_task(loop) for loop in loops]
        sending = asyncio.create_task(self._courier.run(stop))
        try:
            await self.scheduler.run(stop)
            await sending
        finally:
            for task in (*tasks, sending):
                task.cancel()
            await asyncio.gather(*tasks, sending, return_exceptions=True)
            await self._router.release()
            with contextlib.suppress(*DATABASE_ERRORS):
                await queries.FORGET_WORKER.run(self._durable, self.scheduler.owner)
            self._sender.close()
            for database in self.pools.values():
                await database.close()

    async def _create_partitions(self, stop: asyncio.Event) -> None:
        """Wait for the database, which may start after the worker."""
        while not stop.is_set():
            try:
                await maintenance.create_partitions(self._durable)
            except NodeAway as error:  # those of the next days exist; the router creates a missing one
                structlog.get_logger().warning("creating partitions failed", **cause(error))
                return
            except DATABASE_ERRORS as error:
                structlog.get_logger().warning("starting deliveries failed", **cause(error))
                await asyncio.sleep(_RETRY_S)
            else:
                return

    async def _listen(self) -> None:
        """Receive notifications of committed events. While the connection is down, or through a pooler, the router only
        polls."""
        while True:
            with contextlib.suppress(*DATABASE_ERRORS):
                if (await path_to_server(self._listening_url)).pooled:
                    structlog.get_logger().warning("events are polled, because a pooler passes on no notifications")
                    return
                opening = connect(self._listening_url, statement_timeout_ms=0, name=LISTENER_NAME)
                connection = cast("Any", await opening)
                closed = asyncio.Event()
                connection.add_termination_listener(partial(_set, closed))
                try:
                    await connection.add_listener(CHANNEL, self._router.notified)
                    await closed.wait()
                finally:
                    connection.terminate()
            await asyncio.sleep(_RETRY_S)

    async def _report(self) -> None:
        """Let others count this worker."""
        await queries.REPORT_WORKER.run(self._durable, self.scheduler.owner)

    async def _redeliver(self) -> None:
        while (bucket := await requeue_next_slice(self._durable)) is not None:
            self.scheduler.wake([bucket])

    async def _remind(self) -> None:
        await expiring_secrets.remind_of_expiring_secrets(self._durable)

    async def _answer_resets(self) -> None:
        if self._settings.smtp_url:
            by = Operator(self._durable, self._settings, actor="system", request_id=new_id("req"))
            await reset_requests.answer_reset_requests(by)

    async def _every(self, seconds: float, task: Callable[[], Awaitable[Any]]) -> None:
        while True:
            try:
                await task()
            except Exception as error:  # noqa: BLE001 - the next run may succeed
                structlog.get_logger().warning("delivery task failed", **cause(error))
            await asyncio.sleep(seconds)
