"""Reminds developers of secrets that they have replaced and that stop working soon."""

from datetime import datetime
from itertools import chain

import msgspec

from stoa.db.pool import Database
from stoa.db.query import Query
from stoa.db.service_facts import own_shard
from stoa.notifications.news import secret_expires
from stoa.notifications.notify import notify
from stoa.notifications.people import people_of

NOTICE_HOURS = 6
_ALL_APPS = "reminders cover all apps"


class ExpiringSecret(msgspec.Struct):
    """A secret that was rotated out; `handle` and `webhook_id` are set if it signs the events of one subscription."""

    kind: str
    app_id: int
    app: str
    handle: str
    webhook_id: int
    expires_at: datetime


TRY_LOCK = Query(bool, "SELECT pg_try_advisory_xact_lock(7306220)", unbound=_ALL_APPS)
EXPIRING = Query(
    ExpiringSecret,
    """SELECT 'client secret' AS kind, s.app_id, a.name AS app, '' AS handle, 0::bigint AS webhook_id, s.expires_at
         FROM app_secrets s JOIN apps a ON a.id = s.app_id
        WHERE s.expires_at > now() AND s.expires_at < now() + make_interval(hours => $1) AND a.status <> 'deleted'
        UNION ALL
       SELECT 'signing secret', c.app_id, a.name, '', 0, c.old_secret_expires_at
         FROM app_callbacks c JOIN apps a ON a.id = c.app_id
        WHERE c.old_secret_expires_at > now() AND c.old_secret_expires_at < now() + make_interval(hours => $1)
        ORDER BY 6 LIMIT 1000""",
    unbound=_ALL_APPS,
)
EXPIRING_OF_SUBSCRIPTIONS = Query(
    ExpiringSecret,
    """SELECT 'signing secret' AS kind, w.app_id, a.name AS app, s.handle, w.id AS webhook_id,
              w.old_secret_expires_at AS expires_at
         FROM webhooks w JOIN apps a ON a.id = w.app_id JOIN stores s ON s.id = w.store_id
        WHERE w.old_secret_expires_at > now() AND w.old_secret_expires_at < now() + make_interval(hours => $1)
          AND NOT w.of_app AND w.ended_at IS NULL
        ORDER BY w.old_secret_expires_at LIMIT 1000""",
    unbound=_ALL_APPS,
    over="shard",
)


async def remind_of_expiring_secrets(database: Database) -> None:
    """Notify the developers of each secret that expires soon, once; one worker at a time does so."""
    async with database.transaction() as db:
        if not await TRY_LOCK.one(db):
            return
        # The secrets of apps are in the directory; each shard reminds of those of its subscriptions.
        queries = (EXPIRING_OF_SUBSCRIPTIONS,) if await own_shard(db) else (EXPIRING, EXPIRING_OF_SUBSCRIPTIONS)
        found = [await query.all(db, NOTICE_HOURS) for query in queries]
        for secret in chain.from_iterable(found):
            path, subject = _place(secret)
            news = secret_expires(secret.app_id, secret.app, secret.kind, subject, secret.expires_at, path)
            await notify(db, await people_of(db, app_id=secret.app_id), news)


def _place(secret: ExpiringSecret) -> tuple[str, str]:
    """The page of the secret, and its name among all secrets."""
    app = f"/portal/apps/{secret.app_id}"
    if secret.webhook_id:
        return f"{app}/webhooks/{secret.handle}/{secret.webhook_id}", f"webhook:{secret.webhook_id}"
    if secret.kind == "signing secret":
        return f"{app}/endpoint", f"endpoint:{secret.app_id}"
    return f"{app}/credentials", f"client:{secret.app_id}"
