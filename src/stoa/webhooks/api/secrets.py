"""Rotation of the signing secret of a subscription."""

from datetime import timedelta

import msgspec

from stoa.events.outbox import Event
from stoa.rest.call import Call
from stoa.rest.endpoint import One, Routes
from stoa.webhooks.api import queries, rules
from stoa.webhooks.api.contract import ManagedSubscription, NewSecret, SecretRotationActive, Webhook
from stoa.webhooks.api.documents import Secrets, shown
from stoa.webhooks.api.subscriptions import found, locked_to_change, record
from stoa.webhooks.http.message import new_secret

routes = Routes("Webhooks")
_ROTATION = NewSecret()


@routes.post(
    "/webhooks/{webhook_id}/rotate-secret",
    scope="webhooks:write",
    errors=[SecretRotationActive, ManagedSubscription],
    example={"grace_hours": 24, "force": False},
    secret=True,
)
async def rotate_webhook_secret(call: Call, webhook_id: int, body: NewSecret = _ROTATION) -> One[Webhook]:
    """Create a new signing secret.

    Both secrets sign for `grace_hours`, so a receiver can verify with either; with 0 the old secret stops immediately. The
    response contains `secret` only this once; repeating the call with the same `Idempotency-Key` returns it again. The
    token needs the scopes of the events, as for a new subscription.
    """
    row = await locked_to_change(call, webhook_id)
    rules.check_scopes(row.events, Event.subscribable(), call.caller)
    if row.old_secret_expires_at is not None and not body.force:
        raise SecretRotationActive(
            "Two secrets are already active. Wait until the older one expires, or send force: true.",
            secret_expires_at=row.old_secret_expires_at,
        )
    secret = new_secret()
    until = await queries.NOW.one(call.db) + timedelta(hours=body.grace_hours) if body.grace_hours else None
    encrypted = Secrets(call).encrypt(webhook_id, secret)
    old, readable = row.sealed_secret if until else None, rules.readable_by(call.caller)
    await queries.ROTATE.run(call.db, call.store_id, webhook_id, encrypted, old, until, readable)
    if not row.held:
        # End the current lease, so that a leaked secret stops signing immediately.
        await queries.RESUME_LANE.one(call.db, call.store_id, webhook_id)
    await record(call, "webhook.secret_rotated", webhook_id, grace_hours=body.grace_hours)
    row = await found(call, webhook_id)
    return One(msgspec.json.encode(msgspec.structs.replace(shown(row), secret=secret)), row.version)
