"""Events about a subscription itself."""

from typing import Annotated

import msgspec
from msgspec import Meta

from stoa.events.outbox import Event
from stoa.rest.checks import Time


class FailingWebhook(msgspec.Struct):
    """The data of a `webhook.*` event: the subscription, and the time since which its receiver has failed."""

    id: Annotated[int, Meta(description="The id of the subscription.")]
    name: Annotated[str | None, Meta(description="The name of the subscription; null if none is set.")]
    url: Annotated[str | None, Meta(description="The address that receives the events; null if nothing is sent.")]
    status: Annotated[str, Meta(description="The status after the change: `active`, `paused` or `disabled`.")]
    disabled_reason: Annotated[
        str | None, Meta(description="Why Stoa disabled the subscription: `gone` or `failing`; null otherwise.")
    ]
    failing_since: Annotated[
        Time | None,
        Meta(description="The time of the first failure since the last success; null if the endpoint does not fail."),
    ]


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
