"""Events about a subscription itself."""

import msgspec

from stoa.events.outbox import Event
from stoa.rest.checks import Time


class FailingWebhook(msgspec.Struct):
    """The data of a `webhook.*` event: the subscription, and the time since which its receiver has failed."""

    id: int
    name: str | None
    url: str | None
    status: str
    disabled_reason: str | None
    failing_since: Time | None


class WebhookTest(Event):
    """A subscription was tested; this event is a sample."""

    name, scope, resource_type = "webhook.test", "webhooks:read", "webhook"
    resource = FailingWebhook


class WebhookFailing(Event):
    """Deliveries to a subscription started to fail; Stoa retries them."""

    name, scope, resource_type = "webhook.failing", "webhooks:read", "webhook"
    resource = FailingWebhook


class WebhookDisabled(Event):
    """A subscription was disabled: its receiver responded with 410, or no delivery succeeded for 72 hours."""

    name, scope, resource_type = "webhook.disabled", "webhooks:read", "webhook"
    resource = FailingWebhook
