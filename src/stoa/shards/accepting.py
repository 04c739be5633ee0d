"""Makes another key the key of the directory and of every shard, because the former one is lost."""

from collections.abc import Mapping
from contextlib import AsyncExitStack

from stoa.access.audit_heads import FORGET_HEADS, FORGET_SCAN
from stoa.access.encryption import Cipher, Undecryptable, shard_url
from stoa.access.key_rotation import FORGET_RETIRED
from stoa.db.connection import Connection
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.db.service_facts import own_shard, replace_key
from stoa.db.shards import SHARDS
from stoa.db.shards import Shard as Registered
from stoa.secret_keys import Keys
from stoa.shards import registry
from stoa.shards.registry import ShardRefused, session, transaction


async def accept_key(directory: Database, keys: Keys, urls: Mapping[str, str]) -> None:
    """Accept the current key in all databases, the directory last; until then, it may be repeated.

    The addresses of the shards are encrypted with the former key, so they are given (`urls`, by name), and stored again.
    """
    shards = await SHARDS.all(directory)
    if unknown := sorted(urls.keys() - {shard.name for shard in shards}):
        raise ShardRefused(f"there is no shard {unknown[0]}")
    known = {shard.name: _url_of(shard, keys, urls) for shard in shards}
    if missing := [name for name, url in known.items() if url is None]:
        raise ShardRefused(
            f"the addresses of the shards ({', '.join(missing)}) are encrypted with the former key: "
            "pass each as --shard NAME=URL"
        )
    async with AsyncExitStack() as stack:
        opened: list[Connection] = []
        for name, url in known.items():
            db = await stack.enter_async_context(session(url or ""))
            if await own_shard(db) != name:
                raise ShardRefused(f"{registry.address(url or '')} is not the database of the shard {name}")
            opened.append(db)
        for db in opened:
            async with transaction(db):
                await _accept(db, keys)
    async with directory.transaction() as db:
        for shard in shards:
            await registry.set_url(db, keys, shard.id, known[shard.name] or "")
        await _accept(db, keys)


def _url_of(shard: Registered, keys: Keys, urls: Mapping[str, str]) -> str | None:
    if shard.name in urls:
        return urls[shard.name]
    try:
        return shard_url(Cipher(keys), shard.id, shard.url)
    except Undecryptable:
        return None


async def _accept(db: Executor, keys: Keys) -> None:
    await replace_key(db, keys)
    for forget in (FORGET_RETIRED, FORGET_HEADS, FORGET_SCAN):
        await forget.run(db)
