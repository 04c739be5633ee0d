"""What happens when an app tries a subscription out, and when it asks for another secret."""

import asyncio
from datetime import UTC, datetime

import msgspec

from stoa.events.outbox import Actor, Event
from stoa.ids import new_id
from stoa.rest import limits
from stoa.rest.endpoint import Call, One, Routes
from stoa.rest.problems import Fault, RateLimited, ValidationFailed
from stoa.webhooks.api import rules
from stoa.webhooks.api.contract import (
    HIDDEN,
    NewTest,
    TestResult,
    Timings,
)
from stoa.webhooks.api.documents import Secrets
from stoa.webhooks.api.samples import changes, document, resource_id
from stoa.webhooks.api.subscriptions import found
from stoa.webhooks.delivery import envelope
from stoa.webhooks.delivery.events import WebhookTest
from stoa.webhooks.http.address_guard import Allowed
from stoa.webhooks.http.client import Sender, Target, send_once

routes = Routes("Webhooks")

# Whoever lets others send requests must not let them send many: so many tests at once, and then one in two seconds.
TESTS_AT_ONCE, TESTS_PER_S = 10, 0.5
_TEST = NewTest(WebhookTest.name)


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
    async with await asyncio.to_thread(Sender, Allowed.parse(call.settings.webhook_allow)) as sender:
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
