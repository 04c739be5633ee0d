"""Receivers that misbehave, each in its own way: what is tried again, what is left alone, and what never hurts others."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stoa.settings import Settings
from stoa.webhooks.http.address_guard import Allowed
from stoa.webhooks.http.client import Response, Sender, Target, send_once
from stoa.webhooks.http.signing import new_secret
from tests.support.receivers import Received, Receiver, answering
from tests.support.shops import Shop
from tests.webhooks.workers import QUICK, Subscribed, add_note, lane, log, quick_sender, subscribe, until, working

LOOPBACK = Allowed.parse("127.0.0.0/8 localhost")
CALM = msgspec.structs.replace(QUICK, breaker_failures=100, breaker_window_min=100)  # a breaker that never opens


async def ask(url: str) -> Response:
    async with Sender(LOOPBACK, request_timeout_s=0.5, connect_timeout_s=QUICK.connect_timeout) as sender:
        return await sender.send(Target(url, [new_secret()]), "evt_1", b"{}")


async def finished(shop: Shop, hook: Subscribed, status: str) -> None:
    async def look() -> bool:
        entries = await log(shop.db, hook.id)
        return bool(entries) and all(entry["status"] == status for entry in entries)

    await until(look, f"the delivery has {status}")


# --- one request ------------------------------------------------------------------------------------------------------


async def test_a_hanging_receiver_is_given_up_in_time() -> None:
    async def hang(_request: web.Request, _received: Received) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async with Receiver(hang) as receiver:
        answer = await ask(receiver.url)
    assert (answer.status, answer.error) == (None, "timeout")


async def test_a_slow_receiver_that_makes_it_in_time_has_succeeded() -> None:
    async def think(_request: web.Request, _received: Received) -> web.StreamResponse:
        await asyncio.sleep(0.2)
        return web.Response(status=204)

    async with Receiver(think) as receiver:
        answer = await ask(receiver.url)
    assert (answer.status, answer.error) == (204, None)


async def test_a_body_that_drips_for_ever_is_given_up_in_time() -> None:
    async def drip(request: web.Request, _received: Received) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b".")
            await asyncio.sleep(0.05)

    async with Receiver(drip) as receiver:
        answer = await ask(receiver.url)
    assert (answer.status, answer.error) == (None, "timeout")


async def test_of_an_endless_body_only_the_beginning_is_read() -> None:
    async def flood(request: web.Request, _received: Received) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
        except ConnectionError:
            return response

    async with Receiver(flood) as receiver:
        answer = await ask(receiver.url)
    assert (answer.status, answer.body) == (200, "x" * 4096)


async def test_a_packed_body_is_not_unpacked() -> None:
    bomb = b"\x1f\x8b" + b"\x00" * 100

    async def pack(_request: web.Request, _received: Received) -> web.StreamResponse:
        return web.Response(body=bomb, headers={"content-encoding": "gzip"})

    async with Receiver(pack) as receiver:
        answer = await ask(receiver.url)
    assert answer.status == 200
    assert "\x00" not in (answer.body or "")


async def test_a_redirect_is_a_failure_and_never_followed() -> None:
    async with Receiver() as elsewhere, Receiver(answering(307, location=elsewhere.url)) as receiver:
        answer = await ask(receiver.url)
        assert (answer.status, elsewhere.received) == (307, [])
    async with Receiver() as loop:
        loop.behave = answering(302, location=loop.url)
        assert (await ask(loop.url)).status == 302
        assert len(loop.received) == 1


async def test_a_connection_that_breaks_after_the_headers_is_a_failure() -> None:
    async def break_off(request: web.Request, _received: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with Receiver(break_off) as receiver:
        answer = await ask(receiver.url)
    assert (answer.status, answer.error) == (None, "connection_lost")


async def test_what_is_no_http_is_a_failure() -> None:
    async def babble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.com ESMTP\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        answer = await ask(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert answer.status is None
    assert answer.error in ("invalid_answer", "connection_lost")


async def test_a_name_that_nobody_knows_is_a_failure() -> None:
    assert (await ask("https://no-such-name.invalid/")).error == "dns_failed"


async def test_a_port_where_nobody_listens_is_a_failure() -> None:
    async with Receiver() as receiver:
        url = receiver.url
    assert (await ask(url)).error == "connection_refused"


def certificate(folder: Path, name: str, *, days: int = 1) -> ssl.SSLContext:
    """A server's TLS with a certificate that it signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=10))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    file = folder / f"{name}.pem"
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        + made.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@pytest.mark.parametrize(("name", "days"), [("localhost", 1), ("localhost", -1), ("other.example.com", 1)])
async def test_a_certificate_that_cannot_be_trusted_is_a_failure(tmp_path: Path, name: str, days: int) -> None:
    """Signed by nobody we know, out of date, or for another name."""
    async with Receiver(tls=certificate(tmp_path, name, days=days)) as receiver:
        answer = await ask(f"https://localhost:{receiver.port}/")
    assert (answer.error, receiver.received) == ("tls_failed", [])


async def test_a_certificate_that_can_be_trusted_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Receiver(tls=certificate(tmp_path, "localhost")) as receiver:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "localhost.pem"))
        answer = await ask(f"https://localhost:{receiver.port}/")
    assert (answer.status, answer.error) == (200, None)


async def test_a_trial_tells_all_of_the_answer_and_what_was_signed() -> None:
    async with Receiver(answering(418, x_kind="teapot")) as receiver, quick_sender(LOOPBACK) as sender:
        target = Target(receiver.url.replace("127.0.0.1", "localhost"), [new_secret()])
        answer, signed = await send_once(sender, target, "evt_1", b'{"a":1}')
    assert (answer.status, answer.headers["x-kind"]) == (418, "teapot")
    assert signed == f'evt_1.{answer.timestamp}.{{"a":1}}'
    assert answer.timings is not None
    assert answer.timings.connect_ms is not None
    assert 0 < answer.timings.connect_ms <= (answer.timings.first_byte_ms or 0) <= answer.timings.total_ms


async def test_a_kept_connection_that_the_receiver_closed_is_no_failure() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Promise to keep the connection, then break it as the next request comes."""
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        await reader.read(1)
        writer.transport.abort()

    server = await asyncio.start_server(once, "127.0.0.1", 0)
    target = Target(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", [new_secret()])
    async with server, quick_sender(LOOPBACK) as sender:
        statuses = [(await sender.send(target, "evt_1", b"{}")).status for _ in range(3)]
    assert statuses == [200, 200, 200]


# --- a subscription ---------------------------------------------------------------------------------------------------


async def test_a_failure_is_tried_again_with_the_same_id_until_it_succeeds(shop: Shop, settings: Settings) -> None:
    async with Receiver(answering(500)) as receiver, working(settings, CALM):
        hook = await subscribe(shop, receiver.url, "product.created")
        await add_note(shop)
        await receiver.until(2)
        receiver.behave = answering(200)
        await finished(shop, hook, "succeeded")
        assert len({(each.headers["webhook-id"], each.body) for each in receiver.received}) == 1
        for each in receiver.received:
            each.verify(hook.secret)
        [entry] = await log(shop.db, hook.id)
        assert entry["attempt_count"] == len(entry["attempts"]) == len(receiver.received)
        assert [attempt["response_status"] for attempt in entry["attempts"]][-1] == 200


async def test_what_fails_at_every_try_is_given_up_at_last(shop: Shop, settings: Settings) -> None:
    async with Receiver(answering(500)) as receiver, working(settings, CALM):
        hook = await subscribe(shop, receiver.url, "product.created")
        await add_note(shop)
        await finished(shop, hook, "failed")
        [entry] = await log(shop.db, hook.id)
        assert entry["attempt_count"] == len(receiver.received) == 1 + len(CALM.retries)
        assert (await lane(shop.db, hook.id))["waiting"] == 0


async def test_retry_after_puts_the_whole_lane_off_and_is_no_failure(shop: Shop, settings: Settings) -> None:
    async with Receiver(answering(429, retry_after="600")) as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created")
        await add_note(shop)
        await receiver.until(1)

        async def put_off() -> bool:
            return (await lane(shop.db, hook.id))["hold_until"] is not None

        await until(put_off, "the lane is put off")
        await add_note(shop)
        await until(lambda: _waiting(shop, hook, 2), "the second waits too")
        state = await lane(shop.db, hook.id)
        assert (state["breaker"], state["failures"]) == ("closed", 0)
        assert timedelta(minutes=9) < state["hold_until"] - datetime.now(UTC) < timedelta(minutes=11)
        assert len(receiver.received) == 1
        assert [entry["attempt_count"] for entry in await log(shop.db, hook.id)] == [0, 0]


async def _waiting(shop: Shop, hook: Subscribed, count: int) -> bool:
    state = await lane(shop.db, hook.id)
    return state["waiting"] == count and state["owner"] == ""


async def test_gone_disables_the_subscription_at_once_and_tells(shop: Shop, settings: Settings) -> None:
    async with Receiver(answering(410)) as receiver, Receiver() as other, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created")
        await subscribe(shop, other.url, "webhook.*")
        await add_note(shop)
        [told] = (await other.until(1))[:1]
        assert told.event["type"] == "webhook.disabled"
        assert told.event["resource"]["id"] == hook.id
        assert told.event["data"]["disabled_reason"] == "gone"
        [row] = await shop.db.fetch(
            "SELECT status, disabled_reason FROM webhooks WHERE store_id = $1 AND id = $2", shop.store_id, hook.id
        )
        assert tuple(row) == ("disabled", "gone")
        await add_note(shop)
        await until(lambda: _waiting(shop, hook, 2), "both are held")
        assert len(receiver.received) == 1
        audited = await shop.db.fetch(
            "SELECT subject FROM audit_entries WHERE store_id = $1 AND action = 'webhook.disabled'", shop.store_id
        )
        assert [entry[0] for entry in audited] == [f"webhook:{hook.id}"]


async def test_a_receiver_without_one_success_for_three_days_is_disabled(shop: Shop, settings: Settings) -> None:
    impatient = msgspec.structs.replace(CALM, retries=(0.05,) * 50, disable_after=0.3)
    async with Receiver(answering(500)) as receiver, working(settings, impatient):
        hook = await subscribe(shop, receiver.url, "product.created")
        await add_note(shop)

        async def disabled() -> bool:
            [row] = await shop.db.fetch("SELECT disabled_reason FROM webhooks WHERE id = $1", hook.id)
            return row[0] == "failing"

        await until(disabled, "the subscription is disabled")
        await until(lambda: _waiting(shop, hook, 1), "its delivery is held")


async def test_a_receiver_that_keeps_failing_is_left_alone_and_flooded_when_it_is_back(
    shop: Shop, settings: Settings
) -> None:
    slow_retries = msgspec.structs.replace(QUICK, retries=(600.0, 600.0), probes=(0.3, 0.3, 0.3))
    async with Receiver(answering(503)) as receiver, Receiver() as other, working(settings, slow_retries):
        hook = await subscribe(shop, receiver.url, "product.created")
        await subscribe(shop, other.url, "webhook.failing")
        for n in range(8):
            await add_note(shop, f"Mug {n}")

        async def opened() -> bool:
            return (await lane(shop.db, hook.id))["breaker"] == "open"

        await until(opened, "the breaker is open")
        assert [each.event["resource"]["id"] for each in await other.until(1)] == [hook.id]
        before = len(receiver.received)
        await receiver.until(before + 2)  # probes, one at a time
        counts = [entry["attempt_count"] for entry in await log(shop.db, hook.id)]
        assert sum(counts) <= before  # probes use up nobody's tries
        receiver.behave = answering(200)
        await finished(shop, hook, "succeeded")
        assert {each["sequence"] for each in receiver.events} == set(range(1, 9))
        state = await lane(shop.db, hook.id)
        assert (state["breaker"], state["failing_since"], state["failing_event_sent"]) == ("closed", None, False)
        assert len(other.received) == 1


async def test_a_dead_receiver_holds_nobody_else_up(shop: Shop, other_shop: Shop, settings: Settings) -> None:
    async def hang(_request: web.Request, _received: Received) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async with Receiver(hang) as dead, Receiver() as healthy, working(settings):
        await subscribe(shop, dead.url, "product.created")
        await subscribe(shop, healthy.url, "product.created")
        await subscribe(other_shop, healthy.url, "product.created")
        for n in range(5):
            await asyncio.gather(add_note(shop, f"Mug {n}"), add_note(other_shop, f"Mug {n}"))
        await healthy.until(10, seconds=1.4)  # less than one request to the dead one takes


async def test_a_new_url_serves_what_waits(shop: Shop, settings: Settings) -> None:
    async with Receiver(answering(500)) as broken, Receiver() as mended, working(settings):
        hook = await subscribe(shop, broken.url, "product.created")
        await add_note(shop)
        await broken.until(1)
        async with shop.db.transaction() as db:
            await db.execute("UPDATE webhooks SET url = $2 WHERE id = $1", hook.id, mended.url)
            await db.fetch("SELECT resume_lane($1, $2)", shop.store_id, hook.id)
        [got] = await mended.until(1)
        got.verify(hook.secret)
        await finished(shop, hook, "succeeded")


async def test_an_event_that_cannot_be_put_together_is_given_up_and_holds_nobody_up(
    shop: Shop, settings: Settings
) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "product.created", fields=["name"])
        await add_note(shop, "Broken")
        await shop.db.execute("UPDATE events SET data = 'no JSON' WHERE store_id = $1", shop.store_id)
        await add_note(shop, "Whole")
        async with working(settings, CALM):

            async def settled() -> bool:
                return [entry["status"] for entry in await log(shop.db, hook.id)] == ["failed", "succeeded"]

            await until(settled, "one is given up, the other arrived")
        [broken, _] = await log(shop.db, hook.id)
        assert {attempt["error"] for attempt in broken["attempts"]} == {"internal_error"}
        assert [event["data"] for event in receiver.events] == [{"name": "Whole"}]
