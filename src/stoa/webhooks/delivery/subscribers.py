"""Who listens: what each subscription hears, where to send it, how fast, and with which secrets."""

from datetime import datetime

import msgspec
import structlog

from stoa.access.sealing import Sealer, Unsealable
from stoa.db.query import Query
from stoa.webhooks.http.client import Target


class Subscription(msgspec.Struct):
    """A subscription as far as it decides what it hears; `granted` is what the store grants its app now."""

    store_id: int
    id: int
    app_id: int
    events: list[str]
    filter: str
    skip_own: bool
    ordered: bool
    granted: list[str] | None


class Subscriber(Subscription):
    """A subscription as the dispatcher needs it: where to send, how fast, and whether it may hear at all."""

    url: str | None
    payload: str
    fields: list[str]
    sealed_headers: bytes | None
    sealed_secret: bytes
    sealed_old_secret: bytes | None
    status: str
    max_in_flight: int
    rate_per_s: int | None
    skip_before: datetime | None
    ended: bool
    suspended: bool

    @property
    def wakes(self) -> bool:
        """Whether its lane is to be looked at when something comes."""
        return self.status == "active" and self.url is not None


SUBSCRIBERS = Query(
    Subscriber,
    """SELECT s.* FROM unnest($1::text[]::bigint[], $2::text[]::bigint[]) AS lane (store_id, webhook_id)
              JOIN subscribers s ON s.store_id = lane.store_id AND s.id = lane.webhook_id""",
    unbound="workers deliver for all stores",
)


def target_of(subscriber: Subscriber, sealer: Sealer) -> Target | None:
    """Where to send, with the secrets in clear; None where there is no address."""
    if subscriber.url is None:
        return None
    place = (subscriber.store_id, subscriber.id)
    try:
        sealed = [subscriber.sealed_secret, subscriber.sealed_old_secret]
        opened = [sealer.open(each, "webhooks", "secret", *place) for each in sealed if each is not None]
        headers: dict[str, str] = {}
        if subscriber.sealed_headers is not None:
            text = sealer.open(subscriber.sealed_headers, "webhooks", "headers", *place)
            headers = msgspec.json.decode(text, type=dict[str, str])
    except Unsealable as error:
        structlog.get_logger().error("webhook", store_id=subscriber.store_id, error=type(error).__name__)
        return None
    return Target(subscriber.url, opened, headers)
