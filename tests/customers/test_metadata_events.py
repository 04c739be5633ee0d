"""Each app receives events of customers with its own metadata and the shared keys, and never with those of another app."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from stoa.imports.runner import run_pending
from stoa.settings import Settings
from tests.customers.people import JUN, created, patched
from tests.support.receivers import Receiver
from tests.support.shops import Shop
from tests.webhooks.subscriptions import route
from tests.webhooks.workers import until, working

FEED = {"after": 0, "include": "payload", "limit": 250}


class Apps:
    """Two apps of one store, each with a subscription that it reads as a feed."""

    def __init__(self, shop: Shop, theirs: httpx.AsyncClient) -> None:
        self.shop = shop
        self.clients = {"mine": shop.client, "theirs": theirs}
        self.hooks: dict[str, int] = {}

    async def subscribe(self, **more: Any) -> None:
        for name, client in self.clients.items():
            answer = await client.post("/webhooks", json={"name": name, "events": ["customer.*"], **more})
            assert answer.status_code == 201, answer.text
            self.hooks[name] = answer.json()["data"]["id"]

    async def payloads(self, name: str) -> list[dict[str, Any]]:
        """The events that an app received, from the feed; the log has the same."""
        await route(self.shop)
        path = f"/webhooks/{self.hooks[name]}/deliveries"
        fed = (await self.clients[name].get(path, params=FEED)).json()["data"]
        logged = (await self.clients[name].get(path, params={"include": "payload", "limit": 250})).json()["data"]
        payloads = [each["payload"] for each in fed]
        assert payloads == [each["payload"] for each in logged][::-1]
        return payloads

    async def metadata(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        return [(event["type"], event["data"]["metadata"]) for event in await self.payloads(name)]


@pytest.fixture
async def apps(shop: Shop) -> AsyncIterator[Apps]:
    theirs = await shop.client_with(["customers:write", "webhooks:write"])
    both = Apps(shop, theirs)
    await both.subscribe()
    yield both
    await theirs.aclose()


async def test_a_created_customer_has_the_metadata_of_its_app(apps: Apps) -> None:
    await created(apps.shop, {**JUN, "metadata": {"tier": "gold", "shared.x": 1.50, "n": 2}})
    assert await apps.metadata("mine") == [("customer.created", {"n": 2, "shared.x": 1.5, "tier": "gold"})]
    assert await apps.metadata("theirs") == [("customer.created", {"shared.x": 1.5})]


async def test_an_updated_customer_has_the_metadata_of_each_app(apps: Apps) -> None:
    jun = await created(apps.shop, {**JUN, "metadata": {"tier": "gold", "shared.x": 1}})
    path = f"/customers/{jun['id']}"
    assert (await apps.clients["theirs"].patch(f"{path}/metadata", json={"tier": "iron"})).status_code == 200
    await patched(apps.shop, path, {"note": "Rings twice."})
    address = {"address1": "1 Mill Lane", "city": "Ghent", "country_code": "BE"}
    assert (await apps.shop.client.post(f"{path}/addresses", json=address)).status_code == 201
    mine, theirs = await apps.metadata("mine"), await apps.metadata("theirs")
    assert mine == [
        (name, {"shared.x": 1, "tier": "gold"})
        for name in ("customer.created", "customer.updated", "customer.address_changed")
    ]
    assert theirs == [("customer.created", {"shared.x": 1})] + [
        (name, {"shared.x": 1, "tier": "iron"})
        for name in ("customer.metadata_changed", "customer.updated", "customer.address_changed")
    ]


@pytest.mark.parametrize("path", ["/customers/{id}", "/customers/{id}/metadata"])
async def test_a_mixed_change_shows_each_app_its_own_part(apps: Apps, path: str) -> None:
    jun = await created(apps.shop, {**JUN, "metadata": {"tier": "gold", "old": 1}})
    change = {"tier": "silver", "old": None, "shared.x": True}
    body = {"metadata": change} if path.endswith("}") else change
    await patched(apps.shop, path.format(id=jun["id"]), body)
    mine, theirs = (await apps.payloads("mine"))[1:], (await apps.payloads("theirs"))[1:]
    assert [event["type"] for event in mine] == [event["type"] for event in theirs] == ["customer.metadata_changed"]
    assert mine[0]["id"] == theirs[0]["id"]
    assert mine[0]["data"]["metadata"] == {"shared.x": True, "tier": "silver"}
    assert mine[0]["changes"] == {"metadata": [{"old": 1, "tier": "gold"}, {"shared.x": True, "tier": "silver"}]}
    assert theirs[0]["data"]["metadata"] == {"shared.x": True}
    assert theirs[0]["changes"] == {"metadata": [{}, {"shared.x": True}]}


async def test_the_last_own_key_can_go_in_a_mixed_change(apps: Apps) -> None:
    jun = await created(apps.shop, {**JUN, "metadata": {"tier": "gold"}})
    await patched(apps.shop, f"/customers/{jun['id']}/metadata", {"tier": None, "shared.x": 1})
    event = (await apps.payloads("mine"))[-1]
    assert event["changes"] == {"metadata": [{"tier": "gold"}, {"shared.x": 1}]}
    assert event["data"]["metadata"] == {"shared.x": 1}


async def test_an_import_causes_the_same_events(apps: Apps) -> None:
    jun = await created(apps.shop, {**JUN, "metadata": {"tier": "gold"}})
    row = b'{"email":"jun@example.com","note":"New","metadata":{"tier":"iron","shared.x":1}}\n'
    row += b'{"email":"rin@example.com","metadata":{"tier":"canary"}}\n'
    sent = await apps.shop.client.post(
        "/customers/imports", content=row, headers={"content-type": "application/x-ndjson"}
    )
    assert sent.status_code == 202
    await run_pending(apps.shop.db)
    mine = {(event["type"], event["resource"]["id"] == jun["id"]): event for event in await apps.payloads("mine")}
    assert mine["customer.updated", True]["data"]["metadata"] == {"shared.x": 1, "tier": "iron"}
    assert mine["customer.created", False]["data"]["metadata"] == {"tier": "canary"}
    assert "iron" not in str(await apps.payloads("theirs"))
    assert "canary" not in str(await apps.payloads("theirs"))


async def test_a_filter_sees_the_metadata_of_its_own_app(shop: Shop) -> None:
    theirs = await shop.client_with(["customers:write", "webhooks:write"])
    both = Apps(shop, theirs)
    await both.subscribe(filter={"metadata[tier]": "gold"})
    await created(shop, {**JUN, "metadata": {"tier": "gold"}})
    assert len(await both.payloads("mine")) == 1
    assert await both.payloads("theirs") == []


async def test_a_delivery_equals_the_feed(shop: Shop, settings: Settings) -> None:
    async with Receiver() as receiver:
        # The first is inserted as a lane is filled, the second when it is read from its lane.
        url = {"url": receiver.url}
        hook = await shop.client.post("/webhooks", json={"name": "push", "events": ["customer.*"]})
        await shop.db.execute("UPDATE webhooks SET url = $2 WHERE id = $1", hook.json()["data"]["id"], url["url"])
        async with working(settings):
            jun = await created(shop, {**JUN, "metadata": {"tier": "gold", "shared.x": 1}})
            await receiver.until(1)
            await shop.client.patch(f"/webhooks/{hook.json()['data']['id']}", json={"status": "paused"})
            await patched(shop, f"/customers/{jun['id']}", {"note": "New"})

            async def routed() -> bool:
                return (await shop.client.get(f"/webhooks/{hook.json()['data']['id']}")).json()["data"]["pending"] == 1

            await until(routed, "the second event waits")
            await shop.client.patch(f"/webhooks/{hook.json()['data']['id']}", json={"status": "active"})
            await receiver.until(2)
    assert [event["data"]["metadata"] for event in receiver.events] == [{"shared.x": 1, "tier": "gold"}] * 2
    path = f"/webhooks/{hook.json()['data']['id']}/deliveries"
    fed = (await shop.client.get(path, params=FEED)).json()["data"]
    assert [each["payload"] for each in fed] == receiver.events


async def test_an_erasure_removes_the_metadata_from_past_events(apps: Apps) -> None:
    jun = await created(apps.shop, {**JUN, "metadata": {"tier": "canary"}})
    assert (await apps.shop.client.delete(f"/customers/{jun['id']}")).status_code == 204
    assert "canary" not in str(await apps.payloads("mine"))
    rows = await apps.shop.db.fetch("SELECT e::text FROM events e WHERE store_id = $1", apps.shop.store_id)
    assert "canary" not in str(rows)
