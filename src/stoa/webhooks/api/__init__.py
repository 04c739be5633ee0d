"""The webhooks API: subscriptions, the delivery log, the event feed, test sends and event schemas."""
