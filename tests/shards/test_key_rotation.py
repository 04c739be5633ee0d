"""A rotation of the secret key reaches every shard, also one that was away meanwhile."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import BytesIO

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.support.fleet import FENCING, Fleet, copied_database, unused

from stoa.access import audit, audit_heads
from stoa.access.apps import create_app
from stoa.access.console import all_shards
from stoa.access.encryption import Cipher
from stoa.access.grants import install
from stoa.access.key_rotation import adopt_keys
from stoa.access.operator import Operator
from stoa.access.stores import create_store
from stoa.backup.saving import save
from stoa.cli import cli
from stoa.db.pool import Database
from stoa.db.service_facts import check_key, known_key
from stoa.operations.doctor import examine
from stoa.operations.finding import Finding
from stoa.operations.maintenance import maintain
from stoa.secret_keys import key_fingerprint
from stoa.settings import Settings, secret_key
from stoa.shards.registry import shards_of

pytestmark = pytest.mark.timeout(300)
PASSES = 3  # one that encrypts again, one that finds nothing, and one to spare


@pytest.fixture
async def rotating(replicating: str, settings: Settings) -> Fleet:
    """Databases that no other test uses, because their key is replaced."""
    urls = [await copied_database(replicating, unused(name)) for name in ("rotating", "rotating_east")]
    made = Fleet(settings, urls[0], {"east": urls[1]})
    await made.add_shards()
    return made


@asynccontextmanager
async def opened(fleet: Fleet, shard: str = "") -> AsyncGenerator[Database]:
    db = Database(fleet.shards[shard].url, size=2, name=FENCING)
    try:
        yield db
    finally:
        await db.close()


@asynccontextmanager
async def acting(db: Database, settings: Settings) -> AsyncGenerator[Operator]:
    async with all_shards(db, settings) as everywhere:
        yield Operator(db, settings, actor="operator:tests", request_id="req_tests", everywhere=everywhere)


def given(fleet: Fleet, *keys: str) -> Settings:
    return msgspec.structs.replace(fleet.settings, secret_key=",".join(keys), metrics="off")


async def doctor(settings: Settings) -> Finding:
    return {each.check: each for each in await examine(settings.database_url, settings)}["key"]


async def test_a_store_in_a_shard_is_changed_after_the_former_key_was_removed(rotating: Fleet) -> None:
    old, new = rotating.settings.secret_key, secrets.token_hex(32)
    async with opened(rotating) as directory, opened(rotating, "east") as east:
        first = await adopt_keys(directory, given(rotating, old))
        async with acting(directory, first) as by:
            store = await create_store(by, "kept", "Kept", "EUR", shard="east")
            app = await create_app(by, "An app", ["products:read"])
        await maintain(east, first)
        async with opened(rotating) as db:
            both = await adopt_keys(db, given(rotating, new, old))
        for _ in range(PASSES):
            await maintain(directory, both)
        finding = await doctor(given(rotating, new, old))
        assert (finding.status, "being encrypted again" in finding.detail) == ("warning", True), finding.detail

        # The shard has not noticed the rotation yet, and the former key is gone.
        after = await adopt_keys(directory, given(rotating, new))
        async with acting(directory, after) as by:
            await install(by, app.client_id, "kept")
        [newest, *_] = await audit.newest(east, store.id, 1)
        assert newest.action == "app.installed"

        await maintain(east, after)
        assert await known_key(east) == key_fingerprint(bytes.fromhex(new))


async def test_each_shard_keeps_the_new_key_and_seals_with_it(rotating: Fleet) -> None:
    old, new = rotating.settings.secret_key, secrets.token_hex(32)
    async with opened(rotating) as directory, opened(rotating, "east") as east:
        first = await adopt_keys(directory, given(rotating, old))
        async with acting(directory, first) as by:
            store = await create_store(by, "sealed", "Sealed", "EUR", shard="east")
        await maintain(east, first)
        late = await adopt_keys(directory, given(rotating, old, new))  # its process goes on running
        both = await adopt_keys(directory, given(rotating, new, old))
        for settings in (both, late):
            await maintain(east, settings)
            assert await known_key(east) == key_fingerprint(bytes.fromhex(new))
        for db in (directory, east):
            for _ in range(PASSES):
                await maintain(db, both)
        assert "can go" in (await doctor(given(rotating, new, old))).detail

        after = await adopt_keys(directory, given(rotating, new))
        verified = await audit_heads.verify(east, secret_key(after), store.id)
        assert (verified.first_bad, verified.sealed) == (None, verified.entries)
        await check_key(east, secret_key(given(rotating, new)))
        saved = await save(rotating.shards["east"].url, given(rotating, new), BytesIO())
        assert saved.key_fingerprint == key_fingerprint(bytes.fromhex(new))


async def test_the_former_key_stays_while_a_shard_is_away(rotating: Fleet) -> None:
    old, new = rotating.settings.secret_key, secrets.token_hex(32)
    async with opened(rotating) as directory:
        both = await adopt_keys(directory, given(rotating, new, old))
        [[number]] = await directory.fetch("SELECT id FROM shards WHERE name = 'east'")
        nowhere = Cipher(secret_key(both)).encrypt("postgresql://stoa@127.0.0.1:1/nowhere", "shards", "url", 0, number)
        await directory.fetch("UPDATE shards SET url = $2 WHERE id = $1", number, nowhere)
        for _ in range(PASSES):
            await maintain(directory, both)
        finding = await doctor(given(rotating, new, old))
        assert finding.status == "warning"
        assert "east may have secrets of" in finding.detail


async def test_a_lost_key_is_replaced_in_every_database(rotating: Fleet) -> None:
    old, new = rotating.settings.secret_key, secrets.token_hex(32)
    environment = {"STOA_DATABASE_URL": rotating.directory.url, "STOA_SECRET_KEY": new}

    async def accept(*shards: str) -> Result:
        words = ["accept-key", "--yes", *(f"--shard={shard}" for shard in shards)]
        return await asyncio.to_thread(CliRunner().invoke, cli, words, env=environment)

    east_url = rotating.shards["east"].url
    async with opened(rotating) as directory, opened(rotating, "east") as east:
        await adopt_keys(directory, given(rotating, old))
        for shards, words in (
            ([], "the addresses of the shards (east) are encrypted with the former key"),
            ([f"west={east_url}"], "there is no shard west"),
            ([f"east={rotating.directory.url}"], "is not the database of the shard east"),
        ):
            refused = await accept(*shards)
            assert (refused.exit_code, words in refused.output) == (1, True), refused.output
            assert await known_key(directory) == await known_key(east) == key_fingerprint(bytes.fromhex(old))
        accepted = await accept(f"east={east_url}")
        assert accepted.exit_code == 0, accepted.output
        assert await known_key(directory) == await known_key(east) == key_fingerprint(bytes.fromhex(new))
        settings = await adopt_keys(directory, given(rotating, new))
        assert [shard.url for shard in await shards_of(directory, secret_key(settings))] == [east_url]
        async with acting(directory, settings) as by:
            await create_store(by, "later", "Later", "EUR", shard="east")
