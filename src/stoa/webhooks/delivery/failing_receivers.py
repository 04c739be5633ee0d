"""Webhook receivers that fail, with their host and their last error, for operators and for the developers of the app."""

from datetime import datetime
from urllib.parse import urlsplit

import msgspec

from stoa.db.fan_out import FanOut, in_order
from stoa.db.query import Query

MAX_LISTED = 20
_ADVICE = {
    "timeout": "It takes too long. Answer with 2xx first, and do the work afterwards.",
    "dns_failed": "Its host name has no address. Check the host in the URL.",
    "connection_refused": "Nothing listens at its address. Check that it is running, and its port.",
    "tls_failed": "Its certificate is invalid, or it does not speak TLS. Check the certificate and its host name.",
    "address_refused": "Its address is private, and this service does not deliver there. Use a public address.",
    "connection_lost": "It closes the connection before it answers. Check its log, and a proxy before it.",
    "invalid_answer": "What it answers is not HTTP. Check the port in the URL.",
}


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

    @property
    def advice(self) -> str:
        """What the last error means, and what to do about it."""
        if not self.response_status:
            return _ADVICE.get((self.error or "").partition(":")[0], "The delivery log shows each attempt.")
        if 300 <= self.response_status < 400:
            return "It redirects, and Stoa follows no redirects. Enter the final URL."
        if self.response_status in (400, 403):
            return "It refuses the request. If it verifies signatures, check its secret, and that it uses the raw body."
        return f"It responds with {self.response_status}, and only 2xx counts as success. The delivery log shows its response."


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
FAILING_RECEIVERS = FanOut(
    FailingReceiver,
    f"""{_SELECT} WHERE l.breaker = 'open' AND l.store_id <> ALL ($1::bigint[])
        ORDER BY l.failing_since, s.handle, l.webhook_id LIMIT {MAX_LISTED}""",
    in_order("since", "store", "webhook_id", most=MAX_LISTED, unique=["store", "webhook_id"]),
    unbound="the health of the service belongs to no store",
)
_FAILS = "w.ended_at IS NULL AND (w.status = 'disabled' OR l.breaker = 'open')"
# One failing receiver of each app or store: an app can have one in each of very many stores.
_FIRST = """WITH firsts AS MATERIALIZED (
     SELECT DISTINCT ON ({0}) l.store_id, l.webhook_id
       FROM webhooks w JOIN lanes l ON l.store_id = w.store_id AND l.webhook_id = w.id
      WHERE {0} = ANY ($1::bigint[]) AND l.store_id <> ALL ($2::bigint[]) AND {1} ORDER BY {0}, l.failing_since NULLS LAST, l.webhook_id)
{2} JOIN firsts f ON f.store_id = l.store_id AND f.webhook_id = l.webhook_id ORDER BY l.failing_since NULLS LAST"""
FIRST_FAILING_OF_APPS = FanOut(
    FailingReceiver,
    _FIRST.format("w.app_id", _FAILS, _SELECT),
    in_order("since", unique=["app_id"]),
    unbound="it finds the failing subscriptions of an account's apps, by the apps",
)
FIRST_FAILING_OF_STORES = FanOut(
    FailingReceiver,
    _FIRST.format("w.store_id", _FAILS, _SELECT),
    in_order("since", unique=["store"]),
    unbound="it finds the failing subscriptions of an account's stores, by the stores",
)
_IN_STORE = _SELECT.replace("d.store_id = l.store_id", "d.store_id = $1")
FAILING_SUBSCRIPTION = Query(
    FailingReceiver,
    f"{_IN_STORE} WHERE l.store_id = $1 AND w.store_id = $1 AND s.id = $1 AND l.webhook_id = $2 AND {_FAILS}",
)
FAILING_OF_APPS = FanOut(
    FailingReceiver,
    f"""{_SELECT} WHERE w.app_id = ANY ($1::bigint[]) AND w.store_id <> ALL ($2::bigint[]) AND {_FAILS}
        ORDER BY l.failing_since NULLS LAST, s.handle, l.webhook_id LIMIT {MAX_LISTED}""",
    in_order("since", "store", "webhook_id", most=MAX_LISTED, unique=["store", "webhook_id"]),
    unbound="it finds the failing subscriptions of an account's apps, by the apps",
)
