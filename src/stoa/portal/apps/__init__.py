"""Pages for developers: their apps, credentials, webhooks, requests and usage."""

from stoa.portal.apps import (
    access_tokens,
    app_file,
    app_subscriptions,
    apps,
    audit,
    credentials,
    deliveries,
    deploy_tokens,
    endpoint,
    metadata,
    receivers,
    requests,
    subscription_detail,
    subscriptions,
    tail,
    usage,
)

PAGES = (
    apps.pages,
    credentials.pages,
    access_tokens.pages,
    deploy_tokens.pages,
    app_file.pages,
    endpoint.pages,
    metadata.pages,
    app_subscriptions.pages,
    usage.pages,
    requests.pages,
    subscriptions.pages,
    subscription_detail.pages,
    deliveries.pages,
    receivers.pages,
    tail.pages,
    audit.pages,
)
