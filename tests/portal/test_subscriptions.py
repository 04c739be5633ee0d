"""Webhooks from the portal: subscribed, tried, looked up and sent again, and never more than the app itself may hear."""

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from stoa.access import audit
from stoa.access.grants import install, uninstall
from stoa.access.operator import Operator
from stoa.access.stores import suspend_store
from stoa.accounts.ownership import give, open_store, register_app
from stoa.accounts.sessions import sign_out
from stoa.app import Application
from stoa.db.pool import Database
from stoa.events.outbox import Event
from stoa.portal.deliveries import fitting
from stoa.portal.subscriptions import choices
from stoa.settings import Settings
from stoa.telemetry import SECONDS
from stoa.webhooks.api.feed import watch_of
from tests.portal.hooks import CANARY, ended, happened, subscribed
from tests.portal.people import Somebody, as_operator, somebody
from tests.support.receivers import Receiver, answering
from tests.webhooks.workers import with_loopback

REASONS = {"products:read": "To list them.", "webhooks:write": "To hear of changes."}
_numbers = itertools.count(1)


@dataclass
class Place:
    """An app of somebody's and a store that has it."""

    person: Somebody
    db: Database
    app_id: int
    client_id: str
    handle: str
    store_id: int

    @property
    def path(self) -> str:
        return f"/portal/apps/{self.app_id}"

    @property
    def by(self) -> Operator:
        return as_operator(self.db, self.person.application.settings)

    def hook(self, webhook_id: int, rest: str = "") -> str:
        return f"{self.path}/webhooks/{self.handle}/{webhook_id}{rest}"

    async def delivered(self, *names: str) -> int:
        """A subscription to which these products were told."""
        webhook_id = await subscribed(self.by, self.store_id, self.app_id)
        await happened(self.by, self.store_id, *names)
        return webhook_id

    async def grant(self, *scopes: str) -> None:
        await install(self.by, self.client_id, self.handle, list(scopes))


async def furnished(person: Somebody, db: Database, reasons: dict[str, str] = REASONS) -> Place:
    by = as_operator(db, person.application.settings)
    number, me = next(_numbers), person.account.id
    store = await open_store(by, me, f"hooks-{me}-{number}", f"Hooks {number}", "EUR")
    made = await register_app(by, me, "Hooker", "", reasons, f"{me}:{number}")
    await install(by, made.client_id, store.handle)
    return Place(person, db, made.app_id, made.client_id, store.handle, store.id)


@pytest.fixture
async def near(settings: Settings, db: Database) -> AsyncIterator[Somebody]:
    """Somebody at a service that may send to this machine."""
    application = Application(with_loopback(settings))
    person = await somebody(application, db)
    yield person
    await person.client.aclose()
    await application.close()


@pytest.fixture
async def place(maria: Somebody, db: Database) -> Place:
    return await furnished(maria, db)


async def subscribe(at: Place, **fields: Any) -> int:
    """Fill in the form as a browser would; answers the subscription's number."""
    await at.person.open(f"{at.path}/new-webhook")
    given = {"store": at.handle, "url": "https://hooks.example.com/stoa", "events": ["product.created"], **fields}
    await at.person.send(f"{at.path}/new-webhook", given)
    assert at.person.seen.status_code == 200, at.person.faults
    found = re.search(rf"/webhooks/{at.handle}/(\d+)", at.person.text)
    assert found
    return int(found[1])


def secret_in(text: str) -> str:
    found = re.search(r"whsec_[A-Za-z0-9+/=]+", text)
    assert found
    return found[0]


# --- subscribing ----------------------------------------------------------------------------------------------------


async def test_a_newcomer_subscribes_sends_a_test_and_it_verifies(near: Somebody, db: Database) -> None:
    at = await furnished(near, db)
    await near.open(f"{at.path}/webhooks")
    assert "Nothing is listened to yet" in near.text
    async with Receiver() as receiver:
        number = await subscribe(at, url=receiver.url, name="First", events=["product.*"])
        secret = secret_in(near.text)
        assert "receiver.py" in near.text
        await near.send(at.hook(number, "/test"))
        assert "It arrived" in near.text
        assert "The receiver answered 200" in near.text
        assert "thanks" in near.text
        assert "In all" in near.text
        [received] = receiver.received
        assert received.verify(secret)["type"] == "webhook.test"
        assert near.text.count(secret) == 0
    await near.open(f"{at.path}/webhooks")
    assert "First" in near.text
    assert "Healthy" in near.text


async def test_a_receiver_that_refuses_or_is_away_is_told_as_it_is(near: Somebody, db: Database) -> None:
    at = await furnished(near, db)
    async with Receiver(answering(503)) as receiver:
        number = await subscribe(at, url=receiver.url)
        await near.send(at.hook(number, "/test"), event="product.created")
        assert "It did not arrive" in near.text
        assert "The receiver answered 503" in near.text
        assert receiver.events[0]["type"] == "product.created"
    await near.send(at.hook(number, "/test"))
    assert "No answer: connection refused" in near.text


async def test_the_secret_is_shown_once_and_never_packed(place: Place) -> None:
    person = place.person
    await person.open(f"{place.path}/new-webhook")
    data = {
        "_token": person.visitor.token,
        "store": place.handle,
        "events": "product.created",
        "url": "https://h.example.com/",
    }
    headers = {"origin": "http://testserver", "sec-fetch-site": "same-origin", "accept-encoding": "gzip"}
    answer = await person.client.post(f"{place.path}/new-webhook", data=data, headers=headers)
    assert "whsec_" in answer.text
    assert "content-encoding" not in answer.headers
    again = await person.client.post(f"{place.path}/new-webhook", data=data, headers=headers)
    assert again.status_code == 422
    assert "already sends these events" in again.text
    assert "whsec_" not in again.text
    await person.open(f"{place.path}/webhooks")
    assert "whsec_" not in person.text


async def test_the_store_can_read_who_subscribed(place: Place) -> None:
    number = await subscribe(place)
    entries = await audit.newest(place.db, place.store_id, 5)
    entry = next(each for each in entries if each.action == "webhook.created")
    assert entry.actor == f"account:{place.person.account.id}"
    assert entry.subject == f"webhook:{number}"


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"events": []}, "events", "at least one"),
        ({"events": ["product.nothing"]}, "events", "among these"),
        ({"events": ["x" * 900]}, "events", "among these"),
        ({"url": "ftp://example.com"}, "url", "https://"),
        ({"url": "https://a b"}, "url", "without spaces"),
        ({"url": "http://localhost:1/"}, "url", "stoa listen"),
        ({"url": "https://10.0.0.7/"}, "url", "stoa listen"),
        ({"url": "https://" + "a" * 3000}, "url", "2048"),
        ({"name": "n" * 101}, "name", "100"),
        ({"events": ["order.created"]}, "", "orders:read"),
        ({"events": ["product.created"], "url": "http://["}, "url", "."),
    ],
)
async def test_what_cannot_be_is_said_beside_its_field(
    place: Place, fields: dict[str, Any], field: str, words: str
) -> None:
    await place.person.open(f"{place.path}/new-webhook")
    given = {"store": place.handle, "url": "https://hooks.example.com/", "events": ["product.created"], **fields}
    await place.person.send(f"{place.path}/new-webhook", given)
    assert place.person.seen.status_code == 422
    assert words in place.person.faults[field]


async def test_a_wildcard_takes_the_place_of_what_it_means(place: Place) -> None:
    number = await subscribe(place, events=["product.created", "product.*", "app.installed"], url="")
    [[events]] = await place.db.fetch("SELECT events FROM webhooks WHERE id = $1", number)
    assert events == ["product.*", "app.installed"]
    assert "stoa listen" in place.person.text


async def test_without_the_scope_nothing_can_be_subscribed(maria: Somebody, db: Database) -> None:
    at = await furnished(maria, db, {"products:read": "To list them."})
    await maria.open(f"{at.path}/webhooks")
    assert "No store lets it subscribe" in maria.text
    await maria.open(f"{at.path}/new-webhook")
    given = {"store": at.handle, "url": "https://hooks.example.com/", "events": ["product.created"]}
    await maria.send(f"{at.path}/new-webhook", given)
    assert maria.seen.status_code == 422
    assert await db.fetch("SELECT id FROM webhooks WHERE app_id = $1", at.app_id) == []


async def test_a_store_that_does_not_have_the_app_is_no_store(place: Place, maria: Somebody) -> None:
    other = await open_store(place.by, maria.account.id, f"without-{maria.account.id}", "Without", "EUR")
    for handle in (other.handle, "nowhere", "../x", ""):
        await maria.open(f"{place.path}/new-webhook")
        given = {"store": handle, "url": "https://hooks.example.com/", "events": ["product.created"]}
        await maria.send(f"{place.path}/new-webhook", given)
        assert maria.seen.status_code == 404


def test_every_event_can_be_ticked_but_the_test() -> None:
    assert {each.name for _, _, group in choices() for each in group} == set(Event.known) - {"webhook.test"}


# --- one subscription -----------------------------------------------------------------------------------------------


async def test_a_subscription_is_paused_resumed_changed_and_ended(place: Place) -> None:
    person = place.person
    number = await subscribe(place)
    await person.open(place.hook(number))
    await person.send(place.hook(number, "/pause"))
    assert "Paused" in person.text
    await person.send(place.hook(number, "/resume"), what="now")
    assert person.notice == "Active again."
    await person.open(place.hook(number, "/settings"))
    await person.send(place.hook(number, "/settings"), url="https://two.example.com/", name="Two", events=["app.*"])
    assert person.notice == "Saved."
    assert "https://two.example.com/" in person.text
    await person.open(place.hook(number, "/settings"))
    await person.send(place.hook(number, "/settings"), url="http://127.0.0.1/", events=["app.*"])
    assert "stoa listen" in person.faults["url"]
    await person.open(place.hook(number))
    await person.send(place.hook(number, "/delete"))
    assert person.faults["sure"]
    await person.send(place.hook(number, "/delete"), sure="on")
    assert person.notice == "The subscription is deleted."
    await person.open(place.hook(number))
    assert person.seen.status_code == 404


async def test_a_new_secret_signs_beside_the_old_one_for_as_long_as_chosen(near: Somebody, db: Database) -> None:
    at = await furnished(near, db)
    async with Receiver() as receiver:
        number = await subscribe(at, url=receiver.url)
        old = secret_in(near.text)
        await near.open(at.hook(number))
        await near.send(at.hook(number, "/secret"), grace_hours="24")
        new = secret_in(near.text)
        assert new != old
        await near.send(at.hook(number, "/test"))
        [received] = receiver.received
        assert received.verify(old)
        assert received.verify(new)
        assert "Two secrets sign" in near.text
        await near.send(at.hook(number, "/secret"), grace_hours="0")
        assert secret_in(near.text) not in (old, new)
        await near.send(at.hook(number, "/secret"), grace_hours="169")
        assert near.seen.status_code == 422


async def test_another_apps_subscription_is_unknown_here(place: Place, maria: Somebody, db: Database) -> None:
    other = await furnished(maria, db)
    theirs = await subscribed(other.by, other.store_id, other.app_id)
    beside = await subscribed(other.by, place.store_id, other.app_id)
    for number in (theirs, beside, 2**60):
        for rest in ("", "/settings", "/deliveries", "/deliveries/1"):
            await maria.open(place.hook(number, rest))
            assert maria.seen.status_code == 404, rest
        await maria.open(f"{place.path}/webhooks")
        for rest in ("/pause", "/secret", "/test", "/deliveries/1/again"):
            await maria.send(place.hook(number, rest), grace_hours="1")
            assert maria.seen.status_code == 404, rest
            await maria.open(f"{place.path}/new-webhook")


# --- deliveries -----------------------------------------------------------------------------------------------------


async def test_the_log_is_filtered_and_paged(place: Place) -> None:
    number = await place.delivered(*(f"Mug {n}" for n in range(30)))
    await ended(place.by, place.store_id, number, 1, "failed", response_status=500)
    person = place.person
    await person.open(place.hook(number, "/deliveries"))
    assert "30 in all" in person.text
    following = re.search(r'href="(\?cursor=[^"]+)">Older', person.text)
    assert following
    await person.open(place.hook(number, f"/deliveries{following[1]}"))
    assert len(re.findall(r"/deliveries/\d+\"", person.text)) == 5
    await person.open(place.hook(number, "/deliveries?status=failed"))
    assert "1 in all" in person.text
    await person.open(place.hook(number, "/deliveries?event=product.deleted"))
    assert "None of these" in person.text
    for hostile in ("status=nope", "cursor=x", "cursor=" + "a" * 9000, "event=%00", "status=<b>", "event_id=evt_nope"):
        await person.open(place.hook(number, f"/deliveries?{hostile}"))
        assert person.seen.status_code == 200, hostile


async def test_a_delivery_shows_its_payload_and_tries_as_text(place: Place) -> None:
    number = await place.delivered("<script>alert(1)</script>")
    said = "<img src=x onerror=alert(1)>" * 50
    await ended(place.by, place.store_id, number, 1, "failed", response_status=500, response_body=said)
    await place.person.open(place.hook(number, "/deliveries/1"))
    assert '"type": "product.created"' in place.person.text
    assert "<script>alert(1)</script>" in place.person.text
    assert "<script>alert(1)" not in place.person.seen.text
    assert "<img" not in place.person.seen.text
    await place.person.open(place.hook(number, "/deliveries/2"))
    assert place.person.seen.status_code == 404


async def test_what_the_app_may_no_longer_hear_is_not_shown(place: Place) -> None:
    number = await place.delivered()
    await place.person.open(place.hook(number, "/deliveries/1"))
    assert CANARY in place.person.text
    await place.grant("webhooks:write")
    await place.person.open(place.hook(number, "/deliveries/1"))
    assert place.person.seen.status_code == 200
    assert CANARY not in place.person.text
    assert "products:read" in place.person.text
    await place.person.send(place.hook(number, "/test"), event="product.created")
    assert "does not let this app" in place.person.faults["event"]
    await place.grant("products:read")
    for rest in ("", "/deliveries", "/deliveries/1"):
        await place.person.open(place.hook(number, rest))
        assert place.person.seen.status_code == 404
    await place.person.open(f"{place.path}/webhooks")
    assert place.handle not in place.person.text


@pytest.mark.parametrize("how", ["uninstalled", "suspended"])
async def test_a_store_that_has_the_app_no_longer_shows_nothing(place: Place, how: str) -> None:
    number = await place.delivered()
    if how == "uninstalled":
        await uninstall(place.by, place.client_id, place.handle)
    else:
        await suspend_store(place.by, place.handle)
    for path in (place.hook(number), place.hook(number, "/deliveries"), place.hook(number, "/deliveries/1")):
        await place.person.open(path)
        assert place.person.seen.status_code == 404
        assert CANARY not in place.person.text
    for path in ("/webhooks", "/tail"):
        await place.person.open(place.path + path)
        assert "product.created" not in place.person.text


async def test_somebody_who_may_only_look_sees_no_payload(place: Place, zeno: Somebody) -> None:
    number = await place.delivered()
    await give(place.by, zeno.email, app=str(place.app_id), role="viewer")
    await zeno.open(place.hook(number, "/deliveries/1"))
    assert zeno.seen.status_code == 200
    assert CANARY not in zeno.text
    assert "only the app's owners see it" in zeno.text


async def test_one_delivery_or_a_range_is_sent_again(place: Place) -> None:
    number = await place.delivered("Mug", "Cup", "Jug")
    for sequence in (1, 2):
        await ended(place.by, place.store_id, number, sequence, "failed", response_status=500)
    person = place.person
    await person.open(place.hook(number, "/deliveries/2"))
    await person.send(place.hook(number, "/deliveries/2/again"))
    assert "sent again" in person.notice
    await person.send(place.hook(number, "/redeliver"), since="2020-01-01T00:00", status="failed")
    assert person.notice == "2 deliveries are being sent again."
    await person.send(place.hook(number, "/redeliver"), since="2099-01-01T00:00")
    assert "Nothing" in person.notice
    asked = await place.db.fetch("SELECT sequences, status FROM redeliveries WHERE webhook_id = $1 ORDER BY id", number)
    assert [tuple(each) for each in asked][:2] == [([2], None), (None, "failed")]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "since"),
        ({"since": "yesterday"}, "since"),
        ({"since": "0001-01-01T00:00"}, "since"),
        ({"since": "2026-01-01T00:00", "until": "2025-01-01T00:00"}, "until"),
        ({"since": "2026-01-01T00:00", "status": "held"}, "status"),
    ],
)
async def test_a_range_that_is_none_is_refused(place: Place, fields: dict[str, str], field: str) -> None:
    number = await place.delivered()
    await place.person.open(place.hook(number, "/deliveries"))
    await place.person.send(place.hook(number, "/redeliver"), fields)
    assert place.person.seen.status_code == 422
    assert place.person.faults[field]


async def test_a_long_story_fits_on_the_page(place: Place) -> None:
    number = await place.delivered('"' * 90_000)
    attempt = {
        "at": "2026-03-14T09:26:53Z",
        "duration_ms": 1,
        "response_status": 500,
        "response_body": '"<' * 2000,
        "error": None,
    }
    attempts = msgspec.json.encode([attempt] * 20).decode()
    await place.db.execute(
        "UPDATE pending_deliveries SET attempts = $2, attempt_count = 20 WHERE webhook_id = $1", number, attempts
    )
    await place.person.open(place.hook(number, "/deliveries/1"))
    assert place.person.seen.status_code == 200
    assert len(place.person.seen.content) < 150_000
    assert "more of it than this page has room for" in place.person.text


def test_as_much_is_shown_as_fits_once_escaped() -> None:
    assert fitting("abc", 10) == ("abc", False)
    words, cut = fitting("<" * 1000, 100)
    assert cut
    assert 0 < len(words) * 4 <= 100
    assert fitting("abc", -5) == ("", True)


# --- the live tail --------------------------------------------------------------------------------------------------


class Listener:
    """A browser that keeps a stream open: what came is kept, and it may leave."""

    def __init__(self, person: Somebody, path: str) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.text = ""
        self._more, self._gone = asyncio.Event(), asyncio.Event()
        cookie = f"stoa_session={person.client.cookies['stoa_session']}".encode()
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"testserver"), (b"cookie", cookie), (b"accept", b"text/event-stream")],
            "client": ("127.0.0.1", 1),
            "server": ("testserver", 80),
        }
        self.task = asyncio.create_task(person.application(self._scope, self._receive, self._send))

    async def _receive(self) -> Any:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message["headers"])
        else:
            self.text += message.get("body", b"").decode()
        self._more.set()

    async def until(self, words: str) -> None:
        async with asyncio.timeout(20):
            while words not in self.text:
                self._more.clear()
                await self._more.wait()

    async def leave(self) -> None:
        self._gone.set()
        await self.task

    @property
    def told(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line[6:]) for line in self.text.splitlines() if line.startswith("data: {")]


async def test_the_tail_tells_of_what_happens_and_how_it_ends(place: Place) -> None:
    number = await place.delivered("Mug")
    listener = Listener(place.person, f"{place.path}/tail")
    await listener.until(f'"{number}-1"')
    assert listener.status == 200
    assert listener.headers[b"content-type"].startswith(b"text/event-stream")
    assert listener.headers[b"cache-control"] == b"no-store"
    await happened(place.by, place.store_id, "Cup")
    await listener.until(f'"{number}-2"')
    await ended(place.by, place.store_id, number, 2, "succeeded")
    await listener.until("succeeded")
    last = listener.told[-1]
    assert (last["id"], last["status"], last["response_status"]) == (f"{number}-2", "succeeded", 200)
    assert last["address"] == place.hook(number, "/deliveries/2")
    assert "Cup" not in listener.text
    await listener.leave()


def seconds_of_pages() -> float:
    return next(
        sample.value
        for metric in SECONDS.collect()
        for sample in metric.samples
        if sample.name == "stoa_request_seconds_sum" and sample.labels["operation"] == "page"
    )


async def test_how_long_somebody_watches_is_not_how_long_the_page_took(settings: Settings, db: Database) -> None:
    application = Application(msgspec.structs.replace(settings, metrics="127.0.0.1:1"))
    person = await somebody(application, db)
    at = await furnished(person, db)
    await at.delivered("Mug")
    await person.open(f"{at.path}/tail")
    before, started = seconds_of_pages(), time.perf_counter()
    listener = Listener(person, f"{at.path}/tail")
    await listener.until("product.created")
    watched = time.perf_counter()
    await listener.until(":\n\n")
    watched = time.perf_counter() - watched
    await listener.leave()
    assert seconds_of_pages() - before <= time.perf_counter() - started - watched
    await person.client.aclose()
    await application.close()


async def test_the_tail_ends_with_the_session(place: Place) -> None:
    await place.delivered("Mug")
    listener = Listener(place.person, f"{place.path}/tail")
    await listener.until("product.created")
    await sign_out(place.by, place.person.client.cookies["stoa_session"])
    await listener.until("event: over")
    await listener.task


async def test_the_tail_falls_silent_when_the_app_is_no_longer_let_in(place: Place) -> None:
    await place.delivered("Mug")
    listener = Listener(place.person, f"{place.path}/tail")
    await listener.until("product.created")
    before = len(listener.told)
    await place.grant("products:read")
    await happened(place.by, place.store_id, "Cup")
    quiet = listener.text.count(":\n\n")
    async with asyncio.timeout(20):
        while listener.text.count(":\n\n") < quiet + 2:
            await asyncio.sleep(0.05)
    assert len(listener.told) == before
    await listener.leave()


async def test_a_service_that_is_to_stop_does_not_wait_for_tails(settings: Settings, db: Database) -> None:
    application = Application(settings)
    person = await somebody(application, db)
    at = await furnished(person, db)
    await at.delivered("Mug")
    listener = Listener(person, f"{at.path}/tail")
    await listener.until("product.created")
    watch_of(application.database).stop()
    async with asyncio.timeout(10):
        await listener.task
    await person.client.aclose()
    await application.close()


async def test_a_person_may_keep_only_a_few_tails_open(place: Place) -> None:
    await place.delivered("Mug")
    listeners = [Listener(place.person, f"{place.path}/tail") for _ in range(4)]
    for listener in listeners:
        await listener.until("product.created")
    fifth = Listener(place.person, f"{place.path}/tail")
    await fifth.task
    assert fifth.status == 429
    for listener in listeners:
        await listener.leave()
    again = Listener(place.person, f"{place.path}/tail")
    await again.until("product.created")
    await again.leave()


async def test_another_persons_tail_is_not_to_be_had(place: Place, zeno: Somebody) -> None:
    listener = Listener(zeno, f"{place.path}/tail")
    await listener.task
    assert listener.status == 404


async def test_without_script_the_tail_is_a_list_with_a_way_to_refresh(place: Place) -> None:
    number = await place.delivered("Mug")
    await place.person.open(f"{place.path}/tail")
    assert f'id="t-{number}-1"' in place.person.text
    assert "<noscript>" in place.person.text
    assert "Refresh" in place.person.text


# --- several stores --------------------------------------------------------------------------------------------------


async def two_stores(at: Place) -> str:
    """A second store for the app, whose name comes first and which grants less."""
    store = await open_store(at.by, at.person.account.id, f"a-{at.handle}", "Second", "EUR")
    await install(at.by, at.client_id, store.handle, ["webhooks:write"])
    return store.handle


async def test_at_first_the_store_is_chosen_that_has_had_the_app_for_longest(place: Place) -> None:
    second = await two_stores(place)
    await place.person.open(f"{place.path}/new-webhook")
    assert f'<option value="{place.handle}" selected>' in place.person.text
    assert f'<option value="{second}">' in place.person.text
    await place.person.open(place.path)
    assert f"/stores/{place.handle}\n" in place.person.text


async def test_a_store_that_grants_less_says_so_and_stays_chosen(place: Place) -> None:
    second = await two_stores(place)
    await place.person.open(f"{place.path}/new-webhook")
    given = {"store": second, "url": "https://hooks.example.com/", "events": ["product.created"]}
    await place.person.send(f"{place.path}/new-webhook", given)
    assert place.person.seen.status_code == 422
    assert "products:read" in " ".join(place.person.faults.values())
    assert f'<option value="{second}" selected>' in place.person.text


async def test_the_receiver_on_the_page_listens_where_the_subscription_sends(near: Somebody, db: Database) -> None:
    at = await furnished(near, db)
    await subscribe(at, url="http://localhost:8790/hook")
    assert 'HTTPServer(("", 8790), Receiver)' in near.text
