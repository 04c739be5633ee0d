"""Misbehaving receivers: which failures are retried, when the breaker opens, and how others stay unaffected."""

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
from stoa.webhooks.http.message import new_secret
from tests.support.receivers import Received, Receiver, answering
from tests.support.shops import Shop
from tests.webhooks.workers import QUICK, Subscribed, create_product, lane, log, quick_sender, subscribe, until, working

LOOPBACK = Allowed.parse("127.0.0.0/8 localhost")
NO_BREAKER = msgspec.structs.replace(QUICK, breaker_failures=100, breaker_window_min=100)  # the breaker never opens


async def send(url: str) -> Response:
    async with Sender(LOOPBACK, request_timeout_s=0.5, connect_timeout_s=QUICK.connect_timeout) as sender:
        return await sender.send(Target(url, [new_secret()]), "evt_1", b"{}")


async def wait_for_status(shop: Shop, hook: Subscribed, status: str) -> None:
    async def all_settled() -> bool:
        entries = await log(shop.db, hook.id)
        return bool(entries) and all(entry["status"] == status for entry in entries)

    await until(all_settled, f"all deliveries are {status}")


# --- one request ------------------------------------------------------------------------------------------------------


async def test_a_request_to_a_hanging_receiver_times_out() -> None:
    async def hang(_request: web.Request, _received: Received) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async with Receiver(hang) as receiver:
        answer = await send(receiver.url)
    assert (answer.status, answer.error) == (None, "timeout")


async def test_a_slow_response_within_the_timeout_succeeds() -> None:
    async def respond_slowly(_request: web.Request, _received: Received) -> web.StreamResponse:
        await asyncio.sleep(0.2)
        return web.Response(status=204)

    async with Receiver(respond_slowly) as receiver:
        answer = await send(receiver.url)
    assert (answer.status, answer.error) == (204, None)


async def test_a_response_body_that_never_ends_times_out() -> None:
    async def drip(request: web.Request, _received: Received) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b".")
            await asyncio.sleep(0.05)

    async with Receiver(drip) as receiver:
        answer = await send(receiver.url)
    assert (answer.status, answer.error) == (None, "timeout")


async def test_only_the_beginning_of_an_endless_body_is_read() -> None:
    async def flood(request: web.Request, _received: Received) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
        except ConnectionError:
            return response

    async with Receiver(flood) as receiver:
        answer = await send(receiver.url)
    assert (answer.status, answer.body) == (200, "x" * 4096)


async def test_a_compressed_body_is_not_decompressed() -> None:
    bomb = b"\x1f\x8b" + b"\x00" * 100

    async def compress(_request: web.Request, _received: Received) -> web.StreamResponse:
        return web.Response(body=bomb, headers={"content-encoding": "gzip"})

    async with Receiver(compress) as receiver:
        answer = await send(receiver.url)
    assert answer.status == 200
    assert "\x00" not in (answer.body or "")


async def test_a_redirect_is_never_followed() -> None:
    async with Receiver() as redirect_target, Receiver(answering(307, location=redirect_target.url)) as receiver:
        answer = await send(receiver.url)
        assert (answer.status, redirect_target.received) == (307, [])
    async with Receiver() as loop:
        loop.behave = answering(302, location=loop.url)
        assert (await send(loop.url)).status == 302
        assert len(loop.received) == 1


async def test_a_connection_lost_after_the_headers_is_a_failure() -> None:
    async def abort(request: web.Request, _received: Received) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with Receiver(abort) as receiver:
        answer = await send(receiver.url)
    assert (answer.status, answer.error) == (None, "connection_lost")


async def test_a_response_that_is_not_http_is_a_failure() -> None:
    async def greet_as_smtp(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.com ESMTP\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet_as_smtp, "127.0.0.1", 0)
    async with server:
        answer = await send(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert answer.status is None
    assert answer.error in ("invalid_answer", "connection_lost")


async def test_an_unknown_host_name_is_a_failure() -> None:
    assert (await send("https://no-such-name.invalid/")).error == "dns_failed"


async def test_a_closed_port_is_a_failure() -> None:
    async with Receiver() as receiver:
        url = receiver.url
    assert (await send(url)).error == "connection_refused"


def certificate(folder: Path, name: str, *, days: int = 1) -> ssl.SSLContext:
    """A TLS server context with a self-signed certificate."""
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
async def test_an_untrusted_certificate_is_a_failure(tmp_path: Path, name: str, days: int) -> None:
    """The certificate is self-signed, expired, or for another name."""
    async with Receiver(tls=certificate(tmp_path, name, days=days)) as receiver:
        answer = await send(f"https://localhost:{receiver.port}/")
    assert (answer.error, receiver.received) == ("tls_failed", [])


async def test_a_trusted_certificate_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Receiver(tls=certificate(tmp_path, "localhost")) as receiver:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "localhost.pem"))
        answer = await send(f"https://localhost:{receiver.port}/")
    assert (answer.status, answer.error) == (200, None)


async def test_send_once_returns_the_whole_response_and_the_signed_content() -> None:
    async with Receiver(answering(418, x_kind="teapot")) as receiver, quick_sender(LOOPBACK) as sender:
        target = Target(receiver.url.replace("127.0.0.1", "localhost"), [new_secret()])
        answer, signed = await send_once(sender, target, "evt_1", b'{"a":1}')
    assert (answer.status, answer.headers["x-kind"]) == (418, "teapot")
    assert signed == f'evt_1.{answer.timestamp}.{{"a":1}}'
    assert answer.timings is not None
    assert answer.timings.connect_ms is not None
    assert 0 < answer.timings.connect_ms <= (answer.timings.first_byte_ms or 0) <= answer.timings.total_ms


async def test_a_request_on_a_closed_keep_alive_connection_is_sent_again() -> None:
    async def abort_second_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keep the connection open, then abort it when the next request arrives."""
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        await reader.read(1)
        writer.transport.abort()

    server = await asyncio.start_server(abort_second_request, "127.0.0.1", 0)
    target = Target(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", [new_secret()])
    async with server, quick_sender(LOOPBACK) as sender:
        statuses = [(await sender.send(target, "evt_1", b"{}")).status for _ in range(3)]
    assert statuses == [200, 200, 200]


# --- a subscription ---------------------------------------------------------------------------------------------------


async def test_a_failed_delivery_is_retried_with_the_same_id_until_it_succeeds(shop: Shop, settings: Settings) -> None:
    async with Receiver(answering(500)) as receiver, working(settings, NO_BREAKER):
        hook = await subscribe(shop, receiver.url, "product.created")
        await create_product(shop)
        await receiver.until(2)
        receiver.behave = answering(200)
        await wait_for_status(shop, hook, "succeeded")
        assert len({(each.headers["webhook-id"], each.body) for each in receiver.received}) == 1
        for each in receiver.received:
            each.verify(hook.secret)
        [entry] = await log(shop.db, hook.id)
        assert entry["attempt_count"] == len(entry["attempts"]) == len(receiver.received)
        assert [attempt["response_status"] for attempt in entry["attempts"]][-1] == 200
        stats = (await shop.client.get(f"/webhooks/{hook.id}")).json()["data"]["stats_24h"]
        assert stats == {"succeeded": 1, "failed": 0, "attempts": len(receiver.received)}, (
            "the success rate is not 100 %"
        )


async def test_a_delivery_fails_after_its_last_retry(shop: Shop, settings: Settings) -> None:
    async with Receiver(answering(500)) as receiver, working(settings, NO_BREAKER):
        hook = await subscribe(shop, receiver.url, "product.created")
        await create_product(shop)
        await wait_for_status(shop, hook, "failed")
        [entry] = await log(shop.db, hook.id)
        assert entry["attempt_count"] == len(receiver.received) == 1 + len(NO_BREAKER.retries)
        assert (await lane(shop.db, hook.id))["waiting"] == 0


async def test_retry_after_holds_the_whole_lane_and_does_not_count_as_a_failure(shop: Shop, settings: Settings) -> None:
    async with Receiver(answering(429, retry_after="600")) as receiver, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created")
        await create_product(shop)
        await receiver.until(1)

        async def on_hold() -> bool:
            return (await lane(shop.db, hook.id))["hold_until"] is not None

        await until(on_hold, "the lane is on hold")
        await create_product(shop)
        await until(lambda: _pending(shop, hook, 2), "the second delivery is pending too")
        state = await lane(shop.db, hook.id)
        assert (state["breaker"], state["failures"]) == ("closed", 0)
        assert timedelta(minutes=9) < state["hold_until"] - datetime.now(UTC) < timedelta(minutes=11)
        assert len(receiver.received) == 1
        assert [entry["attempt_count"] for entry in await log(shop.db, hook.id)] == [0, 0]


async def _pending(shop: Shop, hook: Subscribed, count: int) -> bool:
    state = await lane(shop.db, hook.id)
    return state["waiting"] == count and state["owner"] == ""


async def test_gone_disables_the_subscription_immediately_and_produces_an_event(shop: Shop, settings: Settings) -> None:
    async with Receiver(answering(410)) as receiver, Receiver() as other, working(settings):
        hook = await subscribe(shop, receiver.url, "product.created")
        await subscribe(shop, other.url, "webhook.*")
        await create_product(shop)
        [received] = (await other.until(1))[:1]
        assert received.event["type"] == "webhook.disabled"
        assert received.event["resource"]["id"] == hook.id
        assert received.event["data"]["disabled_reason"] == "gone"
        [row] = await shop.db.fetch(
            "SELECT status, disabled_reason FROM webhooks WHERE store_id = $1 AND id = $2", shop.store_id, hook.id
        )
        assert tuple(row) == ("disabled", "gone")
        await create_product(shop)
        await until(lambda: _pending(shop, hook, 2), "both deliveries are pending")
        assert len(receiver.received) == 1
        audited = await shop.db.fetch(
            "SELECT subject FROM audit_entries WHERE store_id = $1 AND action = 'webhook.disabled'", shop.store_id
        )
        assert [entry[0] for entry in audited] == [f"webhook:{hook.id}"]


async def test_a_subscription_without_a_success_for_three_days_is_disabled(shop: Shop, settings: Settings) -> None:
    impatient = msgspec.structs.replace(NO_BREAKER, retries=(0.05,) * 50, disable_after=0.3)
    async with Receiver(answering(500)) as receiver, working(settings, impatient):
        hook = await subscribe(shop, receiver.url, "product.created")
        await create_product(shop)

        async def disabled() -> bool:
            [row] = await shop.db.fetch("SELECT disabled_reason FROM webhooks WHERE id = $1", hook.id)
            return row[0] == "failing"

        await until(disabled, "the subscription is disabled")
        await until(lambda: _pending(shop, hook, 1), "its delivery is pending")


async def test_an_open_breaker_only_probes_and_sends_the_backlog_after_recovery(shop: Shop, settings: Settings) -> None:
    slow_retries = msgspec.structs.replace(QUICK, retries=(600.0, 600.0), probes=(0.3, 0.3, 0.3))
    async with Receiver(answering(503)) as receiver, Receiver() as other, working(settings, slow_retries):
        hook = await subscribe(shop, receiver.url, "product.created")
        await subscribe(shop, other.url, "webhook.failing")
        for n in range(8):
            await create_product(shop, f"Mug {n}")

        async def opened() -> bool:
            return (await lane(shop.db, hook.id))["breaker"] == "open"

        await until(opened, "the breaker is open")
        assert [each.event["resource"]["id"] for each in await other.until(1)] == [hook.id]
        before = len(receiver.received)
        await receiver.until(before + 2)  # probes, one at a time
        counts = [entry["attempt_count"] for entry in await log(shop.db, hook.id)]
        assert sum(counts) <= before  # probes do not count as attempts of a delivery
        receiver.behave = answering(200)
        await wait_for_status(shop, hook, "succeeded")
        assert {each["sequence"] for each in receiver.events} == set(range(1, 9))
        state = await lane(shop.db, hook.id)
        assert (state["breaker"], state["failing_since"], state["failing_event_sent"]) == ("closed", None, False)
        assert len(other.received) == 1


async def test_a_dead_receiver_does_not_delay_other_receivers(shop: Shop, other_shop: Shop, settings: Settings) -> None:
    given_up = asyncio.Event()

    async def hang(_request: web.Request, _received: Received) -> web.StreamResponse:
        await given_up.wait()
        return web.Response()

    patient = msgspec.structs.replace(QUICK, request_timeout=600, lease=900)
    async with Receiver(hang) as dead, Receiver() as healthy, working(settings, patient):
        await subscribe(shop, dead.url, "product.created")
        await subscribe(shop, healthy.url, "product.created")
        await subscribe(other_shop, healthy.url, "product.created")
        for n in range(5):
            await asyncio.gather(create_product(shop, f"Mug {n}"), create_product(other_shop, f"Mug {n}"))
        await healthy.until(10)
        given_up.set()


async def test_pending_deliveries_go_to_the_new_url(shop: Shop, settings: Settings) -> None:
    async with Receiver(answering(500)) as broken, Receiver() as healthy, working(settings):
        hook = await subscribe(shop, broken.url, "product.created")
        await create_product(shop)
        await broken.until(1)
        async with shop.db.transaction() as db:
            await db.execute("UPDATE webhooks SET url = $2 WHERE id = $1", hook.id, healthy.url)
            await db.fetch("SELECT resume_lane($1, $2)", shop.store_id, hook.id)
        [got] = await healthy.until(1)
        got.verify(hook.secret)
        await wait_for_status(shop, hook, "succeeded")


async def test_an_event_that_cannot_be_encoded_fails_without_blocking_the_lane(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "product.created", fields=["name"])
        await create_product(shop, "Broken")
        await shop.db.execute("UPDATE events SET data = 'no JSON' WHERE store_id = $1", shop.store_id)
        await create_product(shop, "Whole")
        async with working(settings, NO_BREAKER):

            async def settled() -> bool:
                return [entry["status"] for entry in await log(shop.db, hook.id)] == ["failed", "succeeded"]

            await until(settled, "one delivery failed and the other succeeded")
        [broken, _] = await log(shop.db, hook.id)
        assert {attempt["error"] for attempt in broken["attempts"]} == {"internal_error"}
        assert [event["data"] for event in receiver.events] == [{"name": "Whole"}]
