"""A reinstallation starts from nothing: tokens, keys, subscriptions and secrets of the one before stay invalid."""

from typing import Any

from stoa.access.grants import install, uninstall
from stoa.settings import Settings
from tests.support.receivers import Receiver
from tests.support.shops import Shop, api_client, token_for
from tests.webhooks.workers import subscribe, until, working

MUG = {"name": "Mug", "price": "1.00"}
KEY = {"idempotency-key": "before-the-uninstall"}


async def reinstalled(shop: Shop) -> None:
    await uninstall(shop.operator, shop.client_id, shop.store.handle)
    await install(shop.operator, shop.client_id, shop.store.handle)


async def status_with(shop: Shop, token: str) -> tuple[int, str]:
    async with api_client(shop.application, shop.store.handle, token) as client:
        answer = await client.get("/products?limit=1")
        return answer.status_code, answer.json().get("code", "")


async def test_tokens_of_the_installation_before_stay_invalid_on_that_store_only(shop: Shop, other_shop: Shop) -> None:
    await install(shop.operator, shop.client_id, other_shop.store.handle)
    resource = f"http://testserver/stores/{shop.store.handle}/api/v3/app"
    credentials = (shop.service, shop.client_id, shop.client_secret)
    for_all, for_one = await token_for(*credentials), await token_for(*credentials, resource=resource)
    await uninstall(shop.operator, shop.client_id, shop.store.handle)
    assert await status_with(shop, for_all) == (403, "app_not_installed")
    assert await status_with(shop, for_one) == (403, "app_not_installed")
    await install(shop.operator, shop.client_id, shop.store.handle)
    for token in (for_all, for_one):
        assert await status_with(shop, token) == (401, "invalid_token")
    introspected = await shop.service.post(
        "/oauth/introspect", data={"token": for_one}, auth=(shop.client_id, shop.client_secret)
    )
    assert introspected.json() == {"active": False}
    assert await status_with(other_shop, for_all) == (200, "")
    for form in ({}, {"resource": resource}):
        assert await status_with(shop, await token_for(*credentials, **form)) == (200, "")


async def test_a_change_of_scopes_keeps_tokens_and_keys(shop: Shop) -> None:
    created = await shop.client.post("/products", json=MUG, headers=KEY)
    await install(shop.operator, shop.client_id, shop.store.handle, ["products:write"])
    again = await shop.client.post("/products", json=MUG, headers=KEY)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert again.json() == created.json()


async def test_a_key_of_the_installation_before_returns_no_stored_response(shop: Shop) -> None:
    hook: dict[str, Any] = {"events": ["product.*"], "name": "Feed"}
    first = await shop.client.post("/webhooks", json=hook, headers=KEY)
    assert first.json()["data"]["secret"]
    await reinstalled(shop)
    token = await token_for(shop.service, shop.client_id, shop.client_secret)
    async with api_client(shop.application, shop.store.handle, token) as client:
        again = await client.post("/webhooks", json=hook, headers=KEY)
        assert (again.status_code, again.json()["code"]) == (422, "idempotency_key_reused")
        assert "secret" not in again.text
        fresh = await client.post("/webhooks", json=hook, headers={"idempotency-key": "after"})
        assert fresh.status_code == 201


async def test_subscriptions_of_the_installation_before_receive_nothing(shop: Shop, settings: Settings) -> None:
    """Also if the app is reinstalled before the router has seen that it was uninstalled."""

    async def routed() -> bool:
        waiting = "SELECT count(*) FROM events WHERE store_id = $1 AND routed_on = 'infinity'"
        return (await shop.db.fetch(waiting, shop.store_id))[0][0] == 0

    async with Receiver() as receiver:
        hook = await subscribe(shop, receiver.url, "product.*")
        await reinstalled(shop)
        await shop.add(MUG)
        async with working(settings):
            await until(routed, "all events are routed")
        assert receiver.received == []
    token = await token_for(shop.service, shop.client_id, shop.client_secret)
    async with api_client(shop.application, shop.store.handle, token) as client:
        assert (await client.get(f"/webhooks/{hook.id}")).status_code == 404
        assert (await client.get("/webhooks")).json()["data"] == []
