"""Follows the events of a subscription by long polling, without a URL of your own."""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

from stoa_client.answers import Model
from stoa_client.connection import AsyncResource, Resource
from stoa_client.errors import UnexpectedAnswer
from stoa_client.requests import segment
from stoa_client.webhooks import Event, EventResource

_PAGE = 100


class _Delivery(Model):
    """A delivery in the feed; the payload is missing if its event has been deleted."""

    sequence: int
    event_id: str
    event_type: str
    created_at: datetime
    resource: EventResource
    payload: Event | None = None

    def event(self) -> Event:
        if self.payload is not None:
            return self.payload
        return Event(
            id=self.event_id,
            type=self.event_type,
            timestamp=self.created_at,
            resource=self.resource,
            sequence=self.sequence,
        )


def _next(after: int, delivery: _Delivery) -> int:
    """The sequence of a delivery; raises UnexpectedAnswer if it does not follow the last one, which would never end."""
    if delivery.sequence <= after:
        raise UnexpectedAnswer(f"the feed returned sequence {delivery.sequence} after {after}", 200)
    return delivery.sequence


def _query(after: int, wait_s: int) -> dict[str, Any]:
    return {"after": after, "wait": wait_s or None, "limit": _PAGE, "include": "payload"}


class Feed(Resource):
    """The deliveries of subscriptions."""

    def feed(self, webhook_id: int, /, *, after: int = 0, wait_s: int = 20) -> Iterator[Event]:
        """The events of a subscription in order, including future ones; the iterator does not end.

        Save `event.sequence` after you have handled an event, and pass it as `after` next time. With `wait_s=0` the
        iterator ends when there are no more events.
        """
        path = f"/webhooks/{segment(webhook_id)}/deliveries"
        while True:
            page = self._connection.pages(_Delivery, path, _query(after, wait_s)).page()
            for delivery in page:
                after = _next(after, delivery)
                yield delivery.event()
            if not page.data and not wait_s:
                return


class AsyncFeed(AsyncResource):
    """The deliveries of subscriptions, for an event loop."""

    async def feed(self, webhook_id: int, /, *, after: int = 0, wait_s: int = 20) -> AsyncIterator[Event]:
        path = f"/webhooks/{segment(webhook_id)}/deliveries"
        while True:
            page = await self._connection.pages(_Delivery, path, _query(after, wait_s)).page()
            for delivery in page:
                after = _next(after, delivery)
                yield delivery.event()
            if not page.data and not wait_s:
                return
