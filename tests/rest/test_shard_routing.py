"""Requests to stores in a shard: where they read and write, and what they do when a store moves or a database is away."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.pictures.samples import picture, upload
from tests.support.sharded import NAME, Sharded, arrived, as_superuser, caught_up, eventually, place, sharded
from tests.support.shops import SHIRT, Shop, open_shop, operator_of

from stoa.access.admission import TTL_S
from stoa.access.grants import install, revoke_token
from stoa.access.queries import STORE_BY_HANDLE
from stoa.db.connection import connect
from stoa.db.errors import StoreElsewhere
from stoa.db.pool import Database
from stoa.media.queries import CLAIM_FILE
from stoa.rest.backends import IS_HERE, Backend, StoreReader
from stoa.settings import Settings
from stoa.shards import switching

pytestmark = pytest.mark.not_on_cluster("a service has either shards or a cluster")


@pytest.fixture(scope="module")
async def service(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sharded]:
    folder: Path = tmp_path_factory.mktemp("sharded") / "postgres"
    async with sharded(folder, settings) as found:
        yield found


@pytest.fixture
async def shop(service: Sharded) -> AsyncIterator[Shop]:
    opened = await service.open_shop()
    yield opened
    await opened.client.aclose()


async def count(db: Any, table: str, shop: Shop) -> int:
    return (await db.fetch(f"SELECT count(*) FROM {table} WHERE store_id = $1", shop.store_id))[0][0]


async def test_the_rows_of_a_store_are_in_its_shard_alone(service: Sharded, shop: Shop) -> None:
    await shop.fill()
    for table in ("products", "variants", "orders", "customers", "webhooks", "imports", "events", "idempotency_keys"):
        assert await count(service.directory, table, shop) == 0, table
    for table in ("products", "variants", "orders", "customers", "webhooks", "imports", "events"):
        assert await count(service.shard, table, shop) > 0, table


async def test_a_key_is_claimed_where_the_store_is(service: Sharded, shop: Shop) -> None:
    headers = {"idempotency-key": "once"}
    first = await shop.client.post("/products", json=SHIRT, headers=headers)
    again = await shop.client.post("/products", json=SHIRT, headers=headers)
    assert (first.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert await count(service.shard, "idempotency_keys", shop) == 1


async def test_a_cached_place_is_not_read_after_a_move(service: Sharded) -> None:
    shop = await open_shop(service.application, service.directory)
    await shop.add(SHIRT)
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 1
    await place(shop.store_id, service.directory, service.shard)
    await service.directory.fetch(  # what a move leaves behind until it cleans up
        "INSERT INTO store_residence (store_id, here) VALUES ($1, false)", shop.store_id
    )
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 1
    assert (
        await shop.client.post(
            "/products", json={**SHIRT, "name": "Another", "external_id": "2", "variants": [], "options": []}
        )
    ).status_code == 201
    assert await count(service.directory, "products", shop) == 0


async def test_a_request_asks_in_its_own_statement_or_transaction_whether_the_store_is_here(
    service: Sharded, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    [shirt] = await shop.add(SHIRT)
    sent: list[str] = []
    fetch = Database.fetch

    async def recorded(self: Database, sql: str, *args: Any) -> Any:
        sent.append(sql)
        return await fetch(self, sql, *args)

    monkeypatch.setattr(Database, "fetch", recorded)
    looks: list[tuple[int, ...]] = []
    for _ in range(3):
        sent.clear()
        for path in ("/products", f"/products/{shirt}", f"/products/{shirt}/variants"):
            assert (await shop.client.get(path)).status_code == 200
        signs = ("SELECT r.here FROM store_residence", "q.*, coalesce(pg_sequence_last_value")
        looks.append((sent.count(IS_HERE.sql), *(sum(sign in sql for sql in sent) for sign in signs)))
    assert looks == [(1, 1, 3), (0, 0, 4), (0, 0, 4)]  # the list of variants has two statements
    sent.clear()
    assert (await shop.client.post("/orders", json={"line_items": [{"sku": "LS-S", "quantity": 1}]})).status_code == 201
    assert (await shop.client.post("/customers", json={"email": "ada@example.com"})).status_code == 201
    assert IS_HERE.sql not in sent


async def test_a_reader_that_knows_a_store_notices_that_it_was_closed(service: Sharded) -> None:
    shop = await open_shop(service.application, service.directory)
    reader = StoreReader(Backend(service.directory, None, lambda _: None), shop.store_id, service.directory)
    total = "SELECT count(*), $1::bigint FROM products WHERE store_id = $1"  # one row, also where the store is not
    for _ in range(3):
        assert [tuple(row) for row in await reader.fetch(total, shop.store_id)] == [(0, shop.store_id)]
    async with service.directory.transaction() as db:
        await switching.set_residence(db, shop.store_id, here=False)
    # Without the count of a move, nothing is noticed, so this test can fail.
    assert len(await reader.fetch(total, shop.store_id)) == 1
    await switching.COUNT_CLOSING.one(service.directory)
    for _ in range(2):
        with pytest.raises(StoreElsewhere):
            await reader.fetch(total, shop.store_id)


async def test_a_reader_goes_on_when_another_store_was_closed(service: Sharded, shop: Shop) -> None:
    await shop.add(SHIRT)
    for _ in range(3):
        assert (await shop.client.get("/products")).json()["meta"]["total"] == 1
        await switching.COUNT_CLOSING.one(service.shard)
    assert (await shop.client.get("/products?q=nothing")).json()["data"] == []


async def test_the_directory_is_not_asked_for_a_store_that_a_shard_has_a_copy_of(
    service: Sharded, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await service.open_shop()
    await caught_up(service.directory, service.shard)
    await eventually(lambda: measured(service))
    asked: list[str] = []
    fetch = Database.fetch

    async def recorded(self: Database, sql: str, *args: Any) -> Any:
        if self is service.application.database:
            asked.append(sql)
        return await fetch(self, sql, *args)

    monkeypatch.setattr(Database, "fetch", recorded)
    assert (await shop.client.get("/products")).status_code == 200
    assert asked == []
    assert (await shop.service.get("/stores/nobody/api/v3/app/products")).status_code == 404
    assert asked == [STORE_BY_HANDLE.sql]


@pytest.mark.parametrize("path", ["/products?q=nothing", "/products/1", "/orders"])
async def test_a_read_without_rows_is_not_answered_by_the_database_that_the_store_has_left(
    service: Sharded, path: str
) -> None:
    shop = await open_shop(service.application, service.directory)
    before = await shop.client.get(path)
    await place(shop.store_id, service.directory, service.shard)  # the directory has no row of it any more
    reader = StoreReader(Backend(service.directory, None, lambda _: None), shop.store_id, service.directory)
    with pytest.raises(StoreElsewhere):
        await reader.fetch("SELECT id FROM products WHERE store_id = $1", shop.store_id)
    after = await shop.client.get(path)
    assert (after.status_code, after.json().get("data")) == (before.status_code, before.json().get("data"))


async def test_a_write_that_waits_for_a_move_is_carried_out_in_the_new_shard(service: Sharded) -> None:
    shop = await open_shop(service.application, service.directory, patient=True)
    assert (await shop.client.get("/products")).status_code == 200
    async with service.directory.transaction() as mover:
        await mover.fetch("SELECT pg_advisory_xact_lock(store_lock($1))", shop.store_id)
        writing = asyncio.create_task(shop.client.post("/customers", json={"email": "ada@example.com"}))
        grouped = asyncio.create_task(shop.client.post("/products/inventory/adjustments", json={"items": []}))
        await eventually(lambda: waiting(service, shop))
        await place(shop.store_id, service.directory, service.shard)
    assert (await writing).status_code == 201
    assert (await grouped).status_code < 500
    assert await count(service.shard, "customers", shop) == 1
    assert await count(service.directory, "customers", shop) == 0


@pytest.mark.parametrize("batch", [False, True])
async def test_a_picture_that_waits_for_a_move_is_stored_in_the_new_shard(service: Sharded, batch: bool) -> None:
    shop = await open_shop(service.application, service.directory, patient=True)
    assert (await shop.client.get("/products")).status_code == 200
    mug = {"name": "Mug", "price": "12.00", "images": [upload(picture())]}
    broken = {**mug, "images": [upload(b"not a picture")]}
    items = [{"op": "create", "data": each} for each in (broken, mug, broken)]
    path, body = ("/products/batch", {"mode": "independent", "items": items}) if batch else ("/products", mug)
    async with service.directory.transaction() as mover:
        await mover.fetch("SELECT pg_advisory_xact_lock(store_lock($1))", shop.store_id)
        uploading = asyncio.create_task(shop.client.post(path, json=body))
        await eventually(lambda: waiting(service, shop))
        await place(shop.store_id, service.directory, service.shard)
    answer = await uploading
    assert answer.status_code == (207 if batch else 201), answer.text
    if batch:
        assert [each["status"] for each in answer.json()["data"]] == ["failed", "created", "failed"]
    for table in ("products", "media_files"):
        assert [await count(each, table, shop) for each in (service.directory, service.shard)] == [0, 1], table


async def waiting(service: Sharded, shop: Shop) -> bool:
    rows = await service.directory.fetch("SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return len(rows) >= 1


async def test_without_the_fence_a_write_is_lost(service: Sharded) -> None:
    """The same interleaving on a pool that does not fence writes where the store was, so the test above can fail."""
    shop = await open_shop(service.application, service.directory)
    await place(shop.store_id, service.directory, service.shard)
    async with service.directory.transaction(shop.store_id) as db:
        await db.execute(f"INSERT INTO row_counts (store_id, resource, delta) VALUES ({shop.store_id}, 'products', 1)")
    assert await count(service.directory, "row_counts", shop) == 1


async def test_a_transaction_of_a_store_that_is_elsewhere_is_refused(service: Sharded, shop: Shop) -> None:
    with pytest.raises(StoreElsewhere):
        async with service.application.database.transaction(shop.store_id):
            raise AssertionError("the store is not here")
    with pytest.raises(StoreElsewhere):  # a function that enters the store by itself
        await CLAIM_FILE.one(service.application.database, shop.store_id, "1/a.webp", 1, 1, 1, [])


async def test_every_session_that_writes_says_that_it_fences(service: Sharded, shop: Shop) -> None:
    assert (await shop.client.post("/customers", json={"email": "ada@example.com"})).status_code == 201
    pool = (await service.application.shards.database(NAME)).fetch
    assert (await pool("SELECT current_setting('application_name')"))[0][0] == "stoa fencing"
    directory = service.application.database.fetch
    assert (await directory("SELECT current_setting('application_name')"))[0][0] == "stoa fencing"


async def test_a_revoked_token_is_refused_within_its_second(service: Sharded, shop: Shop) -> None:
    shards = service.application.shards
    await eventually(lambda: measured(service))
    assert shards.age(NAME) < TTL_S
    assert (await shop.client.get("/products")).status_code == 200
    await revoke_token(operator_of(service.directory, service.application.settings), shop.token)
    await asyncio.sleep(1)
    assert (await shop.client.get("/products")).status_code == 401


async def measured(service: Sharded) -> bool:
    await service.application.shards.measure()
    return service.application.shards.age(NAME) < TTL_S


async def test_a_revoked_token_is_refused_if_the_clock_of_the_directory_steps_back(
    service: Sharded, shop: Shop
) -> None:
    shards = service.application.shards
    await eventually(lambda: measured(service))
    assert (await shop.client.get("/products")).status_code == 200
    await arrived(service.shard, "SELECT EXISTS (SELECT FROM tokens WHERE app_id = $1)", shop.app_id)
    async with interrupted(service):
        await service.directory.fetch("UPDATE directory_beats SET beaten_at = now() + interval '10 minutes'")
        await shards.measure()
        await revoke_token(operator_of(service.directory, service.application.settings), shop.token)
        await asyncio.sleep(1)
        await shards.measure()
        assert (await shop.client.get("/products")).status_code == 401
    await eventually(lambda: measured(service))
    assert shards.age(NAME) >= 0


@asynccontextmanager
async def interrupted(service: Sharded) -> AsyncGenerator[None]:
    """Nothing is replicated meanwhile."""
    shard = await connect(as_superuser(service.shard.url))
    [[name]] = await shard.fetch(
        "SELECT subname FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    await shard.execute(f'ALTER SUBSCRIPTION "{name}" DISABLE')
    try:
        await arrived(service.shard, "SELECT pid IS NULL FROM pg_stat_subscription WHERE subname = $1", name)
        yield
    finally:
        await shard.execute(f'ALTER SUBSCRIPTION "{name}" ENABLE')
        await shard.close()


async def test_a_token_that_has_not_arrived_is_found_in_the_directory(service: Sharded, shop: Shop) -> None:
    await eventually(lambda: measured(service))
    await service.shard.execute("ALTER TABLE tokens DISABLE TRIGGER ALL")
    await service.shard.fetch("DELETE FROM tokens WHERE app_id = $1", shop.app_id)
    await service.shard.execute("ALTER TABLE tokens ENABLE TRIGGER ALL")
    assert (await shop.client.get("/products")).status_code == 200


async def test_a_store_whose_shard_is_away_costs_no_other_store_anything(service: Sharded, shop: Shop) -> None:
    lost = await open_shop(service.application, service.directory)
    await service.directory.fetch("UPDATE stores SET shard = 'nowhere' WHERE id = $1", lost.store_id)
    answers = await asyncio.gather(lost.client.get("/products"), shop.client.get("/products"))
    assert [each.status_code for each in answers] == [503, 200]
    assert answers[0].headers["retry-after"] == "1"


async def test_a_known_store_is_served_while_the_directory_is_away(service: Sharded, shop: Shop) -> None:
    assert (await shop.client.get("/products")).status_code == 200
    directory = service.application.database
    directory._closed = True  # pyright: ignore[reportPrivateUsage]
    try:
        await asyncio.sleep(TTL_S)
        assert (await shop.client.get("/products")).status_code == 200
        assert (await shop.client.post("/customers", json={"email": "ada@example.com"})).status_code == 201
        ready = await shop.service.get("/ready")  # or a proxy would take the process out
        assert (ready.status_code, ready.json()) == (200, {"status": "ready", "directory": "no database"})
        assert (await shop.service.get("/ready?deep")).status_code == 503
    finally:
        directory._closed = False  # pyright: ignore[reportPrivateUsage]


async def test_a_stream_follows_its_store(service: Sharded, shop: Shop) -> None:
    await shop.add(SHIRT)
    answer = await shop.client.get("/products", headers={"accept": "application/x-ndjson"})
    assert answer.status_code == 200
    assert len(answer.text.splitlines()) == 2


async def test_usage_is_counted_in_the_shard(service: Sharded, shop: Shop) -> None:
    assert (await shop.client.get("/products")).status_code == 200
    await service.application.usage.flush(service.application.shards)
    assert await count(service.shard, "usage_days", shop) == 1
    assert await count(service.directory, "usage_days", shop) == 0


async def test_a_store_that_was_just_created_in_a_shard_is_found(service: Sharded) -> None:
    shop = await service.open_shop()
    await arrived(service.shard, "SELECT EXISTS (SELECT FROM stores WHERE id = $1)", shop.store_id)
    assert (await shop.client.get("/orders")).status_code == 200


async def test_an_app_lists_its_installations_in_all_shards_in_order(service: Sharded) -> None:
    shops = [await service.open_shop()]
    by = operator_of(service.directory, service.application.settings)
    for _ in range(4):
        other = await open_shop(service.application, service.directory)
        await install(by, shops[0].client_id, other.store.handle)
        if len(shops) % 2:
            await place(other.store_id, service.directory, service.shard)
        shops.append(other)
    seen: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = await shops[0].service.get(
            "/oauth/installations",
            params={"limit": 2, **({"cursor": cursor} if cursor else {})},
            auth=(shops[0].client_id, shops[0].client_secret),
        )
        page = answer.json()
        seen += [each["store"]["id"] for each in page["data"]]
        cursor = page["meta"]["next_cursor"]
    assert seen == [shop.store_id for shop in shops]


async def test_a_token_for_one_store_is_issued_and_described(service: Sharded, shop: Shop) -> None:
    credentials = (shop.client_id, shop.client_secret)
    issuing = f"/stores/{shop.store.handle}/oauth/token"
    issued = await shop.service.post(issuing, data={"grant_type": "client_credentials"}, auth=credentials)
    assert issued.status_code == 200
    token = issued.json()["access_token"]
    described = await shop.service.post("/oauth/introspect", data={"token": token}, auth=credentials)
    assert described.json()["active"] is True


async def test_deep_readiness_names_a_shard_that_is_away(service: Sharded, shop: Shop) -> None:
    found = await shop.service.get("/ready?deep")
    assert "cannot be reached" not in found.text
    lost = await service.application.shards.database(NAME)
    lost._closed = True  # pyright: ignore[reportPrivateUsage]
    try:
        await asyncio.sleep(1)
        body = (await shop.service.get("/ready?deep")).json()
        assert body["problems"][f"shard {NAME}"] == "cannot be reached"
        assert (await shop.service.get("/ready")).status_code == 200
    finally:
        lost._closed = False  # pyright: ignore[reportPrivateUsage]
