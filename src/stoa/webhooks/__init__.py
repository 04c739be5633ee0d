"""Subscriptions to what happens in a store, and the deliveries that tell of it."""
