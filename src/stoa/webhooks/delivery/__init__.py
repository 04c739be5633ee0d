"""The delivery worker: routes events to subscriptions, sends them with retries, and stores the outcomes."""
