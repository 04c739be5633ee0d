"""The values of custom headers and the signing secret stay hidden: from another host, and from the delivery log."""

import json
from typing import Any

import pytest
from aiohttp import web

from stoa.settings import Settings
from tests.support.receivers import Received, Receiver
from tests.support.shops import Shop
from tests.webhooks.subscriptions import deliveries, subscribe
from tests.webhooks.workers import until, working

HIDDEN = "********"
KEY = 'Bearer canary-"4711"/'


async def changed(shop: Shop, hook: dict[str, Any], **patch: Any) -> dict[str, Any]:
    answer = await shop.client.patch(f"/webhooks/{hook['id']}", json=patch)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def echo(request: web.Request, received: Received) -> web.StreamResponse:
    """Answer with everything that was received, in the body and in a header."""
    key = received.headers.get("x-key", "")
    text = json.dumps({"headers": received.headers, "query": f"key={key}"})
    return web.Response(status=500, text=text, headers={"x-echo": f"key {key}"})


# --- another host -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.example.com/stoa",
        "https://hooks.example.com:8443/stoa",
        "https://hooks.example.com.elsewhere.example/stoa",
    ],
)
async def test_a_change_of_host_drops_the_header_values(shop: Shop, url: str) -> None:
    hook = await subscribe(shop, headers={"X-Key": "canary-4711"})
    assert (await changed(shop, hook, url=url))["headers"] == {}
    rows = await shop.db.fetch("SELECT sealed_headers, header_names FROM webhooks WHERE id = $1", hook["id"])
    assert (rows[0][0], rows[0][1]) == (None, [])


async def test_a_subscription_without_a_url_in_between_keeps_no_header_values(shop: Shop) -> None:
    hook = await subscribe(shop, headers={"X-Key": "canary-4711"})
    await changed(shop, hook, url=None)
    assert (await changed(shop, hook, url="https://elsewhere.example.com/"))["headers"] == {}


async def test_another_path_of_the_same_host_keeps_the_header_values(shop: Shop) -> None:
    hook = await subscribe(shop, headers={"X-Key": "canary-4711"})
    after = await changed(shop, hook, url="https://HOOKS.example.com:443/other?page=2")
    assert after["headers"] == {"X-Key": HIDDEN}


async def test_headers_sent_with_the_new_host_are_stored(loopback_shop: Shop) -> None:
    hook = await subscribe(loopback_shop, headers={"X-Key": "canary-4711", "X-Other": "old"})
    async with Receiver() as receiver:
        after = await changed(loopback_shop, hook, url=receiver.url, headers={"X-Key": "new-value"})
        assert after["headers"] == {"X-Key": HIDDEN}
        await loopback_shop.client.post(f"/webhooks/{hook['id']}/test", json={})
    [got] = receiver.received
    assert (got.headers["x-key"], "x-other" in got.headers) == ("new-value", False)


async def test_asterisks_cannot_keep_a_value_for_another_host(shop: Shop) -> None:
    hook = await subscribe(shop, headers={"X-Key": "canary-4711"})
    body = {"url": "https://elsewhere.example.com/", "headers": {"X-Key": HIDDEN}}
    answer = await shop.client.patch(f"/webhooks/{hook['id']}", json=body)
    assert answer.status_code == 422
    assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == [("/headers/X-Key", "required")]


async def test_asterisks_are_no_value_of_a_new_header(shop: Shop) -> None:
    body = {"url": "https://hooks.example.com/", "events": ["product.*"], "headers": {"X-Key": HIDDEN}}
    assert (await shop.client.post("/webhooks", json=body)).status_code == 422


# --- a receiver that echoes -------------------------------------------------------------------------------------------


async def test_a_receiver_that_echoes_puts_no_secret_into_the_log(loopback_shop: Shop, settings: Settings) -> None:
    async with Receiver(echo) as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url, headers={"X-Key": KEY})
        async with working(settings):
            await loopback_shop.add({"name": "Mug", "price": "5.00"})
            await receiver.until(1)

            async def logged() -> bool:
                return bool((await deliveries(loopback_shop, hook["id"]))["data"][0]["attempts"])

            await until(logged, "the attempt is in the log")
        [delivery] = (await deliveries(loopback_shop, hook["id"]))["data"]
    text = delivery["attempts"][0]["response_body"]
    assert json.loads(text)["headers"]["x-key"] == HIDDEN
    assert "canary" not in text


async def test_a_receiver_that_echoes_puts_no_secret_into_a_test_result(loopback_shop: Shop) -> None:
    async def tell(_request: web.Request, _received: Received) -> web.StreamResponse:
        words = f"{hook['secret']} {hook['secret'].removeprefix('whsec_')} canary-4711 {'x' * 3980} canary-4711"
        return web.Response(text=words, headers={"x-echo": "Bearer canary-4711", "x-secret": hook["secret"]})

    async with Receiver(tell) as receiver:
        hook = await subscribe(loopback_shop, url=receiver.url, headers={"Authorization": "Bearer canary-4711"})
        result = (await loopback_shop.client.post(f"/webhooks/{hook['id']}/test", json={})).json()["data"]
    assert result["response_body"].startswith(f"{HIDDEN} {HIDDEN} {HIDDEN} xxx")
    # The body is cut inside of the last value.
    assert "canary" not in result["response_body"]
    assert "cana" not in result["response_body"]
    assert (result["response_headers"]["x-echo"], result["response_headers"]["x-secret"]) == (HIDDEN, HIDDEN)
