"""The public surface: every endpoint and every event, in documentation order."""

from stoa.events.outbox import Event
from stoa.products.endpoints import routes as products
from stoa.rest.endpoint import Endpoint

ENDPOINTS: list[Endpoint] = [*products.endpoints]
EVENTS: dict[str, type[Event]] = Event.known
