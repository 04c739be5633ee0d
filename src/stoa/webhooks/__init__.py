"""Webhooks: subscriptions to the events of a store, and their delivery."""
