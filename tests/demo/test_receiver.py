"""The receiver of the demo: it says whether a webhook is signed, to this machine only, and only in a demo."""

from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from stoa.app import Application
from stoa.settings import Settings
from stoa.webhooks.app_callbacks import set_callbacks
from stoa_client.webhooks import sign
from tests.support.shops import Shop

BODY = b'{"id":"evt_1","type":"order.created","timestamp":"2026-01-02T03:04:05Z","data":{}}'


@pytest.fixture
async def application(settings: Settings) -> AsyncIterator[Application]:
    started = Application(msgspec.structs.replace(settings, demo=True))
    yield started
    await started.close()


def client(application: Application, peer: str = "127.0.0.1") -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(application, client=(peer, 4000)), base_url="http://testserver"
    )


async def signing_secret(shop: Shop) -> str:
    callbacks = await set_callbacks(
        shop.operator, shop.client_id, endpoint_url=None, return_urls=["http://localhost:8787/installed"]
    )
    assert callbacks.signing_secret
    return callbacks.signing_secret


async def test_a_signed_webhook_is_verified(shop: Shop, application: Application) -> None:
    signed = sign(BODY, await signing_secret(shop))
    async with client(application) as http:
        response = await http.post(f"/demo/receiver/{shop.client_id}", content=signed.body, headers=signed.headers)
    assert response.status_code == 200
    assert response.json() == {"verified": True, "event": "order.created"}


async def test_a_changed_webhook_is_refused(shop: Shop, application: Application) -> None:
    signed = sign(BODY, await signing_secret(shop))
    async with client(application) as http:
        response = await http.post(
            f"/demo/receiver/{shop.client_id}",
            content=signed.body.replace(b"created", b"deleted"),
            headers=signed.headers,
        )
    assert response.status_code == 401
    assert response.json()["verified"] is False


async def test_other_machines_and_apps_find_nothing(shop: Shop, application: Application) -> None:
    signed = sign(BODY, await signing_secret(shop))
    for peer, path in (("10.1.2.3", shop.client_id), ("127.0.0.1", "nobody")):
        async with client(application, peer) as http:
            response = await http.post(f"/demo/receiver/{path}", content=signed.body, headers=signed.headers)
        assert response.status_code == 404


async def test_a_service_that_is_no_demo_has_no_receiver(shop: Shop, settings: Settings) -> None:
    application = Application(settings)
    async with client(application) as http:
        response = await http.post(f"/demo/receiver/{shop.client_id}", content=BODY)
    await application.close()
    assert response.status_code == 404
