"""Telling the owner of a subscription that its receiver fails, and disabling one that is gone or failed too long."""

from datetime import datetime

import msgspec

from stoa.access import audit
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.events.outbox import Actor, Event, emit
from stoa.ids import new_id
from stoa.webhooks.delivery.events import WebhookDisabled, WebhookFailing, WebhookStanding
from stoa.webhooks.delivery.retry_policy import Outcome

_SYSTEM = "system"


class Disabled(msgspec.Struct):
    name: str
    url: str | None
    status: str
    disabled_reason: str | None
    version: int


LOOK = Query(
    Disabled,
    """SELECT name, url, status, disabled_reason, version FROM webhooks
        WHERE store_id = $1 AND id = $2 AND status = 'active' AND ended_at IS NULL FOR NO KEY UPDATE""",
)
DISABLE = Query(
    Disabled,
    """UPDATE webhooks SET status = 'disabled', disabled_reason = $3, updated_at = now(), version = version + 1
        WHERE store_id = $1 AND id = $2 AND status = 'active' AND ended_at IS NULL
       RETURNING name, url, status, disabled_reason, version""",
)


async def tell(
    database: Database, store_id: int, webhook_id: int, outcome: Outcome, failing_since: datetime | None
) -> None:
    """Write down and announce, in one transaction, that a receiver began to fail or is given up."""
    request_id = new_id("req")
    async with database.transaction() as db:
        kind: type[Event] = WebhookFailing
        changes = {"health": ("healthy", "failing")}
        if outcome.disable is None:
            row = await LOOK.maybe(db, store_id, webhook_id)
        else:
            row = await DISABLE.maybe(db, store_id, webhook_id, outcome.disable)
            kind, changes = WebhookDisabled, {"status": ("active", "disabled")}
        if row is None:  # somebody changed or ended it meanwhile
            return
        await audit.record(
            db,
            store_id,
            kind.name,
            actor=_SYSTEM,
            subject=f"webhook:{webhook_id}",
            detail={"reason": outcome.disable or "failing"},
            request_id=request_id,
        )
        standing = WebhookStanding(
            webhook_id, row.name or None, row.url, row.status, row.disabled_reason, failing_since
        )
        document = msgspec.json.encode(standing).decode()
        news = kind(webhook_id, row.version, document, changes)
        await emit(db, store_id, news, actor=Actor(_SYSTEM), request_id=request_id)
