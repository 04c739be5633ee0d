"""The public surface: every endpoint and every event, in documentation order."""

from stoa.access import contract as access
from stoa.customers.endpoints import routes as customers
from stoa.events.outbox import Event
from stoa.imports.endpoints import customer_routes as customer_imports
from stoa.imports.endpoints import routes as imports
from stoa.inventory.endpoints import routes as inventory
from stoa.orders.comments import routes as order_comments
from stoa.orders.duplicates import routes as order_duplicates
from stoa.orders.endpoints import routes as orders
from stoa.orders.lines import routes as order_lines
from stoa.orders.status import routes as order_status
from stoa.products.endpoints import routes as products
from stoa.products.variants import routes as variants
from stoa.rest.endpoint import Endpoint
from stoa.store_data.customer_erasure import routes as erasure
from stoa.webhooks.api.delivery_log import routes as deliveries
from stoa.webhooks.api.endpoints import routes as webhooks
from stoa.webhooks.api.secrets import routes as webhook_secrets
from stoa.webhooks.api.send_sample import routes as webhook_tests

ENDPOINTS: list[Endpoint] = [
    *products.endpoints,
    *imports.endpoints,
    *variants.endpoints,
    *inventory.endpoints,
    *orders.endpoints,
    *order_status.endpoints,
    *order_lines.endpoints,
    *order_comments.endpoints,
    *order_duplicates.endpoints,
    *customers.endpoints,
    *erasure.endpoints,
    *customer_imports.endpoints,
    *webhooks.endpoints,
    *webhook_tests.endpoints,
    *webhook_secrets.endpoints,
    *deliveries.endpoints,
]
# Importing a slice declares its events; the access slice declares events without endpoints.
_ = access
EVENTS: dict[str, type[Event]] = Event.known
