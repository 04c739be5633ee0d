"""Encrypts every stored secret again after a rotation of the secret key, in bounded batches that resume where they ended."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec
import structlog

from stoa.access.audit_heads import renew_heads
from stoa.access.encryption import Cipher, Undecryptable
from stoa.db.query import Command, Executor, Query
from stoa.db.service_facts import FACT, NOTE
from stoa.secret_keys import Keys, key_fingerprint

BATCH = 1_000  # values that one run of maintenance reads at most
AGAIN_AFTER = timedelta(days=1)  # a process that still had the former key may have used it since
_FACT = "reencryption"
_ALL_STORES = "a new key encrypts the secrets of all stores"


class EncryptedValue(msgspec.Struct):
    """An encrypted value, where it is stored, and what it is bound to."""

    store_id: int
    id: int
    value: bytes
    table: str
    column: str
    bound_store: int
    bound_id: int


class Column(msgspec.Struct, frozen=True):
    """A column of encrypted values: its next batch, and the replacement of one value unless it changed meanwhile."""

    read: Query[EncryptedValue]
    write: Command


class Progress(msgspec.Struct):
    """How far a pass through all columns under a key has come; `finished` says that it found nothing else to encrypt."""

    key: str  # its fingerprint
    column: int = 0
    store_id: int = 0
    id: int = 0
    encrypted: int = 0
    unreadable: int = 0
    finished: bool = False


def _of_subscriptions(column: str, bound_to: str) -> Column:
    return Column(
        Query(
            EncryptedValue,
            f"""SELECT store_id, id, {column} AS value, {bound_to} FROM webhooks
                 WHERE (store_id, id) > ($1, $2) AND {column} IS NOT NULL AND managed_by IS NULL ORDER BY store_id, id LIMIT $3""",
            unbound=_ALL_STORES,
        ),
        Command(f"UPDATE webhooks SET {column} = $4 WHERE store_id = $1 AND id = $2 AND {column} = $3"),
    )


def _of_the_service(table: str, key: str, column: str, bound_column: str) -> Column:
    return Column(
        Query(
            EncryptedValue,
            f"""SELECT $1::bigint AS store_id, {key} AS id, {column} AS value, '{table}' AS table,
                       '{bound_column}' AS column, 0::bigint AS bound_store, {key} AS bound_id
                  FROM {table} WHERE {key} > $2 AND {column} IS NOT NULL ORDER BY {key} LIMIT $3""",
            unbound=_ALL_STORES,
        ),
        Command(
            f"UPDATE {table} SET {column} = $4 WHERE $1::bigint = 0 AND {key} = $2 AND {column} = $3",
            unbound=_ALL_STORES,
        ),
    )


_SIGNING = """CASE WHEN of_app THEN 'app_callbacks' ELSE 'webhooks' END AS table, 'secret' AS column,
       CASE WHEN of_app THEN 0 ELSE store_id END AS bound_store, CASE WHEN of_app THEN app_id ELSE id END AS bound_id"""
_HEADERS = "'webhooks' AS table, 'headers' AS column, store_id AS bound_store, id AS bound_id"
# Values that expire by themselves within days, such as results of forms and stored responses, are left as they are.
STORE_COLUMNS = (
    _of_subscriptions("sealed_secret", _SIGNING),
    _of_subscriptions("sealed_old_secret", _SIGNING),
    _of_subscriptions("sealed_headers", _HEADERS),
)
COLUMNS = (
    *STORE_COLUMNS,
    _of_the_service("app_callbacks", "app_id", "sealed_secret", "secret"),
    _of_the_service("app_callbacks", "app_id", "sealed_old_secret", "secret"),
    _of_the_service("accounts", "id", "totp_secret", "totp_secret"),
    _of_the_service("shards", "id", "url", "url"),
)
DUE = Query(
    bool,
    "SELECT NOT EXISTS (SELECT FROM service_facts WHERE name = 'reencryption' AND noted_at > now() - $1::interval)",
    unbound=_ALL_STORES,
)


async def progress(db: Executor, key: bytes) -> Progress:
    """The progress of the pass under this key; a new one if there is none."""
    text, fingerprint = await FACT.maybe(db, _FACT), key_fingerprint(key)
    stored = msgspec.json.decode(text, type=Progress) if text else None
    return stored if stored is not None and stored.key == fingerprint else Progress(fingerprint)


async def reencrypt(db: Executor, keys: Keys, most: int = BATCH, columns: Sequence[Column] = COLUMNS) -> None:
    """Continue the pass by one batch, in the transaction of the caller, which no other worker runs at the same time."""
    if len(keys.all) == 1:
        return
    done = await progress(db, keys.current)
    if done.finished:
        if not await DUE.one(db, AGAIN_AFTER):
            return
        done = Progress(done.key)
    cipher = Cipher(keys)
    while most > 0 and done.column < len(columns):
        column = columns[done.column]
        rows = await column.read.all(db, done.store_id, done.id, most)
        for row in rows:
            await _encrypt(db, cipher, column, row, done)
        if len(rows) < most:
            done.column, done.store_id, done.id = done.column + 1, 0, 0
        most -= len(rows)
    if most > 0 and done.column == len(columns):
        chains, renewed = await renew_heads(db, keys, done.id - 1, most)
        done.id, done.encrypted = max(chains, default=0) + 1, done.encrypted + renewed
        done.column += len(chains) < most
    if done.column > len(columns):
        structlog.get_logger().info(
            "stored secrets were encrypted with the current key",
            encrypted=done.encrypted,
            unreadable=done.unreadable,
            key=done.key[:8],
        )
        # A value may have been written with the former key behind the pass, so only a pass without any is the last.
        done = Progress(done.key, unreadable=done.unreadable, finished=not done.encrypted)
    await NOTE.run(db, _FACT, msgspec.json.encode(done).decode())


async def _encrypt(db: Executor, cipher: Cipher, column: Column, row: EncryptedValue, done: Progress) -> None:
    done.store_id, done.id = row.store_id, row.id
    try:
        renewed = cipher.renewed(row.value, row.table, row.column, row.bound_store, row.bound_id)
    except Undecryptable:
        done.unreadable += 1
        return
    if renewed is not None:
        done.encrypted += await column.write.run(db, row.store_id, row.id, row.value, renewed)
