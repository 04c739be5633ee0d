"""The subscriptions of one store delay no other store, whatever filters they have."""

import asyncio
from typing import Any

import msgspec
import pytest

from stoa.settings import Settings
from stoa.webhooks.delivery import conditions, matching
from stoa.webhooks.delivery.conditions import CompiledFilter, Document, TooManyValues
from stoa.webhooks.delivery.queries import SUBSCRIPTIONS_OF_STORES, TAKE_EVENTS
from stoa.webhooks.delivery.router import Routed, route_events
from tests.support.receivers import Receiver
from tests.support.shops import Shop
from tests.webhooks.subscriptions import HOOK, UNROUTED
from tests.webhooks.workers import create_product, log, subscribe, working

WORDS = ",".join(map(str, range(249)))
LARGE = {f"line_items.{name}": WORDS for name in ("sku", "name", "product_id", "variant_id", "id", "quantity")}
OLD_LIMIT = {f"{'x' * n}.name": WORDS for n in range(1, 20)} | {"name": WORDS + ",Mug"}


async def unrouted(shop: Shop) -> int:
    return len(await shop.db.fetch(UNROUTED.replace("LIMIT 1", ""), shop.store_id))


async def batch(*shops: Shop) -> Routed:
    return await route_events(shops[0].db, sorted({shop.store_id % 64 for shop in shops}))


async def drain(shop: Shop) -> None:
    while await unrouted(shop):
        await batch(shop)


@pytest.fixture
async def quiet(shop: Shop, other_shop: Shop) -> tuple[Shop, Shop]:
    """Two stores without unrouted events."""
    await drain(shop)
    await drain(other_shop)
    return shop, other_shop


# --- the size of a filter ---------------------------------------------------------------------------------------------


async def test_a_filter_has_at_most_250_values(shop: Shop) -> None:
    body = {**HOOK, "events": ["order.*"]}
    refused = await shop.client.post("/webhooks", json={**body, "filter": LARGE})
    assert refused.status_code == 422
    assert [(fault["pointer"], fault["code"]) for fault in refused.json()["errors"]] == [("/filter", "out_of_range")]
    fits = {"line_items.sku": WORDS, "currency": "USD"}
    made = await shop.client.post("/webhooks", json={**body, "filter": fits})
    assert made.status_code == 201
    path = f"/webhooks/{made.json()['data']['id']}"
    assert (await shop.client.patch(path, json={"filter": {"line_items.name": "a"}})).status_code == 422


async def test_a_larger_filter_of_an_earlier_release_stays(shop: Shop) -> None:
    hook = await subscribe(shop, "https://hooks.example.com/", "order.*", filter=msgspec.json.encode(LARGE).decode())
    changed = await shop.client.patch(f"/webhooks/{hook.id}", json={"name": "Old"})
    assert (changed.status_code, changed.json()["data"]["filter"]) == (200, LARGE)


# --- the cost of a filter ---------------------------------------------------------------------------------------------


def test_a_path_is_read_once_for_all_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"sku": f"s{n}", "name": f"n{n}"} for n in range(500)]
    read: list[tuple[str, ...]] = []
    values = conditions._values  # pyright: ignore[reportPrivateUsage]

    def counted(value: Any, path: tuple[str, ...]) -> Any:
        if value is document._members:  # pyright: ignore[reportPrivateUsage]
            read.append(tuple(path))
        return values(value, path)

    monkeypatch.setattr(conditions, "_values", counted)
    document = Document(msgspec.json.encode({"line_items": lines}).decode())
    for number in range(100):
        wanted = {"line_items.sku": f"{WORDS},{number}", "line_items.name": f"{WORDS},n7,{number}"}
        assert not CompiledFilter(wanted).matches(document)
        assert CompiledFilter({"line_items.name": wanted["line_items.name"]}).matches(document)
    assert sorted(read) == [("line_items", "name"), ("line_items", "sku")]


def test_filters_read_a_bounded_number_of_values() -> None:
    document = Document({"line_items": [{"sku": str(n)} for n in range(conditions.MAX_VALUES + 1)]})
    with pytest.raises(TooManyValues):
        CompiledFilter({"line_items.sku": "x"}).matches(document)


async def test_a_document_with_too_many_values_is_delivered(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = await subscribe(shop, "http://127.0.0.1:1/", "product.created", filter='{"name":"Other"}')
    monkeypatch.setattr(conditions, "MAX_VALUES", 0)
    await create_product(shop)
    await drain(shop)
    assert [entry["event_type"] for entry in await log(shop.db, hook.id)] == ["product.created"]


async def test_other_tasks_run_between_two_subscriptions(
    quiet: tuple[Shop, Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, _ = quiet
    for _ in range(20):
        await subscribe(shop, "http://127.0.0.1:1/", "product.*", filter=msgspec.json.encode(OLD_LIMIT).decode())
    await create_product(shop)
    taken = await TAKE_EVENTS.all(shop.db, [shop.store_id % 64], 500, 10**6, "test", 1, 0.0, [], False)  # noqa: FBT003 - a bind value
    subscriptions = await SUBSCRIPTIONS_OF_STORES.all(shop.db, [shop.store_id])
    monkeypatch.setattr(matching, "SLICE_S", 0)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    await matching.match([each for each in taken if each.store_id == shop.store_id], subscriptions)
    running.cancel()
    assert turns >= 20


# --- shares in a batch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", ["STORE_SECONDS", "STORE_BYTES", "STORE_DELIVERIES"])
async def test_a_store_that_exceeds_its_share_keeps_the_rest_of_its_events(
    quiet: tuple[Shop, Shop], monkeypatch: pytest.MonkeyPatch, share: str
) -> None:
    busy, other = quiet
    hooks = [await subscribe(busy, "http://127.0.0.1:1/", "product.*", filter='{"status":"active"}') for _ in range(2)]
    small = await subscribe(other, "http://127.0.0.1:1/", "product.*")
    products = [await create_product(busy) for _ in range(5)]
    await create_product(other)
    monkeypatch.setattr(matching, share, 1 if share == "STORE_DELIVERIES" else 0)
    routed = await batch(busy, other)
    assert busy.store_id in routed.apart
    assert (await unrouted(busy), await unrouted(other)) == (4, 0)
    assert len(await log(other.db, small.id)) == 1
    await drain(busy)
    for hook in hooks:
        entries = sorted(await log(busy.db, hook.id), key=lambda entry: entry["sequence"])
        rows = "SELECT resource_id FROM pending_deliveries WHERE webhook_id = $1 ORDER BY sequence"
        assert [row[0] for row in await busy.db.fetch(rows, hook.id)] == products
        assert [entry["sequence"] for entry in entries] == [1, 2, 3, 4, 5]


async def test_the_router_delivers_everything_of_a_store_that_exceeds_its_share(
    shop: Shop, other_shop: Shop, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "STORE_SECONDS", 0)
    async with Receiver() as receiver:
        await subscribe(shop, receiver.url, "product.*", filter='{"status":"active"}', ordering="resource")
        await subscribe(other_shop, receiver.url, "product.*")
        products = [await create_product(shop) for _ in range(20)]
        theirs = await create_product(other_shop)
        async with working(settings):
            await receiver.until(21)
    ids = [(event["store"]["id"], event["resource"]["id"]) for event in receiver.events]
    assert sorted(ids) == sorted([(other_shop.store_id, theirs), *((shop.store_id, each) for each in products)])
