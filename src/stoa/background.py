"""The background worker: the duties that it runs beside each other until it is stopped, in the directory and in each shard.

The duties are declared once, in DUTIES. The process, its log lines, `stoa doctor` and the page about background workers follow.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal

import msgspec

from stoa.access.app_changes import APP_CHANGED
from stoa.access.audit import ENTRY, receive_entry
from stoa.access.operator import Operator
from stoa.access.stores import CREATED, receive_new_store
from stoa.accounts.install_requests import ANSWERED, receive_answer
from stoa.accounts.ownership import NEW_SCOPES, grant_in_shard
from stoa.accounts.reset_requests import answer_reset_requests
from stoa.db.directory_outbox import collect
from stoa.db.pool import Database
from stoa.db.shard_outbox import ReceiveForShard, ReceiveForStore, Retries, receive_for_shard, receive_for_stores
from stoa.demo.development_stores import SAMPLES, receive_samples
from stoa.ids import new_id
from stoa.inventory.locations import LOCATIONS, receive_locations
from stoa.loops import beside, log_failure, repeat
from stoa.mail.courier import Courier
from stoa.notifications.notify import NEWS, receive_news
from stoa.orders.expiry import NAME as ORDER_HOLDS
from stoa.orders.expiry import expire_orders
from stoa.pictures.fetching import NAME as PICTURES
from stoa.pictures.fetching import PictureFetcher
from stoa.pictures.removal import NAME as UNUSED_PICTURES
from stoa.pictures.removal import OF_ERASED_STORES, remove_erased, remove_unused
from stoa.products.collection_rollout import NAME as COLLECTIONS
from stoa.products.collection_rollout import apply_collections
from stoa.settings import Settings
from stoa.store_data.store_erasure import ERASED, receive_erasure
from stoa.webhooks.app_rollout import NOT_REACHED, receive_app_change, receive_not_reached, roll_out
from stoa.webhooks.app_subscription_rollout import apply_app_subscriptions
from stoa.webhooks.delivery.lane_runner import Trace
from stoa.webhooks.delivery.queries import APPLICATION_NAME
from stoa.webhooks.delivery.retry_policy import SentAttempt
from stoa.webhooks.delivery.worker import LISTENING, DeliveryWorker
from stoa.webhooks.expiring_secrets import remind_of_expiring_secrets

RETRY_S = 2.0  # before a lasting duty that failed starts again
_STATEMENT_MS = 30_000
_DURABLE, _RELAXED = 3, 8
_OUTSIDE = 1  # for single statements outside a transaction, beside the durable pool
RECEIVERS = {
    NEWS: receive_news,
    LOCATIONS: receive_locations,
    ERASED: receive_erasure,
    ANSWERED: receive_answer,
    NOT_REACHED: receive_not_reached,
}
CONNECTIONS = _DURABLE + _OUTSIDE + _RELAXED + LISTENING


class Pools(msgspec.Struct, frozen=True):
    """The connections of one background process."""

    durable: Database
    relaxed: Database  # does not wait for the disk: what a crash of the database undoes is only done again

    def fence(self) -> None:
        self.durable.fence()
        self.relaxed.fence()

    async def close(self) -> None:
        await self.durable.close()
        await self.relaxed.close()


def open_pools(url: str) -> Pools:
    durable, relaxed = (
        Database(url, size=size, statement_timeout_ms=_STATEMENT_MS, name=APPLICATION_NAME)
        for size in (_DURABLE, _RELAXED)
    )
    return Pools(durable, relaxed)


class Work(msgspec.Struct, frozen=True):
    """What the duties of one process share; `observe` and `trace` see each attempt to deliver an event."""

    settings: Settings
    pools: Pools
    stop: asyncio.Event
    observe: Callable[[SentAttempt], None]
    trace: Trace | None = None
    directory: Database | None = None  # if these are the duties of a shard
    retries: Retries = msgspec.field(default_factory=Retries)  # of messages from the directory


class Duty(msgspec.Struct, frozen=True):
    """One kind of background work. Any number of processes may run it: leases and locks in the database keep them apart."""

    name: str  # in log lines, in `stoa doctor` and in the documentation
    run: Callable[[Work], Awaitable[None]]
    every: float | None = None  # seconds; None: it runs until the stop, and then finishes what it has begun
    sends_mail: bool = False  # it needs a mail server
    where: Literal["everywhere", "directory", "shard"] = "everywhere"


async def _deliver(work: Work) -> None:
    pools = work.pools
    await DeliveryWorker(pools.durable, pools.relaxed, work.settings, observe=work.observe, trace=work.trace).run(
        work.stop
    )


async def _send_mails(work: Work) -> None:
    await Courier(work.pools.durable, work.settings).run(work.stop)


async def _answer_resets(work: Work) -> None:
    by = Operator(work.pools.durable, work.settings, actor="system", request_id=new_id("req"))
    await answer_reset_requests(by)


async def _remind(work: Work) -> None:
    await remind_of_expiring_secrets(work.pools.durable)


async def _expire_orders(work: Work) -> None:
    await expire_orders(work.pools.durable)


async def _apply_collections(work: Work) -> None:
    await apply_collections(work.pools.durable)


async def _apply_app_subscriptions(work: Work) -> None:
    await apply_app_subscriptions(work.pools.relaxed)


async def _fetch_pictures(work: Work) -> None:
    fetcher = PictureFetcher(work.pools.durable, work.settings)
    try:
        await fetcher.run(work.stop)
    finally:
        await fetcher.close()


async def _remove_unused_pictures(work: Work) -> None:
    await remove_unused(work.pools.durable, work.settings)


async def _remove_pictures_of_erased_stores(work: Work) -> None:
    await remove_erased(work.pools.durable, work.settings)


async def _collect(work: Work) -> None:
    if work.directory is not None:
        while await collect(work.pools.durable, work.directory, RECEIVERS):
            pass


def store_receivers(settings: Settings) -> dict[str, ReceiveForStore]:
    """The receivers of messages to one store, by kind."""
    return {
        ENTRY: receive_entry,
        CREATED: receive_new_store,
        SAMPLES: partial(receive_samples, settings),
        APP_CHANGED: partial(receive_app_change, settings),
    }


def shard_receivers(settings: Settings) -> dict[str, ReceiveForShard]:
    """The receivers of messages to all stores of a shard, by kind."""
    return {APP_CHANGED: partial(roll_out, settings), NEW_SCOPES: partial(grant_in_shard, settings)}


async def _receive(work: Work) -> None:
    here, directory = work.pools.durable, work.directory or work.pools.durable
    if not here.fenced:
        return  # a service without shards
    await receive_for_stores(here, directory, store_receivers(work.settings), work.retries)
    if work.directory is not None:
        while await receive_for_shard(here, directory, shard_receivers(work.settings), work.retries):
            pass


DUTIES = (
    Duty("webhook deliveries", _deliver),
    Duty("email", _send_mails, sends_mail=True, where="directory"),
    Duty("password resets", _answer_resets, every=2.0, sends_mail=True, where="directory"),
    Duty("secret reminders", _remind, every=600.0),
    Duty(ORDER_HOLDS, _expire_orders, every=1.0),
    Duty("app subscriptions", _apply_app_subscriptions, every=1.0, where="directory"),
    Duty(COLLECTIONS, _apply_collections, every=1.0),
    Duty(PICTURES, _fetch_pictures),
    Duty(UNUSED_PICTURES, _remove_unused_pictures, every=3600.0),
    Duty(OF_ERASED_STORES, _remove_pictures_of_erased_stores, every=3600.0, where="directory"),
    Duty("directory messages", _collect, every=1.0, where="shard"),
    Duty("shard messages", _receive, every=1.0),
)


def duties_of(settings: Settings, duties: Sequence[Duty] = DUTIES, *, shard: bool = False) -> list[Duty]:
    """The duties that a process with these settings runs; without a mail server, mails and reset requests wait."""
    elsewhere = "directory" if shard else "shard"
    return [duty for duty in duties if (settings.smtp_url or not duty.sends_mail) and duty.where != elsewhere]


async def run_duties(work: Work, duties: Sequence[Duty] = DUTIES) -> None:
    """Run every duty until the stop: lasting ones finish what they have begun, then periodic ones are canceled."""
    mine = duties_of(work.settings, duties, shard=work.directory is not None)
    periodic = [repeat(duty.name, duty.every, partial(duty.run, work)) for duty in mine if duty.every is not None]
    async with beside(*periodic):
        await asyncio.gather(*(_last(duty, work) for duty in mine if duty.every is None), work.stop.wait())


async def _last(duty: Duty, work: Work) -> None:
    """Run a duty that lasts until the stop; start it again if it fails."""
    while not work.stop.is_set():
        try:
            await duty.run(work)
        except Exception as error:  # noqa: BLE001 - the next start may succeed
            log_failure(duty.name, error)
            with suppress(TimeoutError):
                await asyncio.wait_for(work.stop.wait(), RETRY_S)
        else:
            return
