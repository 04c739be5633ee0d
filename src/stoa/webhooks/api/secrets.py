"""Rotation of the signing secret of a subscription."""

from datetime import timedelta

import msgspec

from stoa.rest.endpoint import Call, One, Routes
from stoa.webhooks.api import queries
from stoa.webhooks.api.contract import NewSecret, SecretRotationActive, Webhook
from stoa.webhooks.api.documents import Secrets, shown
from stoa.webhooks.api.subscriptions import found, locked, record
from stoa.webhooks.http.signing import new_secret

routes = Routes("Webhooks")
_ROTATION = NewSecret()


@routes.post(
    "/webhooks/{webhook_id}/rotate-secret",
    scope="webhooks:write",
    errors=[SecretRotationActive],
    example={"grace_hours": 24, "force": False},
    secret=True,
)
async def rotate_webhook_secret(call: Call, webhook_id: int, body: NewSecret = _ROTATION) -> One[Webhook]:
    """Make a new secret.

    Both secrets sign for `grace_hours`, so a receiver that knows either goes on verifying; with 0 the old one ends at
    once. The answer shows `secret` this once; with the same `Idempotency-Key` it is shown again.
    """
    row = await locked(call, webhook_id)
    if row.old_secret_expires_at is not None and not body.force:
        raise SecretRotationActive(
            "Two secrets sign already; wait for the older one's end, or force it.",
            secret_expires_at=row.old_secret_expires_at,
        )
    secret = new_secret()
    until = await queries.NOW.one(call.db) + timedelta(hours=body.grace_hours) if body.grace_hours else None
    sealed = Secrets(call).seal(webhook_id, secret)
    await queries.ROTATE.run(call.db, call.store_id, webhook_id, sealed, row.sealed_secret if until else None, until)
    if not row.held:
        # Whoever is sending now starts over with the new one, and a leaked secret signs nothing more.
        await queries.RESUME_LANE.one(call.db, call.store_id, webhook_id)
    await record(call, "webhook.secret_rotated", webhook_id, grace_hours=body.grace_hours)
    row = await found(call, webhook_id)
    return One(msgspec.json.encode(msgspec.structs.replace(shown(row), secret=secret)), row.version)
