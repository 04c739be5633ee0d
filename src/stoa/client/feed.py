"""Following a subscription's events as they come: an outgoing connection instead of an address of your own."""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

from stoa.client.answers import Model
from stoa.client.connection import AsyncResource, Resource
from stoa.client.webhooks import Event, EventResource

_PAGE = 100


class _Fed(Model):
    """A delivery of the feed, with what it carries; an event that is no longer kept has no payload."""

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


def _query(after: int, wait_s: int) -> dict[str, Any]:
    return {"after": after, "wait": wait_s or None, "limit": _PAGE, "include": "payload"}


class Feed(Resource):
    """The deliveries of subscriptions."""

    def feed(self, webhook_id: int, /, *, after: int = 0, wait_s: int = 20) -> Iterator[Event]:
        """The events of a subscription in their order, those to come as well; it has no end.

        Remember `event.sequence` once an event is dealt with, and go on after it next time. With `wait_s=0` it ends
        where there is nothing more just now.
        """
        path = f"/webhooks/{webhook_id}/deliveries"
        while True:
            page = self._connection.pages(_Fed, path, _query(after, wait_s)).page()
            for fed in page:
                yield fed.event()
                after = fed.sequence
            if not page.data and not wait_s:
                return


class AsyncFeed(AsyncResource):
    """The same for an event loop."""

    async def feed(self, webhook_id: int, /, *, after: int = 0, wait_s: int = 20) -> AsyncIterator[Event]:
        path = f"/webhooks/{webhook_id}/deliveries"
        while True:
            page = await self._connection.pages(_Fed, path, _query(after, wait_s)).page()
            for fed in page:
                yield fed.event()
                after = fed.sequence
            if not page.data and not wait_s:
                return
