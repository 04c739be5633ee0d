"""What happens when an app tries a subscription out, and when it asks for another secret."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec

from stoa.events.outbox import Actor, Event
from stoa.ids import new_id
from stoa.rest import limits
from stoa.rest.endpoint import Call, One, Routes
from stoa.rest.problems import Fault, RateLimited, ValidationFailed
from stoa.webhooks.api import queries, rules
from stoa.webhooks.api.contract import (
    HIDDEN,
    NewSecret,
    NewTest,
    SecretRotationActive,
    TestResult,
    Timings,
    Webhook,
)
from stoa.webhooks.api.documents import Secrets, shown
from stoa.webhooks.api.samples import changes, document, resource_id
from stoa.webhooks.api.subscriptions import found, locked, record
from stoa.webhooks.delivery import envelope
from stoa.webhooks.delivery.events import WebhookTest
from stoa.webhooks.delivery.retry_policy import Clock
from stoa.webhooks.http import address_guard
from stoa.webhooks.http.client import Sender, Target, send_once
from stoa.webhooks.http.signing import new_secret

routes = Routes("Webhooks")

# Whoever lets others send requests must not let them send many: so many tests at once, and then one in two seconds.
TESTS_AT_ONCE, TESTS_PER_S = 10, 0.5
_TEST, _ROTATION = NewTest(WebhookTest.name), NewSecret()


@routes.post(
    "/webhooks/{webhook_id}/test",
    scope="webhooks:write",
    example={"event": "product.created"},
    transaction=False,
)
async def send_webhook_test(call: Call, webhook_id: int, body: NewTest = _TEST) -> One[TestResult]:
    """Send a signed sample now.

    The answer tells what the receiver said, how long each part took, and the very text that was signed, so that a
    signature that does not verify can be compared. A test has no sequence and no retries, and is not in the log. Ten at
    once, and then one every two seconds.
    """
    name = body.event
    row = await found(call, webhook_id)
    faults: list[Fault] = []
    if name not in Event.known:
        rules.check_events([name], Event.known, faults)
        fault = faults[0] if faults else Fault("", "unknown_event", "name one event, not a wildcard")
        raise ValidationFailed("There is no such event.", faults=[msgspec.structs.replace(fault, pointer="/event")])
    if row.url is None:
        raise ValidationFailed(
            "This subscription is only pulled: it has no url to send to.",
            faults=[Fault("", "required", "needs a subscription with a url")],
        )
    await _take_turn(call)
    sent = envelope.Event(
        store_id=call.store_id,
        id=new_id("evt"),
        type=name,
        resource_type=Event.known[name].resource_type,
        resource_id=resource_id(Event.known[name]),
        resource_version=1,
        actor=msgspec.json.encode(Actor("app", call.caller.app_id)).decode(),
        changes=msgspec.json.encode(changes(Event.known[name])).decode(),
        data=msgspec.json.encode(document(Event.known[name])).decode(),
        created_at=datetime.now(UTC),
    )
    content = envelope.body(sent, 0, payload=row.payload, fields=row.fields)
    secrets = Secrets(call)
    target = Target(row.url, secrets.of(row), secrets.headers_of(row))
    # Reading every root certificate takes a moment, in which others are served.
    async with await asyncio.to_thread(
        Sender, address_guard.Allowed.parse(call.settings.webhook_allow), Clock()
    ) as sender:
        said, signed = await send_once(sender, target, sent.id, content)
    timings = said.timings
    result = TestResult(
        succeeded=said.status is not None and 200 <= said.status < 300,
        event_id=sent.id,
        event_type=name,
        url=row.url,
        request_headers={**dict.fromkeys(row.header_names, HIDDEN), **said.signed_headers},
        request_body=content.decode(),
        signed_content=signed,
        response_status=said.status,
        response_headers=said.headers,
        response_body=said.body,
        error=said.error,
        timings=Timings(
            timings.dns_ms if timings else None,
            timings.connect_ms if timings else None,
            timings.tls_ms if timings else None,
            timings.first_byte_ms if timings else None,
            round(said.seconds * 1000, 2),
        ),
    )
    return One(msgspec.json.encode(result), row.version)


async def _take_turn(call: Call) -> None:
    # A bucket beside the app's own, in the same table: no app has a negative number.
    turn = await limits.TAKE.one(call.db, call.store_id, -call.caller.app_id, 1.0, float(TESTS_AT_ONCE), TESTS_PER_S)
    if turn.granted < 1:
        raise RateLimited(
            f"{TESTS_AT_ONCE} tests at once, and then one every {1 / TESTS_PER_S:.0f} seconds.",
            headers=[(b"retry-after", b"%d" % round(1 / TESTS_PER_S))],
        )


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
        await queries.WAKE.one(call.db, call.store_id, webhook_id)
    await record(call, "webhook.secret_rotated", webhook_id, grace_hours=body.grace_hours)
    row = await found(call, webhook_id)
    return One(msgspec.json.encode(msgspec.structs.replace(shown(row), secret=secret)), row.version)
