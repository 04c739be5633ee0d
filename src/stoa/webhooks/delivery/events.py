"""What a subscription's owner is told of the subscription itself."""

import msgspec

from stoa.events.outbox import Event
from stoa.rest.checks import Time


class WebhookStanding(msgspec.Struct):
    """What a `webhook.` event carries: the subscription, and since when its receiver fails."""

    id: int
    name: str | None
    url: str | None
    status: str
    disabled_reason: str | None
    failing_since: Time | None


class WebhookTest(Event):
    """A sample, sent when somebody asks to try a subscription."""

    name, scope, resource_type = "webhook.test", "webhooks:read", "webhook"
    resource = WebhookStanding


class WebhookFailing(Event):
    """Deliveries to a subscription have begun to fail; they are tried again."""

    name, scope, resource_type = "webhook.failing", "webhooks:read", "webhook"
    resource = WebhookStanding


class WebhookDisabled(Event):
    """A subscription was disabled after 72 hours without one success, or because its receiver is gone."""

    name, scope, resource_type = "webhook.disabled", "webhooks:read", "webhook"
    resource = WebhookStanding
