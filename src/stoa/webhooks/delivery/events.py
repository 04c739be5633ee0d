"""Events about a subscription itself."""

import msgspec

from stoa.events.outbox import Event
from stoa.rest.checks import Time


class WebhookStanding(msgspec.Struct):
    """The data of a `webhook.*` event: the subscription, and since when its receiver fails."""

    id: int
    name: str | None
    url: str | None
    status: str
    disabled_reason: str | None
    failing_since: Time | None


class WebhookTest(Event):
    """A sample event, sent when a subscription is tested."""

    name, scope, resource_type = "webhook.test", "webhooks:read", "webhook"
    resource = WebhookStanding


class WebhookFailing(Event):
    """Deliveries to a subscription have started to fail. Stoa retries them."""

    name, scope, resource_type = "webhook.failing", "webhooks:read", "webhook"
    resource = WebhookStanding


class WebhookDisabled(Event):
    """A subscription was disabled: its receiver answered 410, or no delivery succeeded for 72 hours."""

    name, scope, resource_type = "webhook.disabled", "webhooks:read", "webhook"
    resource = WebhookStanding
