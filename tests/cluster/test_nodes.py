"""Stores on several nodes: one store is moved while it is served, and a node that is away costs only its own stores."""

import asyncio

import pytest
from aiohttp import web
from tests.cluster.conftest import Cluster, needs_cluster
from tests.imports.files import job_of, lines, send
from tests.support.receivers import Received, Receiver
from tests.support.shops import MUG
from tests.webhooks.subscriptions import route
from tests.webhooks.workers import create_product, subscribe, working

from stoa.cluster.distribution import plan
from stoa.cluster.isolation import Isolation, IsolationRefused, isolate
from stoa.cluster.isolation import plan as plan_isolation
from stoa.cluster.status import STORE_SHARD, read_status
from stoa.db.errors import CommitUnknown, PostgresError, Unavailable, is_away, is_lost
from stoa.db.pool import Database
from stoa.imports.runner import run_pending

BACK_S = 30


class Reported(Exception):
    """An error as the server reports it."""

    def __init__(self, sqlstate: str, severity_en: str, message: str = "") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.severity_en = severity_en


def test_an_unreachable_node_does_not_cost_the_connection_to_the_coordinator() -> None:
    assert is_away(Reported("08006", "ERROR"))
    assert not is_lost(Reported("08006", "ERROR"))
    assert is_lost(Reported("08006", "FATAL"))
    assert is_lost(Reported("57P01", "FATAL"))
    assert is_away(Reported("XX000", "ERROR", "failure on connection marked as essential: 127.0.0.1:9701"))
    assert not is_away(Reported("XX000", "ERROR", "could not read block 7"))
    assert issubclass(CommitUnknown, Unavailable)


@pytest.mark.not_on_cluster("a trigger of one server stands for the failing node")
@pytest.mark.parametrize(("code", "expected"), [("XX000", CommitUnknown), ("23514", PostgresError)])
async def test_a_commit_that_a_node_fails_may_have_happened(db: Database, code: str, expected: type[Exception]) -> None:
    with pytest.raises(expected) as raised:
        async with db.transaction() as connection:
            await connection.execute(
                f"""CREATE TEMPORARY TABLE failing (id bigint) ON COMMIT DROP;
                    CREATE FUNCTION pg_temp.fail() RETURNS trigger LANGUAGE plpgsql AS $$
                    BEGIN RAISE EXCEPTION 'the node is gone' USING ERRCODE = '{code}'; END $$;
                    CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON failing DEFERRABLE INITIALLY DEFERRED
                        FOR EACH ROW EXECUTE FUNCTION pg_temp.fail();
                    INSERT INTO failing VALUES (1)"""
            )
    assert isinstance(raised.value, Unavailable) == (code == "XX000")


@needs_cluster
@pytest.mark.timeout(300)
async def test_a_node_that_is_away_costs_only_its_own_stores(cluster: Cluster) -> None:
    near, far = [await cluster.shop_on(worker) for worker in cluster.workers]
    for shop in (near, far):
        await shop.add(MUG | {"stock": {"on_hand": 100}})
    order = {"line_items": [{"sku": "MUG-1", "quantity": 1}]}
    await cluster.proxy.shut()
    for turn in range(6):
        lost = await far.client.post("/orders", json=order, headers={"idempotency-key": f"far-{turn}"})
        assert (lost.status_code, lost.json()["code"], lost.headers["retry-after"]) == (503, "unavailable", "1")
        assert (await far.client.get("/products")).status_code == 503
        placed = await near.client.post("/orders", json=order, headers={"idempotency-key": f"near-{turn}"})
        assert placed.status_code == 201, placed.text
        assert (await near.client.get("/products")).status_code == 200
    await cluster.proxy.open()
    async with asyncio.timeout(BACK_S):
        while (await far.client.get("/products")).status_code != 200:
            await asyncio.sleep(0.1)
    for turn in range(6):
        again = await far.client.post("/orders", json=order, headers={"idempotency-key": f"far-{turn}"})
        assert (again.status_code, again.headers.get("idempotent-replayed")) == (201, None), again.text
    totals = [(await shop.client.get("/orders")).json()["meta"]["total"] for shop in (near, far)]
    assert totals == [6, 6]


@needs_cluster
@pytest.mark.timeout(300)
async def test_webhooks_of_the_other_stores_are_delivered_while_a_node_is_away(cluster: Cluster) -> None:
    near, far = [await cluster.shop_on(worker) for worker in cluster.workers]
    answer = asyncio.Event()
    settings = cluster.application.settings

    async def respond_late(_request: web.Request, _received: Received) -> web.StreamResponse:
        await answer.wait()
        return web.Response()

    async with Receiver() as near_receiver, Receiver(respond_late) as far_receiver:
        hook = await subscribe(near, near_receiver.url, "product.created")
        await subscribe(far, far_receiver.url, "product.created")
        async with working(settings):
            # The node of one store is lost while a delivery of that store is under way.
            await create_product(near)
            await create_product(far)
            await far_receiver.until(1)
            await near_receiver.until(1)
            await cluster.proxy.shut()
            answer.set()
            for number in range(2, 5):
                await create_product(near)
                await near_receiver.until(number)
            async with working(settings):  # a worker that starts now
                [first, *_] = (await near.client.get(f"/webhooks/{hook.id}/deliveries", params={"after": 0})).json()[
                    "data"
                ]
                again = await near.client.post(f"/webhooks/{hook.id}/redeliver", json={"delivery_ids": [first["id"]]})
                assert again.status_code == 202, again.text
                await near_receiver.until(5)
            await create_product(near)
            await near_receiver.until(6)
            await cluster.proxy.open()
            async with asyncio.timeout(BACK_S):
                while (await far.client.get("/products")).status_code != 200:
                    await asyncio.sleep(0.1)
            await create_product(far)
            await far_receiver.until(2)
        # The outcome that could not be stored at first was stored later: nothing was sent twice.
        assert [event["sequence"] for event in far_receiver.events] == [1, 2]
        assert [event["sequence"] for event in near_receiver.events] == [1, 2, 3, 4, 5, 6]
        assert near_receiver.events[4]["id"] == near_receiver.events[0]["id"]


@needs_cluster
@pytest.mark.timeout(300)
async def test_imports_and_feeds_of_the_other_stores_go_on_while_a_node_is_away(cluster: Cluster) -> None:
    near, far = [await cluster.shop_on(worker) for worker in cluster.workers]
    row = lines([MUG])
    jobs = [await send(shop, row) for shop in (far, near)]
    hooks = [await subscribe(shop, None, "product.created") for shop in (near, far)]
    waits = [
        asyncio.create_task(shop.client.get(f"/webhooks/{hook.id}/deliveries", params={"after": 0, "wait": 20}))
        for shop, hook in zip((near, far), hooks, strict=True)
    ]
    await asyncio.sleep(0.5)
    await cluster.proxy.shut()
    assert (await waits[1]).status_code == 503
    assert await run_pending(cluster.db) == 1
    job = await job_of(near, jobs[1]["id"])
    assert job["status"] == "succeeded", job
    await route(near)
    fed = await waits[0]
    assert (fed.status_code, fed.json()["data"][0]["event_type"]) == (200, "product.created")
    await cluster.proxy.open()
    assert await run_pending(cluster.db) == 1
    assert (await job_of(far, jobs[0]["id"]))["status"] == "succeeded"


@needs_cluster
@pytest.mark.timeout(300)
async def test_a_store_is_moved_to_shards_of_its_own_on_another_node_while_it_is_written_to(cluster: Cluster) -> None:
    shop = await cluster.shop_on(cluster.workers[0])
    await shop.add(MUG | {"stock": {"on_hand": 10_000}})
    asked = Isolation(shop.store.handle, cluster.workers[1])
    assert [step.action for step in await plan_isolation(cluster.url, asked)] == [
        "give it shards of its own",
        f"move it from {cluster.workers[0]} to {cluster.workers[1]}",
    ]
    statuses: list[int] = []
    moved = asyncio.Event()

    async def write() -> None:
        while not moved.is_set():
            answer = await shop.client.post("/orders", json={"line_items": [{"sku": "MUG-1", "quantity": 1}]})
            statuses.append(answer.status_code)
            await asyncio.sleep(0.2)

    writer = asyncio.create_task(write())
    done = await isolate(cluster.url, asked)
    moved.set()
    await writer
    assert len(done) == 2
    assert await isolate(cluster.url, asked) == await plan_isolation(cluster.url, asked) == []
    assert await plan(cluster.url) == []
    shard = await STORE_SHARD.one(cluster.db, shop.store_id)
    assert (shard.node, shard.own) == (cluster.workers[1], True)
    # Writes may be refused while their shard is switched, but none is lost.
    assert set(statuses) <= {201, 503}
    assert (await shop.client.get("/orders")).json()["meta"]["total"] == statuses.count(201) > 0
    [shown] = [store for store in (await read_status(cluster.db)).stores if store.store == shop.store.handle]
    assert (shown.node, shown.own_shards) == (cluster.workers[1], True)


@needs_cluster
@pytest.mark.timeout(300)
async def test_a_move_that_cannot_work_is_refused_with_what_to_do(cluster: Cluster) -> None:
    shop = await cluster.shop_on(cluster.workers[0])
    for asked, message in (
        (Isolation("nobody"), "no store with the handle nobody"),
        (Isolation(shop.store.handle, "db9.internal:5432"), "no worker of this cluster; choose one of"),
    ):
        with pytest.raises(IsolationRefused, match=message):
            await plan_isolation(cluster.url, asked)
    await cluster.proxy.shut()
    with pytest.raises(IsolationRefused, match="every node must run while a store moves"):
        await isolate(cluster.url, Isolation(shop.store.handle))
    await cluster.proxy.open()


@pytest.mark.not_on_cluster("it concerns a server without Citus")
async def test_a_database_on_one_server_is_refused(database_url: str) -> None:
    with pytest.raises(IsolationRefused, match="stoa db distribute"):
        await plan_isolation(database_url, Isolation("demo"))
