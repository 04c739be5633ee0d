"""The rotation of the secret key: which key writes, and the keys of earlier rotations, which the database keeps encrypted.

A credential is stored as a hash, which cannot be computed again under another key. So a key that was rotated out is kept,
encrypted by the current one, and only recognizes what was stored before.
"""

import contextlib

import msgspec

from stoa.access import audit
from stoa.access.encryption import Cipher, Undecryptable
from stoa.db.pool import Database
from stoa.db.query import Command, Executor, Query
from stoa.db.service_facts import FACT, KEY, NOTE, known_key, note_key
from stoa.ids import new_id
from stoa.secret_keys import Keys, key_fingerprint, text_of
from stoa.settings import Settings, secret_key

_SERVICE = "the keys belong to the service"
_RETIRED = "retired_key:"


class _Fact(msgspec.Struct):
    name: str
    value: str


LOCK_KEY = Query(str, "SELECT value FROM service_facts WHERE name = 'key_fingerprint' FOR UPDATE", unbound=_SERVICE)
RETIRED = Query(
    _Fact,
    "SELECT name, value FROM service_facts WHERE starts_with(name, 'retired_key:') ORDER BY name",
    unbound=_SERVICE,
)
FORGET_RETIRED = Command("DELETE FROM service_facts WHERE starts_with(name, 'retired_key:')", unbound=_SERVICE)


async def adopt_keys(db: Database, settings: Settings) -> Settings:
    """At the start of a service: record its key, or replace the recorded one by the first key of the setting."""
    keys = secret_key(settings)
    async with db.transaction() as transaction:
        await note_key(transaction, keys)
        if former := await rotate_key(transaction, keys):
            await audit.record(
                transaction,
                audit.SERVICE,
                "key.rotated",
                actor="service",
                subject=f"key:{key_fingerprint(keys.current)[:8]}",
                detail={"former": former[:8]},
                request_id=new_id("req"),
            )
    return await with_known_keys(db, settings)


async def rotate_key(db: Executor, keys: Keys) -> str | None:
    """Make the first key the current one of this database, and keep the former one, encrypted by it; returns the fingerprint of
    the former one, or None if nothing changes.

    A key that was rotated out never comes back, so a machine whose setting is not changed yet cannot undo a rotation.
    """
    known, first = await LOCK_KEY.maybe(db), key_fingerprint(keys.current)
    former = keys.find(known) if known is not None else None
    if former is None or known == first or await FACT.maybe(db, _RETIRED + first) is not None:
        return None
    cipher = Cipher(keys)
    for fact in await RETIRED.all(db):
        with contextlib.suppress(Undecryptable):
            renewed = cipher.renewed(bytes.fromhex(fact.value), *_place(fact.name))
            if renewed is not None:
                await NOTE.run(db, fact.name, renewed.hex())
    name = f"{_RETIRED}{known}"
    await NOTE.run(db, name, cipher.encrypt(former.hex(), *_place(name)).hex())
    await NOTE.run(db, KEY, first)
    return known


async def with_known_keys(db: Executor, settings: Settings) -> Settings:
    """The settings with the recorded key first, and with the keys of earlier rotations."""
    keys, known = secret_key(settings), await known_key(db)
    current = next((key for key in keys.configured if key_fingerprint(key) == known), None)
    if current is None:
        return settings
    others = tuple(key for key in keys.configured if key != current)
    retired = tuple(key for key in await _retired(db, keys) if key not in keys.configured)
    found = Keys(current, others, retired)
    return settings if found == keys else msgspec.structs.replace(settings, secret_key=text_of(found))


async def _retired(db: Executor, keys: Keys) -> list[bytes]:
    cipher, opened = Cipher(keys), list[bytes]()
    for fact in await RETIRED.all(db):
        with contextlib.suppress(Undecryptable):
            opened.append(bytes.fromhex(cipher.decrypt(bytes.fromhex(fact.value), *_place(fact.name))))
    return opened


async def is_retired(db: Executor, key: bytes) -> bool:
    """Whether a key was rotated out, and the database keeps it."""
    return await FACT.maybe(db, _RETIRED + key_fingerprint(key)) is not None


def _place(name: str) -> tuple[str, str, int, int]:
    return "service_facts", name, 0, 0
