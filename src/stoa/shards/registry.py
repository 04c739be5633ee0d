"""The shards that the directory knows: their names, addresses and states, and connections to them."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from stoa.access.contract import AccessRefused
from stoa.access.encryption import Cipher, shard_url
from stoa.access.key_rotation import with_known_keys
from stoa.db.connection import Connection, connect
from stoa.db.errors import Unavailable
from stoa.db.pool import Database
from stoa.db.query import Command, Executor, Query
from stoa.db.service_facts import restore_has_ended
from stoa.db.shard_outbox import FORGET_OF_SHARD
from stoa.db.shards import DIRECTORY_NAME as DIRECTORY
from stoa.db.shards import SHARDS
from stoa.secret_keys import Keys
from stoa.settings import Settings, WrongSetting, secret_key

LOCK_S = 2.0
SESSION_NAME = "stoa shard"  # as pg_stat_activity shows it
_SERVICE = "shards belong to the service"


class ShardRefused(AccessRefused):
    """Something cannot be done with a shard; the message says what is missing."""


class Shard(msgspec.Struct):
    """A database with some of the stores. The directory's own name is empty."""

    name: str
    url: str
    state: str = "active"

    @property
    def shown(self) -> str:
        return self.name or DIRECTORY


RESTORE_LEFT = "a restore was interrupted before it erased again who was erased since the backup"
END_RESTORE = "`stoa restore` again, or `stoa erasures replay`"


def end_restore_of(shard: str) -> str:
    """The command that ends the interrupted restore of a shard."""
    return f"`stoa shard restore {shard} FILE --replace` again"


_KNOWS_SHARDS = Query(bool, "SELECT to_regclass('shards') IS NOT NULL", unbound=_SERVICE)
_HAS_SHARDS = Query(bool, "SELECT EXISTS (SELECT FROM shards)", unbound=_SERVICE)
_NEXT_ID = Query(int, "SELECT nextval('shard_ids')", unbound=_SERVICE)
_ADD = Command("INSERT INTO shards (id, name, url) VALUES ($1, $2, $3)", unbound=_SERVICE)
_LOCK = Query(int, "SELECT id FROM shards WHERE name = $1 FOR UPDATE", unbound=_SERVICE)
_SET_STATE = Command("UPDATE shards SET state = $2 WHERE name = $1", unbound=_SERVICE)
_SET_URL = Command("UPDATE shards SET url = $2 WHERE id = $1", unbound=_SERVICE)
_REMOVE = Command("DELETE FROM shards WHERE name = $1", unbound=_SERVICE)


async def shards_of(directory: Executor, keys: Keys) -> list[Shard]:
    """The registered shards, by name, without the directory itself."""
    cipher = Cipher(keys)
    return [Shard(row.name, shard_url(cipher, row.id, row.url), row.state) for row in await SHARDS.all(directory)]


async def registered_shards(directory: Executor, settings: Settings) -> list[Shard]:
    """The registered shards, for who has read only the settings; none before the migration that adds shards."""
    if not await _KNOWS_SHARDS.one(directory) or not await _HAS_SHARDS.one(directory):
        return []
    return await shards_of(directory, secret_key(await with_known_keys(directory, settings)))


async def check_restored(directory: Executor, settings: Settings) -> None:
    """Refuse to serve a database whose restore was interrupted, because it contains people who were erased since the backup. A
    shard that does not answer serves nothing, either."""
    if not await restore_has_ended(directory):
        raise WrongSetting(f"{RESTORE_LEFT}: run {END_RESTORE}")
    shards = await registered_shards(directory, settings)
    ended = await asyncio.gather(*(_restore_has_ended(shard) for shard in shards))
    if left := [shard.name for shard, done in zip(shards, ended, strict=True) if not done]:
        raise WrongSetting(f"shard {left[0]}: {RESTORE_LEFT}: run {end_restore_of(left[0])}")


async def _restore_has_ended(shard: Shard) -> bool:
    db = Database(shard.url, size=1)
    try:
        return await restore_has_ended(db)
    except Unavailable:
        return True
    finally:
        await db.close()


def find(name: str, shards: Sequence[Shard], directory_url: str) -> Shard:
    """A shard by the name that an operator gives; `directory` is the directory's own database."""
    if name in ("", DIRECTORY):
        return Shard("", directory_url)
    found = next((shard for shard in shards if shard.name == name), None)
    if found is None:
        known = ", ".join([DIRECTORY, *(shard.name for shard in shards)])
        raise ShardRefused(f'there is no shard "{name}"; choose one of {known}')
    return found


async def record(db: Executor, keys: Keys, name: str, url: str) -> None:
    """Record a shard; its URL is encrypted, because it can contain a password."""
    shard_id = await _NEXT_ID.one(db)
    await _ADD.run(db, shard_id, name, _encrypted(keys, shard_id, url))


async def set_url(db: Executor, keys: Keys, shard_id: int, url: str) -> None:
    await _SET_URL.run(db, shard_id, _encrypted(keys, shard_id, url))


def _encrypted(keys: Keys, shard_id: int, url: str) -> bytes:
    return Cipher(keys).encrypt(url, "shards", "url", 0, shard_id)


async def lock(db: Executor, name: str) -> None:
    """Wait for transactions that bring stores to a shard; none of them begins before this one has ended."""
    await _LOCK.maybe(db, name)


async def set_state(db: Executor, name: str, state: str) -> None:
    await _SET_STATE.run(db, name, state)


async def forget(db: Executor, name: str) -> None:
    """Forget a shard, and the messages for its stores."""
    await _REMOVE.run(db, name)
    await FORGET_OF_SHARD.run(db, name)


def address(url: str) -> str:
    """Where a URL leads to, without the login: host, port and database."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2] or ",".join(parse_qs(parts.query).get("host", ["localhost"]))
    return f"{hosts}{parts.path}"


@asynccontextmanager
async def session(url: str) -> AsyncGenerator[Connection]:
    """A connection for work that takes as long as it needs. Its commits are durable when they return."""
    try:
        db = await connect(
            url, statement_timeout_ms=0, lock_timeout_ms=10_000, timeout_s=10, name=SESSION_NAME, session=True
        )
    except Unavailable as error:
        raise ShardRefused(f"{address(url)}: {error}") from error
    try:
        await db.execute("SET synchronous_commit = on")
        yield db
    except BaseException:
        db.terminate()
        raise
    await db.close()


@asynccontextmanager
async def transaction(db: Connection) -> AsyncGenerator[None]:
    """One transaction of a session, which ends with the session if anything fails."""
    await db.execute("BEGIN")
    try:
        yield
    except BaseException:
        db.terminate()
        raise
    await db.execute("COMMIT")


async def take_lock(lock: Query[bool], db: Executor, *args: Any) -> bool:
    """Take a lock for the rest of a session. A command that has just ended has it until the server closes its session."""
    deadline = time.monotonic() + LOCK_S
    while not await lock.one(db, *args):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True
