"""Release 0.3.0 does not know app subscriptions: beside this release, its couriers route their events, and send none of them."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stoa_client.webhooks import store_of, verify
from tests.support.receivers import Receiver
from tests.support.service import PATIENCE_S, Account, Service, new_database
from tests.upgrades.releases import Installation, exported
from tests.upgrades.test_upgrade import open_store

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


async def test_every_event_of_an_app_subscription_arrives_signed_while_both_releases_deliver(
    tmp_path: Path, receiver: Receiver
) -> None:
    installation = Installation(tmp_path / "installed", exported())
    url = await new_database(f"couriers_{os.getpid()}")
    options: Any = {"database_url": url, "workers": 1, "access_log": False, "webhook_allow": "127.0.0.0/8"}
    old = Service(tmp_path / "old", command=installation.command, **options)
    del old.environment["PYTHONPATH"]
    with old:
        account = await open_store(old)
        with Service(tmp_path / "new", **options) as new:
            words = ("prices", "--url", receiver.url, "--event", "product.created")
            declared = new.run("app", "subscriptions", "add", account.client_id, *words)
            assert declared.returncode == 0, declared.stderr
            secret = declared.stdout.partition("Signing secret: ")[2].split()[0]
            there = Account(new, account.handle, account.client_id, account.client_secret, account.token)
            async with there.client() as client:
                subscribed = await client.get("/webhooks")
                # The background duty of the new release brings it to the store.
                while not any(each["managed"] for each in subscribed.json()["data"]):
                    subscribed = await client.get("/webhooks")
            for number in range(EVENTS):
                await product(account if number % 2 else there, f"Mug {number}")
                await receiver.until(number + 1, seconds=PATIENCE_S)
    assert [each["data"]["name"] for each in receiver.events] == [f"Mug {number}" for number in range(EVENTS)]
    for got in receiver.received:
        event = verify(got.body, got.headers, secret)
        assert event.store is not None
        assert store_of(got.headers, secret) == event.store.id
    assert "decrypting a webhook failed" not in old.output()
