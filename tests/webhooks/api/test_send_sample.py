"""Sending test events to a subscription, and rotating its secret."""

import asyncio
import hmac
from base64 import b64decode, b64encode
from typing import Any

import pytest
from aiohttp import web

from stoa.api import EVENTS
from stoa.webhooks.api.samples import document
from tests.support.receivers import Received, Receiver, answering
from tests.support.shops import Shop
from tests.webhooks.subscriptions import subscribe


async def send_test(shop: Shop, webhook_id: int, **body: Any) -> dict[str, Any]:
    answer = await shop.client.post(f"/webhooks/{webhook_id}/test", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def signature(secret: str, content: str) -> str:
    key = b64decode(secret.removeprefix("whsec_"))
    return "v1," + b64encode(hmac.digest(key, content.encode(), "sha256")).decode()


# --- tests ------------------------------------------------------------------------------------------------------------


async def test_a_test_is_sent_signed_and_returns_request_and_response(loopback_shop: Shop) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url, headers={"X-Key": "canary-4711"})
        result = await send_test(loopback_shop, hook["id"])
    (got,) = receiver.received
    event = got.verify(hook["secret"])
    assert event["id"] == result["event_id"] == got.headers["webhook-id"]
    handle = loopback_shop.store.handle
    store = {"id": loopback_shop.store_id, "handle": handle, "base_url": f"http://localhost:8000/stores/{handle}"}
    assert (event["type"], event["sequence"], event["store"]) == ("webhook.test", 0, store)
    assert got.headers["x-key"] == "canary-4711"
    assert result["request_headers"]["X-Key"] == "********"
    assert result["request_body"] == got.body.decode()
    assert (result["succeeded"], result["response_status"], result["response_body"]) == (True, 200, "thanks")
    assert result["response_headers"]["content-type"].startswith("text/plain")
    assert result["error"] is None
    assert result["signed_content"] == f"{event['id']}.{got.headers['webhook-timestamp']}.{got.body.decode()}"
    assert signature(hook["secret"], result["signed_content"]) == got.headers["webhook-signature"]
    timings = result["timings"]
    assert 0 < timings["first_byte_ms"] <= timings["total_ms"]


async def test_a_sample_of_any_event_can_be_sent(loopback_shop: Shop) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url)
        await send_test(loopback_shop, hook["id"], event="product.created")
        event = receiver.received[0].verify(hook["secret"])
    assert (event["type"], event["resource"]["type"]) == ("product.created", "product")
    assert event["data"] == document(EVENTS["product.created"])


async def test_payload_and_fields_apply_to_a_test(loopback_shop: Shop) -> None:
    async with Receiver() as receiver:
        thin = await subscribe(loopback_shop, url=receiver.url, payload="thin")
        narrow = await subscribe(loopback_shop, url=f"{receiver.url}/2", fields=["price"])
        await send_test(loopback_shop, thin["id"], event="product.created")
        await send_test(loopback_shop, narrow["id"], event="product.created")
    assert "data" not in receiver.events[0]
    assert receiver.events[1]["data"] == {"price": "59.00"}


async def test_a_test_is_not_in_the_delivery_log(loopback_shop: Shop) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url)
        await send_test(loopback_shop, hook["id"])
    log = (await loopback_shop.client.get(f"/webhooks/{hook['id']}/deliveries")).json()
    assert log["meta"]["total"] == 0


async def test_an_error_status_of_the_receiver_is_returned(loopback_shop: Shop) -> None:
    async with Receiver(answering(503)) as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url)
        result = await send_test(loopback_shop, hook["id"])
    assert (result["succeeded"], result["response_status"]) == (False, 503)


async def test_a_redirect_is_returned_and_not_followed(loopback_shop: Shop) -> None:
    async with Receiver(answering(302, location="https://hooks.example.com/")) as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url)
        result = await send_test(loopback_shop, hook["id"])
    assert (result["succeeded"], result["response_status"]) == (False, 302)
    assert len(receiver.received) == 1


async def test_a_refused_connection_is_returned_as_a_result(loopback_shop: Shop) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url)
    result = await send_test(loopback_shop, hook["id"])
    assert (result["succeeded"], result["response_status"], result["error"]) == (False, None, "connection_refused")


async def test_only_the_beginning_of_a_long_response_is_returned(loopback_shop: Shop) -> None:
    async def long_body(_request: web.Request, _received: Received) -> web.StreamResponse:
        return web.Response(text="x" * 100_000)

    async with Receiver(long_body) as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url)
        result = await send_test(loopback_shop, hook["id"])
    assert len(result["response_body"]) == 4096


async def test_a_test_holds_no_database_connection_while_it_waits_for_the_receiver(loopback_shop: Shop) -> None:
    """With more concurrent tests than pooled connections, the API still responds."""
    go = asyncio.Event()

    async def wait_for_release(_request: web.Request, _received: Received) -> web.StreamResponse:
        await go.wait()
        return web.Response()

    async with Receiver(wait_for_release) as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url)
        tests = [asyncio.create_task(send_test(loopback_shop, hook["id"])) for _ in range(10)]
        await receiver.until(10)
        rows = await loopback_shop.db.fetch(
            """SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'"""
        )
        assert (await loopback_shop.client.get("/webhooks")).status_code == 200
        go.set()
        results = await asyncio.gather(*tests)
    assert rows[0][0] == 0
    assert all(result["succeeded"] for result in results)


async def test_tests_have_their_own_rate_limit(loopback_shop: Shop) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url)
        path = f"/webhooks/{hook['id']}/test"
        answers = await asyncio.gather(*(loopback_shop.client.post(path) for _ in range(15)))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) >= 4
    assert refused[0].headers["retry-after"] == "2"
    assert len(receiver.received) == 15 - len(refused)


async def test_a_repeated_idempotency_key_sends_one_test(loopback_shop: Shop) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url)
        path, key = f"/webhooks/{hook['id']}/test", {"idempotency-key": "try"}
        first = await loopback_shop.client.post(path, headers=key)
        second = await loopback_shop.client.post(path, headers=key)
        other = await loopback_shop.client.post(path, headers=key, json={"event": "product.created"})
    assert second.content == first.content
    assert second.headers["idempotent-replayed"] == "true"
    assert len(receiver.received) == 1
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


@pytest.mark.parametrize("event", ["product.exploded", "product.*", "*", ""])
async def test_a_test_of_an_unknown_event_or_a_pattern_is_refused(shop: Shop, event: str) -> None:
    hook = await subscribe(shop)
    answer = await shop.client.post(f"/webhooks/{hook['id']}/test", json={"event": event})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/event")


async def test_a_pull_only_subscription_cannot_be_tested(shop: Shop) -> None:
    hook = await subscribe(shop, url=None)
    answer = await shop.client.post(f"/webhooks/{hook['id']}/test")
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")


async def test_a_test_sends_nothing_to_an_address_that_is_no_longer_allowed(shop: Shop) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(shop)
        move = "UPDATE webhooks SET url = $3 WHERE store_id = $1 AND id = $2"
        await shop.db.execute(move, shop.store_id, hook["id"], receiver.url)
        result = await send_test(shop, hook["id"])
    assert result["error"].startswith("address_refused")
    assert receiver.received == []


# --- secrets ----------------------------------------------------------------------------------------------------------


async def test_both_secrets_sign_during_a_rotation_newest_first(loopback_shop: Shop) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url)
        rotated = (await loopback_shop.client.post(f"/webhooks/{hook['id']}/rotate-secret")).json()["data"]
        result = await send_test(loopback_shop, hook["id"])
    assert rotated["secret"] != hook["secret"]
    assert rotated["secret_expires_at"] is not None
    (got,) = receiver.received
    assert got.verify(hook["secret"])
    assert got.verify(rotated["secret"])
    signatures = [signature(secret, result["signed_content"]) for secret in (rotated["secret"], hook["secret"])]
    assert got.headers["webhook-signature"] == " ".join(signatures)
    seen = await loopback_shop.client.get(f"/webhooks/{hook['id']}")
    assert rotated["secret"] not in seen.text
    assert hook["secret"] not in seen.text


async def test_without_a_grace_period_the_old_secret_expires_immediately(loopback_shop: Shop) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url)
        path = f"/webhooks/{hook['id']}/rotate-secret"
        rotated = (await loopback_shop.client.post(path, json={"grace_hours": 0})).json()["data"]
        result = await send_test(loopback_shop, hook["id"])
    assert rotated["secret_expires_at"] is None
    assert receiver.received[0].headers["webhook-signature"] == signature(rotated["secret"], result["signed_content"])


async def test_a_second_rotation_during_the_grace_period_is_refused_unless_forced(shop: Shop) -> None:
    hook = await subscribe(shop)
    path = f"/webhooks/{hook['id']}/rotate-secret"
    first = (await shop.client.post(path, json={"grace_hours": 1})).json()["data"]
    refused = await shop.client.post(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "secret_rotation_active")
    assert refused.json()["secret_expires_at"] == first["secret_expires_at"]
    forced = await shop.client.post(path, json={"force": True})
    assert forced.status_code == 200
    assert forced.json()["data"]["secret"] not in (first["secret"], hook["secret"])


async def test_the_old_secret_does_not_sign_after_its_grace_period(loopback_shop: Shop) -> None:
    async with Receiver() as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url)
        path = f"/webhooks/{hook['id']}/rotate-secret"
        await loopback_shop.client.post(path, json={"grace_hours": 168})
        expire = "UPDATE webhooks SET old_secret_expires_at = now() WHERE store_id = $1 AND id = $2"
        await loopback_shop.db.execute(expire, loopback_shop.store_id, hook["id"])
        await send_test(loopback_shop, hook["id"])
        assert (await loopback_shop.client.post(path)).status_code == 200
    assert len(receiver.received[0].headers["webhook-signature"].split(" ")) == 1


async def test_only_one_of_many_concurrent_rotations_succeeds(shop: Shop) -> None:
    hook = await subscribe(shop)
    path = f"/webhooks/{hook['id']}/rotate-secret"
    answers = await asyncio.gather(*(shop.client.post(path) for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 5


async def test_a_replayed_rotation_returns_the_same_secret(shop: Shop) -> None:
    hook = await subscribe(shop)
    path, key = f"/webhooks/{hook['id']}/rotate-secret", {"idempotency-key": "rotate"}
    first = await shop.client.post(path, headers=key)
    second = await shop.client.post(path, headers=key)
    assert (second.status_code, second.content) == (200, first.content)
    stored = await shop.db.fetch("SELECT body FROM idempotency_keys WHERE store_id = $1", shop.store_id)
    assert all(first.json()["data"]["secret"].encode() not in row[0] for row in stored)


@pytest.mark.parametrize("hours", [-1, 169, 1.5, "24", None])
async def test_a_grace_period_out_of_range_is_refused(shop: Shop, hours: Any) -> None:
    hook = await subscribe(shop)
    answer = await shop.client.post(f"/webhooks/{hook['id']}/rotate-secret", json={"grace_hours": hours})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/grace_hours")
