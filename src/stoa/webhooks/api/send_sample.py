"""The endpoint that sends a signed sample event to a subscription."""

import asyncio
from datetime import UTC, datetime

import msgspec

from stoa.db.query import Query
from stoa.events.outbox import Actor, Event
from stoa.ids import new_id
from stoa.rest.call import Call
from stoa.rest.endpoint import One, Routes
from stoa.rest.limits import Grant
from stoa.rest.problems import Fault, InsufficientScope, RateLimited, ValidationFailed
from stoa.webhooks.api import rules
from stoa.webhooks.api.delivery_contract import NewTest, NotSent, TestResult, Timings
from stoa.webhooks.api.documents import Secrets
from stoa.webhooks.api.listings import NOT_SENT
from stoa.webhooks.api.queries import Row
from stoa.webhooks.api.samples import changes, document, parent_version, resource_id
from stoa.webhooks.api.subscriptions import event_store, found
from stoa.webhooks.delivery import matching
from stoa.webhooks.delivery.events import WebhookTest
from stoa.webhooks.delivery.queries import EventSelection
from stoa.webhooks.http import message
from stoa.webhooks.http.address_guard import Allowed
from stoa.webhooks.http.client import Sender, Target, send_once
from stoa.webhooks.http.message import HIDDEN

routes = Routes("Webhooks")

# Tests let callers send requests to others, so their rate is limited: a burst of ten, then one every two seconds.
TEST_BURST, TESTS_PER_S = 10, 0.5
TAKE = Query(Grant, "SELECT granted, remaining FROM take_tokens($1, $2, 'test_sends', $3, $4, $5)")
_TEST = NewTest(WebhookTest.name)


@routes.post(
    "/webhooks/{webhook_id}/test",
    scope="webhooks:write",
    example={"event": "product.created"},
    transaction=False,
)
async def send_webhook_test(call: Call, webhook_id: int, body: NewTest = _TEST) -> One[TestResult]:
    """Send a signed sample event now.

    The result contains the response of the receiver, the duration of each step, and the signed text, so that you can
    debug a signature that does not verify. The token needs the scope of the event.

    - A test has no sequence and no retries, and does not appear in the delivery log.
    - You can send ten tests at once, then one every two seconds.
    """
    name = body.event
    row = await found(call, webhook_id)
    known = Event.subscribable()
    faults: list[Fault] = []
    if name not in known:
        rules.check_events([name], known, faults)
        fault = faults[0] if faults else Fault("", "unknown_event", "must be one event, not a wildcard")
        raise ValidationFailed("The event is unknown.", faults=[msgspec.structs.replace(fault, pointer="/event")])
    if row.url is None:
        raise ValidationFailed(
            "This subscription has no URL to send to.",
            faults=[Fault("", "required", "requires a subscription with a url")],
        )
    if not matching.may_receive(name, [*rules.usable(call.caller, row.readable)]):
        scope = known[name].scope
        raise InsufficientScope(f"The token and the subscription need {scope} for {name}.", required_scope=scope)
    return await sent_test(call, row, row.url, name)


async def sent_test(call: Call, row: Row, url: str, name: str) -> One[TestResult]:
    """Send a sample to a subscription, or to the app's own endpoint."""
    await _check_rate(call)
    sent = message.Event(
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
        parent_version=parent_version(Event.known[name]),
        app_views=None,
    )
    content = message.body(sent, 0, event_store(call, row), payload=row.payload, fields=row.fields)
    secrets = Secrets(call)
    named = call.store_id if row.shared_secret else None
    target = Target(url, secrets.of(row), secrets.headers_of(row), store_id=named)
    # Loading the root certificates would block the event loop.
    async with await asyncio.to_thread(Sender, Allowed.parse(call.settings.webhook_allow)) as sender:
        response, signed = await send_once(sender, target, sent.id, content)
    timings = response.timings
    result = TestResult(
        succeeded=response.status is not None and 200 <= response.status < 300,
        event_id=sent.id,
        event_type=name,
        url=url,
        request_headers={**dict.fromkeys(row.header_names, HIDDEN), **response.signed_headers},
        request_body=content.decode(),
        signed_content=signed,
        response_status=response.status,
        response_headers=response.headers,
        response_body=response.body,
        error=response.error,
        timings=Timings(
            timings.dns_ms if timings else None,
            timings.connect_ms if timings else None,
            timings.tls_ms if timings else None,
            timings.first_byte_ms if timings else None,
            round(response.seconds * 1000, 2),
        ),
        not_sent=_not_sent(call, row, sent),
    )
    return One(msgspec.json.encode(result), row.version)


def _not_sent(call: Call, row: Row, sample: message.Event) -> NotSent | None:
    """Why the router would not send the sample. Its actor is the app itself, whose own changes a test never leaves out."""
    if sample.resource_type in ("app", "webhook") or row.of_app:
        return None
    granted = [*rules.usable(call.caller, row.readable)]
    selection = EventSelection(
        call.store_id,
        row.id,
        row.app_id,
        row.events,
        row.filter,
        row.changed,
        skip_own=False,
        ordered=False,
        granted_scopes=granted,
        of_app=row.of_app,
    )
    event = message.AddressedEvent(*msgspec.structs.astuple(sample), audience=None)
    reason = matching.why_not(selection, event, {}, matching.Views())
    return NotSent(reason, NOT_SENT[reason]) if reason else None


async def _check_rate(call: Call) -> None:
    taken = await TAKE.one(call.db, call.store_id, call.caller.app_id, 1.0, float(TEST_BURST), TESTS_PER_S)
    if taken.granted < 1:
        raise RateLimited(
            f"At most {TEST_BURST} tests at once, then one every {1 / TESTS_PER_S:.0f} seconds.",
            headers=[(b"retry-after", b"%d" % round(1 / TESTS_PER_S))],
        )
