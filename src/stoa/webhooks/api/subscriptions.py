"""Finds, locks and returns a subscription of the calling app, and writes the audit log."""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from stoa.access import audit
from stoa.access.addresses import base_url
from stoa.rest.call import Call
from stoa.rest.endpoint import One
from stoa.rest.problems import NotFound
from stoa.settings import service_url
from stoa.webhooks.api import queries
from stoa.webhooks.api.contract import ManagedSubscription, Webhook
from stoa.webhooks.api.documents import shown
from stoa.webhooks.api.queries import Row
from stoa.webhooks.http.message import EventStore


async def found(call: Call, webhook_id: int) -> Row:
    """A subscription of this app on this store; those of other apps are not found."""
    row = await queries.GET.maybe(call.db, call.store_id, call.caller.app_id, webhook_id)
    if row is None:
        raise NotFound("No subscription has this id.")
    return row


async def locked(call: Call, webhook_id: int) -> Row:
    await queries.LOCK.maybe(call.db, call.store_id, call.caller.app_id, webhook_id)
    return await found(call, webhook_id)


async def locked_to_change(call: Call, webhook_id: int) -> Row:
    """A subscription of this store alone; one that the app declares for all stores is refused."""
    row = await locked(call, webhook_id)
    if row.managed:
        raise ManagedSubscription("Your app declares this subscription for all stores. Change it there.")
    return row


def webhook_response(row: Row) -> One[Webhook]:
    return One(msgspec.json.encode(shown(row)), row.version)


async def record(call: Call, action: str, webhook_id: int, **detail: Any) -> None:
    """Write the audit log of the store. Call it last, because it locks the log until the commit."""
    await audit.record(
        call.db,
        call.store_id,
        action,
        actor=call.actor,
        subject=f"webhook:{webhook_id}",
        detail=detail,
        request_id=call.request_id,
    )


def event_store(call: Call, row: Row) -> EventStore:
    """The store as the events of a subscription show it."""
    store = call.store
    details = (store.name, store.currency, store.timezone, store.locale) if row.of_app else ()
    return EventStore(store.id, store.handle, base_url(service_url(call.settings), store.handle), *details)


def host_of(url: str | None) -> str | None:
    """The host of a URL, for logs: paths and queries can contain secrets."""
    return urlsplit(url).hostname if url else None
