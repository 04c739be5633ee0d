"""Reports a failing receiver to its app and its developers, and disables the subscription if the receiver is gone or has failed too long."""

from datetime import datetime

import msgspec
import structlog

from stoa.access import audit
from stoa.db.errors import cause
from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.events.outbox import Actor, Event, emit
from stoa.ids import new_id
from stoa.notifications.news import webhook_disabled, webhook_failing
from stoa.notifications.notify import notify
from stoa.notifications.people import people_of
from stoa.notifications.queries import NAMES
from stoa.webhooks.delivery.events import FailingWebhook, WebhookDisabled, WebhookFailing
from stoa.webhooks.delivery.queries import DATABASE_ERRORS
from stoa.webhooks.delivery.retry_policy import HealthChange

_SYSTEM = "system"


class SubscriptionRow(msgspec.Struct):
    app_id: int
    name: str
    url: str | None
    status: str
    disabled_reason: str | None
    version: int


LOCK_ACTIVE = Query(
    SubscriptionRow,
    """SELECT app_id, name, url, status, disabled_reason, version FROM webhooks
        WHERE store_id = $1 AND id = $2 AND status = 'active' AND ended_at IS NULL FOR NO KEY UPDATE""",
)
DISABLE = Query(
    SubscriptionRow,
    """UPDATE webhooks SET status = 'disabled', disabled_reason = $3, updated_at = now(), version = version + 1
        WHERE store_id = $1 AND id = $2 AND status = 'active' AND ended_at IS NULL
       RETURNING app_id, name, url, status, disabled_reason, version""",
)


async def report_failing(
    database: Database, store_id: int, webhook_id: int, change: HealthChange, failing_since: datetime | None
) -> None:
    """Emit `webhook.failing`, or disable the subscription and emit `webhook.disabled`; a database error is logged."""
    try:
        await _report(database, store_id, webhook_id, change, failing_since)
    except DATABASE_ERRORS as error:
        structlog.get_logger().warning("reporting a failing webhook failed", store_id=store_id, **cause(error))


async def _report(
    database: Database, store_id: int, webhook_id: int, change: HealthChange, failing_since: datetime | None
) -> None:
    request_id = new_id("req")
    async with database.transaction(store_id) as db:
        kind: type[Event] = WebhookFailing
        changes = {"health": ("healthy", "failing")}
        if change.disable is None:
            row = await LOCK_ACTIVE.maybe(db, store_id, webhook_id)
        else:
            row = await DISABLE.maybe(db, store_id, webhook_id, change.disable)
            kind, changes = WebhookDisabled, {"status": ("active", "disabled")}
        if row is None:  # changed or ended meanwhile
            return
        await audit.record(
            db,
            store_id,
            kind.name,
            actor=_SYSTEM,
            subject=f"webhook:{webhook_id}",
            detail={"reason": change.disable or "failing"},
            request_id=request_id,
        )
        state = FailingWebhook(webhook_id, row.name or None, row.url, row.status, row.disabled_reason, failing_since)
        event = kind(webhook_id, row.version, msgspec.json.encode(state).decode(), changes)
        await emit(db, store_id, event, actor=Actor(_SYSTEM), request_id=request_id)
        named = await NAMES.one(db, store_id, row.app_id)
        about = (row.app_id, webhook_id, named)
        news = webhook_failing(*about) if change.disable is None else webhook_disabled(*about, change.disable)
        await notify(db, await people_of(db, app_id=row.app_id), news)
