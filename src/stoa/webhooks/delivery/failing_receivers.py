"""Webhook receivers that fail, with their host and their last error, for operators and for the developers of the app."""

from datetime import datetime
from urllib.parse import urlsplit

import msgspec

from stoa.db.query import Query

MAX_LISTED = 20


class FailingReceiver(msgspec.Struct):
    """A subscription with an open circuit breaker, or one that was disabled because it failed."""

    store: str
    app_id: int
    app_name: str
    webhook_id: int
    disabled: bool
    url: str | None
    waiting: int
    since: datetime | None
    next_at: datetime | None
    response_status: int | None
    error: str | None

    @property
    def host(self) -> str:
        """The receiver without path, query and user: these may contain a secret."""
        try:
            parts = urlsplit(self.url or "")
            return f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
        except ValueError:
            return ""

    @property
    def last_error(self) -> str:
        if self.response_status:
            return f"Status {self.response_status}"
        words = (self.error or "").replace("_", " ")
        return words[:1].upper() + words[1:]


# The last attempt of the oldest deliveries: retries begin there, and a lane can have very many.
_SELECT = """SELECT s.handle AS store, a.id AS app_id, a.name AS app_name, l.webhook_id,
                    w.status = 'disabled' AS disabled, w.url, l.waiting, l.failing_since AS since, l.hold_until AS next_at,
                    (t.attempt ->> 'response_status')::integer AS response_status, t.attempt ->> 'error' AS error
               FROM lanes l JOIN webhooks w ON w.store_id = l.store_id AND w.id = l.webhook_id
                    JOIN stores s ON s.id = l.store_id JOIN apps a ON a.id = w.app_id
                    LEFT JOIN LATERAL (
                         SELECT o.attempts::json -> -1 AS attempt FROM (
                                SELECT d.sequence, d.attempts FROM pending_deliveries d
                                 WHERE d.store_id = l.store_id AND d.webhook_id = l.webhook_id
                                 ORDER BY d.sequence LIMIT 100) o
                          WHERE o.attempts <> '[]' ORDER BY o.sequence LIMIT 1) t ON true"""
FAILING_RECEIVERS = Query(
    FailingReceiver,
    f"{_SELECT} WHERE l.breaker = 'open' ORDER BY l.failing_since LIMIT {MAX_LISTED}",
    unbound="the health of the service belongs to no store",
    over="shards",
)
FAILING_OF_APPS = Query(
    FailingReceiver,
    f"""{_SELECT} WHERE w.app_id = ANY ($1::bigint[]) AND w.ended_at IS NULL
                        AND (w.status = 'disabled' OR l.breaker = 'open')
        ORDER BY l.failing_since NULLS LAST LIMIT {MAX_LISTED}""",
    unbound="it finds the failing subscriptions of an account's apps, by the apps",
    over="shards",
)
