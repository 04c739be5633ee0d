"""Release 0.3.0 does not know app subscriptions: beside this release, its couriers route their events, and send none of them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from stoa_client.webhooks import store_of, verify
from tests.support.receivers import Receiver
from tests.support.service import PATIENCE_S, Account
from tests.upgrades.conftest import Releases

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.not_on_cluster("two releases are installed on one server"),
]
EVENTS = 20  # one after another: each time, the couriers of both releases may be first


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as opened:
        yield opened


async def product(account: Account, name: str) -> None:
    async with account.client() as client:
        answer = await client.post("/products", json={"name": name, "price": "5.00"})
        assert answer.status_code == 201, answer.text


@pytest.mark.long
async def test_every_event_of_an_app_subscription_arrives_signed_while_both_releases_deliver(
    releases: Releases, receiver: Receiver
) -> None:
    old, new = releases.old, releases.new
    words = ("prices", "--url", receiver.url, "--event", "product.created")
    declared = new.service.run("app", "subscriptions", "add", old.client_id, *words)
    assert declared.returncode == 0, declared.stderr
    secret = declared.stdout.partition("Signing secret: ")[2].split()[0]
    async with new.client() as client:
        subscribed = await client.get("/webhooks")
        # The background duty of the new release brings it to the store.
        while not any(each["managed"] for each in subscribed.json()["data"]):
            await asyncio.sleep(0.02)
            subscribed = await client.get("/webhooks")
    for number in range(EVENTS):
        await product(old if number % 2 else new, f"Mug {number}")
        await receiver.until(number + 1, seconds=PATIENCE_S)
    assert [each["data"]["name"] for each in receiver.events] == [f"Mug {number}" for number in range(EVENTS)]
    for got in receiver.received:
        event = verify(got.body, got.headers, secret)
        assert event.store is not None
        assert store_of(got.headers, secret) == event.store.id
    assert "decrypting a webhook failed" not in old.service.output()
