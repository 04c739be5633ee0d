"""Changes on pages notify the delivery workers at once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.accounts.ownership import open_store, register_app
from stoa.db.connection import connect
from stoa.events.notify import CHANNEL
from tests.portal.webhook_data import add_subscription, emit_products, finish_delivery
from tests.support.people import User

REASONS = {"products:read": "To list them.", "webhooks:write": "To subscribe to changes."}


@pytest.fixture
async def notifications(database_url: str) -> AsyncIterator[asyncio.Queue[str]]:
    """The notifications that delivery workers of this database receive."""
    received: asyncio.Queue[str] = asyncio.Queue()

    def receive(_connection: Any, _pid: int, _channel: str, payload: str) -> None:
        received.put_nowait(payload)

    connection = cast("Any", await connect(database_url, statement_timeout_ms=0))
    await connection.add_listener(CHANNEL, receive)
    yield received
    await connection.close()


async def notified(received: asyncio.Queue[str], store_id: int) -> None:
    """Wait for a notification about this store."""
    async with asyncio.timeout(30):
        while str(store_id) not in (await received.get()).split(","):
            pass


async def test_a_redelivery_notifies_the_workers_at_once(
    operator: Operator, maria: User, notifications: asyncio.Queue[str]
) -> None:
    me = maria.account.id
    store = await open_store(operator, me, f"redeliver-{me}", "Agora", "EUR")
    app = await register_app(operator, me, "Walker", "", REASONS, f"redeliver{me}")
    await install(operator, app.client_id, store.handle)
    webhook_id = await add_subscription(operator, store.id, app.app_id)
    await emit_products(operator, store.id)
    await finish_delivery(operator, store.id, webhook_id, 1, "failed")
    path = f"/portal/apps/{app.app_id}/webhooks/{store.handle}/{webhook_id}/deliveries/1"
    await maria.open(path)
    await maria.submit(f"{path}/again")
    assert maria.notice.startswith("Redelivering")
    await notified(notifications, store.id)


async def test_an_uninstallation_notifies_the_workers_at_once(
    operator: Operator, maria: User, notifications: asyncio.Queue[str]
) -> None:
    me = maria.account.id
    store = await open_store(operator, me, f"uninstall-{me}", "Agora", "EUR")
    app = await register_app(operator, me, "Walker", "", REASONS, f"uninstall{me}")
    await install(operator, app.client_id, store.handle)
    path = f"/portal/stores/{store.handle}/apps/{app.app_id}"
    await maria.open(path)
    await maria.submit(f"{path}/uninstall", confirmed="on")
    await notified(notifications, store.id)
