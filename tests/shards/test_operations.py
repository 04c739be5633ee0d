"""What an operator does with a service of several shards: creates stores in them, measures them, backs them up, and restores one."""

import asyncio
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from prometheus_client import REGISTRY
from tests.support.databases import PATIENCE_S
from tests.support.fleet import FENCING, Fleet, copied_database, unused

from stoa.access import stores
from stoa.access.console import all_shards
from stoa.access.contract import HandleTaken, NoShardForStores
from stoa.access.encryption import Cipher
from stoa.access.operator import Operator, find_store, known_store
from stoa.background import store_receivers
from stoa.backup.archive import opened
from stoa.cli import cli
from stoa.customers.erasure import identify
from stoa.db.pool import Database
from stoa.db.shard_outbox import receive_for_stores
from stoa.db.shards import Shards
from stoa.events.outbox import Cause
from stoa.operations.measuring import Sampler, measure, measure_forever
from stoa.rest import list_reader
from stoa.rest.list_reader import ListReader
from stoa.rest.lists import Page
from stoa.settings import Settings, WrongSetting, secret_key
from stoa.shards import global_tables, membership, subscriptions
from stoa.shards.global_tables import PUBLICATION
from stoa.shards.registry import ShardRefused, check_restored, session
from stoa.store_data import customer_erasure, list_exports
from stoa.store_data.export import export_store
from stoa.store_data.held_store import StoreMoved

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
async def apart(replicating: str, settings: Settings) -> Fleet:
    """Databases that no other file uses, because one of them is restored."""
    names = ("work", "work_east", "work_west")
    urls = [await copied_database(replicating, unused(name)) for name in names]
    made = Fleet(settings, urls[0], {"east": urls[1], "west": urls[2]})
    await made.add_shards()
    return made


async def stoa(fleet: Fleet, *words: str, code: int = 0) -> tuple[Any, str]:
    """The JSON that a command prints, and what it prints on standard error."""
    environment = {"STOA_DATABASE_URL": fleet.directory.url, "STOA_SECRET_KEY": fleet.settings.secret_key}
    done = await asyncio.to_thread(CliRunner().invoke, cli, [*words, "--json"], env=environment)
    assert done.exit_code == code, done.output
    return (msgspec.json.decode(done.stdout) if done.stdout.strip() else None), done.stderr


class Reader:
    """An operator who reads from all shards."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._db = Database(fleet.directory.url, size=2, name=FENCING)

    async def __aenter__(self) -> Operator:
        self._all = all_shards(self._db, self._fleet.settings)
        everywhere = await self._all.__aenter__()
        return Operator(
            self._db, self._fleet.settings, actor="operator:tests", request_id="req_tests", everywhere=everywhere
        )

    async def __aexit__(self, *error: object) -> None:
        await self._all.__aexit__(None, None, None)
        await self._db.close()


async def test_a_store_is_created_in_the_shard_that_is_named(apart: Fleet) -> None:
    async with Reader(apart) as by:
        created = await stores.create_store(by, "named", "Named", "EUR", shard="east")
    assert created.shard == "east"
    for table in ("locations", "audit_entries"):
        counted = f"SELECT count(*) FROM {table} WHERE store_id = $1"
        assert await apart.one("east", counted, created.id) == 1
        assert await apart.one("", counted, created.id) == 0
    assert await apart.one("east", "SELECT store_is_here($1)", created.id)


async def test_an_interrupted_creation_is_completed_by_the_background_worker(
    apart: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise ConnectionAbortedError

    counted = "SELECT count(*) FROM locations WHERE store_id = $1"
    async with Reader(apart) as by:
        with monkeypatch.context() as patched:
            patched.setattr(stores, "receive_in_shard", fail)
            with pytest.raises(ConnectionAbortedError):
                await stores.create_store(by, "begun", "Begun", "EUR", shard="west")
        begun = await known_store(by.db, "begun")
        assert by.shards is not None
        west = await by.shards.database("west")
        await by.shards.catch_up("west")
        assert await apart.one("west", counted, begun.id) == 0
        for _ in range(2):
            await receive_for_stores(west, by.shards.directory, store_receivers(apart.settings))
            assert await apart.one("west", counted, begun.id) == 1
        for shard in ("west", "east", ""):
            with pytest.raises(HandleTaken):
                await stores.create_store(by, "begun", "Begun", "EUR", shard=shard)


async def test_a_new_store_goes_to_the_database_with_the_fewest(apart: Fleet) -> None:
    async with Reader(apart) as by:
        counts = {"": 0, "east": 0, "west": 0}
        for row in await stores.list_stores(by):
            counts[row.shard] += 1
        chosen = await stores.choose_shard(by, None)
        assert counts[chosen.shard] == min(counts.values())
        assert (await stores.choose_shard(by, "directory")).shard == ""
        with pytest.raises(NoShardForStores, match="directory, east, west"):
            await stores.choose_shard(by, "north")


async def test_commands_over_all_stores_name_a_shard_that_is_away(apart: Fleet) -> None:
    shop = await apart.open_shop(filled=False)
    await apart.move(shop, "west")
    listed, told = await stoa(apart, "app", "list")
    assert [row["stores"] for row in listed if row["id"] == shop.app_id] == [[shop.store.handle]]
    assert told == ""
    sealed = Cipher(secret_key(apart.settings)).encrypt
    async with apart.connection("") as directory:
        [[number, before]] = await directory.fetch("SELECT id, url FROM shards WHERE name = 'west'")
        nowhere = sealed("postgresql://stoa@127.0.0.1:1/nowhere", "shards", "url", 0, number)
        await directory.fetch("UPDATE shards SET url = $2 WHERE id = $1", number, nowhere)
        try:
            listed, told = await stoa(apart, "app", "list", code=4)
        finally:
            await directory.fetch("UPDATE shards SET url = $2 WHERE id = $1", number, before)
    assert [row["stores"] for row in listed if row["id"] == shop.app_id] == [[]]
    assert "west did not answer" in told


def sample(name: str, shard: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"shard": shard})


async def test_the_queues_of_each_shard_are_measured(apart: Fleet) -> None:
    directory = Database(apart.directory.url, name=FENCING)
    urls = {name: shard.url for name, shard in apart.shards.items() if name}
    rows = await directory.fetch("SELECT name, url FROM shards")
    names = {sealed: name for name, sealed in rows}
    shards = Shards(directory, lambda _, sealed: urls[names[sealed]])
    await shards.look()
    try:
        await measure(shards, sends=False)
        for shard in ("", "east", "west"):
            assert sample("stoa_webhook_pending", shard) == 0
            assert (sample("stoa_measured_timestamp_seconds", shard) or 0) > 0
            assert sample("stoa_shard_away", shard) == 0
        assert REGISTRY.get_sample_value("stoa_shard_moves_left") == 0
        assert (sample("stoa_replication_slot_bytes", "") or 0) > 0
        urls["west"] = "postgresql://stoa@127.0.0.1:1/nowhere"
        await shards.look()
        await measure(shards, sends=False)
        assert (sample("stoa_shard_away", "west"), sample("stoa_shard_away", "east")) == (1, 0)
    finally:
        await shards.close()
        await directory.close()


async def test_nothing_is_known_of_a_shard_that_was_removed(apart: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = Database(apart.directory.url, name=FENCING)
    shards = Shards(directory, lambda _number, _sealed: apart.shards["east"].url)
    rounds = iter(["with a shard", "without it", "the end"])

    async def next_round(_: float) -> None:
        if next(rounds) == "the end":
            raise TimeoutError
        await shards.close()
        shards._databases.clear()  # pyright: ignore[reportPrivateUsage]

    await shards.look()
    monkeypatch.setattr("stoa.operations.measuring.asyncio.sleep", next_round)
    with pytest.raises(TimeoutError):
        await measure_forever(shards, sends=False)
    monkeypatch.undo()
    await directory.close()
    assert math.isnan(sample("stoa_webhook_workers", "east") or 0)


async def test_the_copies_of_a_shard_that_was_removed_have_no_age(apart: Fleet) -> None:
    directory = Database(apart.directory.url, name=FENCING)
    shards = Shards(directory, lambda _number, _sealed: apart.shards["west"].url)
    sampler = Sampler("tests", {}, shards=shards)
    await shards.look()
    await sampler.sample()
    assert sample("stoa_shard_copy_age_seconds", "west") == math.inf
    await shards.close()
    shards._databases.clear()  # pyright: ignore[reportPrivateUsage]
    await sampler.sample()
    assert math.isnan(sample("stoa_shard_copy_age_seconds", "west") or 0)
    await directory.close()


async def test_one_shard_is_restored_while_the_others_stay(apart: Fleet, tmp_path: Path) -> None:
    kept, moved, lost = [await apart.open_shop() for _ in range(3)]
    await apart.move(kept, "east")
    await apart.move(moved, "east")
    folder = tmp_path / "all"
    files, told = await stoa(apart, "backup", str(folder), "--all-shards")
    assert [Path(row["file"]).name for row in files] == ["directory.backup", "east.backup", "west.backup"]
    assert "within" in told
    for name in ("directory", "east", "west"):
        with opened(folder / f"{name}.backup") as (_, manifest):
            assert manifest.shard == ("" if name == "directory" else name)
    saved = await apart.contents("east", kept)
    # After the backup, one store leaves the shard, another one arrives, and rows of the third are lost.
    await apart.move(moved, "west", "east")
    elsewhere = await apart.contents("west", moved)
    await apart.move(lost, "east")
    async with apart.connection("east") as db:
        await db.fetch("DELETE FROM stock_movements WHERE store_id = $1", kept.store_id)
        await db.fetch("UPDATE products SET deleted_at = now() WHERE store_id = $1", kept.store_id)
    _, told = await stoa(apart, "shard", "restore", "east", str(folder / "west.backup"), "--replace", code=1)
    assert "backup of west" in told
    done, _ = await stoa(apart, "shard", "restore", "east", str(folder / "east.backup"), "--replace")
    assert (done["left_out"], done["missing"]) == ([moved.store.handle], [lost.store.handle])
    assert await apart.contents("east", kept) == saved
    assert await apart.holders(kept) == ["east"]
    assert not any(count for count, _ in (await apart.contents("east", moved)).values())
    assert await apart.contents("west", moved) == elsewhere
    # The global tables follow the directory again.
    await apart.one("", "UPDATE stores SET name = 'Renamed' WHERE id = $1 RETURNING name", kept.store_id)
    renamed = "SELECT name = 'Renamed' FROM stores WHERE id = $1"
    async with asyncio.timeout(PATIENCE_S):
        while not await apart.one("east", renamed, kept.store_id):
            await asyncio.sleep(0.02)


async def status_of(fleet: Fleet, name: str) -> membership.ShardStatus:
    async with fleet.operator() as by:
        return next(each for each in await membership.statuses(by) if each.name == name)


async def test_a_restore_that_is_refused_leaves_the_shard_connected(apart: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "east.backup"
    await stoa(apart, "backup", str(file), "--shard", "east")
    async with apart.connection("east"):  # as a service has
        _, told = await stoa(apart, "shard", "restore", "east", str(file), "--replace", code=1)
    assert "a running Stoa has 1 open connections" in told
    assert (await status_of(apart, "east")).problem == ""


async def test_a_lost_shard_is_restored_into_an_empty_database(apart: Fleet, tmp_path: Path) -> None:
    shop = await apart.open_shop()
    await apart.move(shop, "east")
    file, url = tmp_path / "east.backup", apart.shards["east"].url
    await stoa(apart, "backup", str(file), "--shard", "east")
    saved = await apart.contents("east", shop)
    async with session(url) as db:
        await subscriptions.unsubscribe(db, PUBLICATION)
    name = await apart.one("east", "SELECT current_database()")
    async with apart.connection("") as directory:
        await directory.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await directory.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    words = ("shard", "restore", "east", str(file), "--replace")
    _, told = await stoa(apart, *words, code=2)
    assert "pass --erasures FILE" in told
    done, _ = await stoa(apart, *words, "--no-erasures")
    assert shop.store.handle not in (*done["left_out"], *done["missing"])
    assert await apart.contents("east", shop) == saved
    assert (await status_of(apart, "east")).problem == ""


async def erase(fleet: Fleet, shard: str, store_id: int) -> int:
    """Erase the first customer of a store; returns the id."""
    database = Database(fleet.shards[shard].url, size=1, name=FENCING)
    [[customer_id]] = await database.fetch("SELECT min(id) FROM customers WHERE store_id = $1", store_id)
    async with database.transaction(store_id) as db:
        locked = await customer_erasure.lock(db, store_id, customer_id)
        assert locked is not None
        person = await identify(db, store_id, customer_id, locked.head, Cause(None, "req_tests"))
        await customer_erasure.erase(db, person)
    await database.close()
    return customer_id


async def test_an_interrupted_restore_of_a_shard_repeats_the_erasures_when_it_runs_again(
    apart: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise ShardRefused("the copy failed")

    shop = await apart.open_shop()
    await apart.move(shop, "west")
    file = tmp_path / "west.backup"
    await stoa(apart, "backup", str(file), "--shard", "west")
    erased = await erase(apart, "west", shop.store_id)
    words = ("shard", "restore", "west", str(file), "--replace")
    with monkeypatch.context() as patched:
        patched.setattr(global_tables, "replicate", fail)
        await stoa(apart, *words, code=1)
    deleted = "SELECT deleted_at IS NOT NULL FROM customers WHERE store_id = $1 AND id = $2"
    assert not await apart.one("west", deleted, shop.store_id, erased)
    database = Database(apart.directory.url, size=1, name=FENCING)
    with pytest.raises(WrongSetting, match="stoa shard restore west FILE --replace"):
        await check_restored(database, apart.settings)
    found, _ = await stoa(apart, "doctor", code=1)
    assert "restore" in {each["check"]: each for each in found}["shard west"]["action"]
    done, _ = await stoa(apart, *words)
    assert done["erased"] == 1
    assert await apart.one("west", deleted, shop.store_id, erased)
    await check_restored(database, apart.settings)
    await database.close()


async def test_an_export_of_a_store_that_moves_meanwhile_fails(apart: Fleet) -> None:
    shop = await apart.open_shop()
    await apart.move(shop, "east")
    database = Database(apart.shards["east"].url, size=1, name=FENCING)
    exporting = export_store(database, await find_store(database, shop.store.handle), apart.settings)
    assert b'"type":"store"' in await anext(exporting)
    await apart.move(shop, "", "east")
    with pytest.raises(StoreMoved):
        _ = [lines async for lines in exporting]
    await database.close()


async def test_an_export_of_a_list_whose_store_moves_meanwhile_leaves_no_file(
    apart: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await apart.open_shop()
    await apart.move(shop, "east")
    read_on = list_exports._patiently  # pyright: ignore[reportPrivateUsage]

    async def move_first(reader: ListReader) -> Page[Any]:
        await apart.move(shop, "", "east")
        return await read_on(reader)

    monkeypatch.setattr(list_exports, "_patiently", move_first)
    monkeypatch.setattr(list_reader, "FIRST_ROWS", 1)
    words = ("export", "variants", "--store", shop.store.handle, "-o", str(tmp_path / "variants.ndjson"))
    _, told = await stoa(apart, *words, code=1)
    assert "has moved to another shard meanwhile" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
async def test_everything_is_restored_from_one_backup(apart: Fleet, tmp_path: Path) -> None:
    shops = {name: await apart.open_shop() for name in ("", "east", "west")}
    for name in ("east", "west"):
        await apart.move(shops[name], name)
    folder = tmp_path / "all"
    await stoa(apart, "backup", str(folder), "--all-shards")
    saved = {name: await apart.contents(name, shop) for name, shop in shops.items()}
    for name, shop in shops.items():
        async with apart.connection(name) as db:
            await db.fetch("UPDATE products SET deleted_at = now() WHERE store_id = $1", shop.store_id)
    await apart.one("", "UPDATE apps SET name = 'Later' WHERE id = $1 RETURNING id", shops[""].app_id)
    await stoa(apart, "restore", str(folder / "directory.backup"), "--replace")
    for name in ("east", "west"):
        done, _ = await stoa(apart, "shard", "restore", name, str(folder / f"{name}.backup"), "--replace")
        assert shops[name].store.handle not in (*done["left_out"], *done["missing"])
    for name, shop in shops.items():
        assert await apart.contents(name, shop) == saved[name]
        assert await apart.holders(shop) == [name]
        renamed = "SELECT name = 'Later' FROM apps WHERE id = $1"
        assert not await apart.one(name, renamed, shops[""].app_id)


async def test_a_backup_of_all_shards_waits_for_moves(apart: Fleet, tmp_path: Path) -> None:
    shop = await apart.open_shop(filled=False)
    async with apart.connection("") as directory:
        await directory.fetch(
            "INSERT INTO store_moves (store_id, source, target) VALUES ($1, '', 'west')", shop.store_id
        )
        try:
            _, told = await stoa(apart, "backup", str(tmp_path / "all"), "--all-shards", code=1)
            assert "a move of a store has not ended" in told
        finally:
            await directory.fetch("DELETE FROM store_moves WHERE store_id = $1", shop.store_id)
