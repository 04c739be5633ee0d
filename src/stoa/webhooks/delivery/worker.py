"""The delivery of webhooks in one process: runs the router, the lane scheduler, redelivery jobs and maintenance until
stopped."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import structlog

from stoa.access.addresses import base_url
from stoa.access.encryption import Cipher
from stoa.db.connection import Connection, connect, path_to_server
from stoa.db.errors import InterfaceError, InternalClientError, NodeAway, cause
from stoa.db.pool import Database
from stoa.events.notify import CHANNEL
from stoa.loops import beside, repeat
from stoa.settings import Settings, secret_key, service_url
from stoa.webhooks.delivery import maintenance, queries
from stoa.webhooks.delivery.lane_runner import Trace
from stoa.webhooks.delivery.lane_scheduler import LaneScheduler
from stoa.webhooks.delivery.queries import DATABASE_ERRORS, LISTENER_NAME
from stoa.webhooks.delivery.redelivery import requeue_next_slice
from stoa.webhooks.delivery.retry_policy import DeliveryConfig, SentAttempt
from stoa.webhooks.delivery.router import Router
from stoa.webhooks.http.address_guard import Allowed
from stoa.webhooks.http.client import Sender

_RETRY_S = 0.5
_LOST = (*DATABASE_ERRORS, InterfaceError, InternalClientError)
LISTENING = 1  # the connection beside the pools


def _set(event: asyncio.Event, _: Any) -> None:
    event.set()


class DeliveryWorker:
    """Delivers webhooks once: `run` ends with `stop`. `observe` is called for each attempt.

    Statements on the `relaxed` pool do not wait for the disk: an outcome that a crash of the database undoes is only sent
    again.
    """

    def __init__(
        self,
        durable: Database,
        relaxed: Database,
        settings: Settings,
        config: DeliveryConfig | None = None,
        *,
        observe: Callable[[SentAttempt], None],
        trace: Trace | None = None,
    ) -> None:
        self._config = config or DeliveryConfig()
        self._durable = durable
        self._listening_url = settings.database_direct_url or durable.url
        self._sender = Sender(
            Allowed.parse(settings.webhook_allow),
            request_timeout_s=self._config.request_timeout,
            connect_timeout_s=self._config.connect_timeout,
        )
        cipher = Cipher(secret_key(settings))
        stores_url = base_url(service_url(settings), "")
        self.scheduler = LaneScheduler(relaxed, cipher, self._sender, self._config, observe, stores_url)
        self.scheduler.shared.trace = trace
        self._router = Router(durable, relaxed, self.scheduler, self._config.poll, self._config.takeover_after)

    async def run(self, stop: asyncio.Event) -> None:
        await self._create_partitions(stop)
        config = self._config
        loops = (
            self._listen(),
            self._router.run(),
            repeat("delivery report", config.heartbeat, self._report),
            repeat("redelivery", 4 * config.poll, self._redeliver),
            repeat(
                "delivery maintenance", config.maintenance_every, lambda: maintenance.maintain(self._durable, config)
            ),
        )
        try:
            async with beside(*loops):
                await self.scheduler.run(stop)
        finally:
            await self._router.release()
            with contextlib.suppress(*DATABASE_ERRORS):
                await queries.FORGET_WORKER.run(self._durable, self.scheduler.owner)
            self._sender.close()

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
            with contextlib.suppress(*_LOST):
                if (await path_to_server(self._listening_url)).pooled:
                    structlog.get_logger().warning("events are polled, because a pooler passes on no notifications")
                    return
                opening = connect(self._listening_url, statement_timeout_ms=0, name=LISTENER_NAME)
                connection = cast("Any", await opening)
                closed = asyncio.Event()
                connection.add_termination_listener(partial(_set, closed))
                try:
                    await connection.add_listener(CHANNEL, self._router.notified)
                    await self._until_silent(connection, closed)
                finally:
                    connection.terminate()
            await asyncio.sleep(_RETRY_S)

    async def _until_silent(self, connection: Connection, closed: asyncio.Event) -> None:
        """Wait until the connection ends, or does not answer: a machine that is switched off does not say so."""
        every = self._config.check_listener
        while not closed.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every):
                    await closed.wait()
                    return
            async with asyncio.timeout(every):
                await queries.NOW.one(connection)

    async def _report(self) -> None:
        """Let others count this worker."""
        await queries.REPORT_WORKER.run(self._durable, self.scheduler.owner)

    async def _redeliver(self) -> None:
        while (bucket := await requeue_next_slice(self._durable)) is not None:
            self.scheduler.wake([bucket])
