"""The public surface: every endpoint and every event, in documentation order."""

from stoa.access import contract as access
from stoa.events.outbox import Event
from stoa.imports.endpoints import routes as imports
from stoa.inventory.endpoints import routes as inventory
from stoa.products.endpoints import routes as products
from stoa.products.variants import routes as variants
from stoa.rest.endpoint import Endpoint

ENDPOINTS: list[Endpoint] = [
    *products.endpoints,
    *imports.endpoints,
    *variants.endpoints,
    *inventory.endpoints,
]
# Importing a slice declares its events.
_ = access
EVENTS: dict[str, type[Event]] = Event.known
