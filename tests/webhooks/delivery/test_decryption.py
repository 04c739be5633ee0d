"""The secrets of a subscription are decrypted once between two heartbeats, and never used after they changed."""

import msgspec
import pytest
from standardwebhooks import WebhookVerificationError

from stoa.access.encryption import Cipher
from stoa.settings import Settings, secret_key
from stoa.webhooks.http.message import new_secret
from tests.support.receivers import Receiver
from tests.support.shops import Shop
from tests.webhooks.workers import QUICK, create_product, log, subscribe, until, working

NO_HEARTBEAT = msgspec.structs.replace(QUICK, heartbeat=600, takeover_after=600, stop_after=600, lease=900)


async def _deliver(shop: Shop, webhook_id: int, count: int) -> None:
    """Deliver one more event, and wait until its lane is released."""
    await create_product(shop)

    async def settled() -> bool:
        return [each["status"] for each in await log(shop.db, webhook_id)] == ["succeeded"] * count

    await until(settled, "the delivery is recorded")


async def test_the_next_delivery_uses_the_decrypted_secrets_again(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings, NO_HEARTBEAT) as worker:
        hook = await subscribe(shop, receiver.url, "product.created", headers={"X-Warehouse": "north"})
        await _deliver(shop, hook.id, 1)
        _, first = worker.scheduler.targets[shop.store_id, hook.id]
        await _deliver(shop, hook.id, 2)
        _, second = worker.scheduler.targets[shop.store_id, hook.id]
        assert second is first
        [_, got] = receiver.received
        assert got.verify(hook.secret)["sequence"] == 2
        assert got.headers["x-warehouse"] == "north"


async def test_a_rotated_secret_replaces_the_decrypted_one(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings, NO_HEARTBEAT) as worker:
        hook = await subscribe(shop, receiver.url, "product.created")
        await _deliver(shop, hook.id, 1)
        rotated = new_secret()
        encrypted = Cipher(secret_key(settings)).encrypt(rotated, "webhooks", "secret", shop.store_id, hook.id)
        await shop.db.execute("UPDATE webhooks SET sealed_secret = $2 WHERE id = $1", hook.id, encrypted)
        await _deliver(shop, hook.id, 2)
        [_, got] = receiver.received
        assert got.verify(rotated)["sequence"] == 2
        with pytest.raises(WebhookVerificationError):
            got.verify(hook.secret)
        _, target = worker.scheduler.targets[shop.store_id, hook.id]
        assert target.secrets == [rotated]


async def test_changed_headers_and_a_changed_url_apply_to_the_next_delivery(shop: Shop, settings: Settings) -> None:
    async with Receiver() as before, Receiver() as after, working(settings, NO_HEARTBEAT):
        hook = await subscribe(shop, before.url, "product.created", headers={"X-Warehouse": "north"})
        await _deliver(shop, hook.id, 1)
        await shop.db.execute("UPDATE webhooks SET url = $2, sealed_headers = NULL WHERE id = $1", hook.id, after.url)
        await _deliver(shop, hook.id, 2)
        assert len(before.received) == 1
        [got] = after.received
        assert "x-warehouse" not in got.headers


async def test_a_heartbeat_forgets_every_decrypted_secret(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver, working(settings) as worker:
        hook = await subscribe(shop, receiver.url, "product.created")
        await _deliver(shop, hook.id, 1)

        async def forgotten() -> bool:
            return (shop.store_id, hook.id) not in worker.scheduler.targets

        await until(forgotten, "the heartbeat forgets the secrets")
        await _deliver(shop, hook.id, 2)
