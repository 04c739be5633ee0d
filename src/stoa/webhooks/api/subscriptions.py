"""A subscription of the app that asks: found, locked, shown, and what is done to it noted in the audit log."""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from stoa.access import audit
from stoa.rest.endpoint import Call, One
from stoa.rest.problems import NotFound
from stoa.webhooks.api import queries
from stoa.webhooks.api.contract import Webhook
from stoa.webhooks.api.documents import shown
from stoa.webhooks.api.queries import Row


async def found(call: Call, webhook_id: int) -> Row:
    """A subscription of this app on this store; another's is as if it never was."""
    row = await queries.GET.maybe(call.db, call.store_id, call.caller.app_id, webhook_id)
    if row is None:
        raise NotFound("There is no subscription with this id.")
    return row


async def locked(call: Call, webhook_id: int) -> Row:
    await queries.LOCK.maybe(call.db, call.store_id, call.caller.app_id, webhook_id)
    return await found(call, webhook_id)


def answer(row: Row) -> One[Webhook]:
    return One(msgspec.json.encode(shown(row)), row.version)


async def record(call: Call, action: str, webhook_id: int, **detail: Any) -> None:
    """Note it in the store's audit log; last, because whoever records queues there."""
    await audit.record(
        call.db,
        call.store_id,
        action,
        actor=call.actor,
        subject=f"webhook:{webhook_id}",
        detail=detail,
        request_id=call.request_id,
    )


def host_of(url: str | None) -> str | None:
    """The part of an address that may stand in a log: paths and queries can hold keys."""
    return urlsplit(url).hostname if url else None
