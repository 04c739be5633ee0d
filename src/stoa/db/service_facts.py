"""What is known of the service as a whole: the fingerprint of its key, the addresses that it allows to webhooks, its last
backup, and whether it can write."""

import contextlib
import hashlib
import hmac
from datetime import datetime

from stoa.db.errors import PostgresError, Unavailable, sqlstate
from stoa.db.query import Command, Executor, Query
from stoa.settings import WrongSetting

_SERVICE = "a fact about the service belongs to no store"
_KEY, _BACKUP, _WEBHOOK_ALLOW = "key_fingerprint", "backup", "webhook_allow"
_NO_TABLE = "42P01"
_SHOWN_DIGITS = 8  # enough to compare, and useless to an attacker

FACT = Query(str, "SELECT value FROM service_facts WHERE name = $1", unbound=_SERVICE)
NOTED_AT = Query(datetime, "SELECT noted_at FROM service_facts WHERE name = $1", unbound=_SERVICE)
NOTE_FIRST = Command(
    "INSERT INTO service_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", unbound=_SERVICE
)
NOTE = Command(
    """INSERT INTO service_facts (name, value) VALUES ($1, $2)
           ON CONFLICT (name) DO UPDATE SET value = excluded.value, noted_at = now()""",
    unbound=_SERVICE,
)
# A real write, because a full disk or a missing privilege shows in no setting. If another worker writes the row at this
# moment, the database accepts writes, and this one need not wait.
WRITE = Command(
    """UPDATE service_facts SET noted_at = now()
        WHERE name = (SELECT name FROM service_facts WHERE name = 'writable' FOR UPDATE SKIP LOCKED)""",
    unbound=_SERVICE,
)


def key_fingerprint(key: bytes) -> str:
    """A fingerprint by which two keys are compared without revealing them."""
    return hmac.new(key, b"stoa key fingerprint", hashlib.sha256).hexdigest()[:32]


async def known_key(db: Executor) -> str | None:
    """The fingerprint of the key that belongs to the database; None before the first start."""
    try:
        return await FACT.maybe(db, _KEY)
    except PostgresError as error:
        if sqlstate(error) == _NO_TABLE:  # not migrated yet
            return None
        raise


async def check_key(db: Executor, key: bytes) -> None:
    """Refuse a key with which the stored credentials cannot be read."""
    known, given = await known_key(db), key_fingerprint(key)
    if known is not None and not hmac.compare_digest(known, given):
        raise WrongSetting(
            f"STOA_SECRET_KEY is not the key of this database: its fingerprint is {given[:_SHOWN_DIGITS]}, and the "
            f"database expects {known[:_SHOWN_DIGITS]}. Set the key with which the service was first started, or run "
            "`stoa accept-key` if that key is lost"
        )


async def record_key(db: Executor, key: bytes) -> None:
    """Store the fingerprint at the first start, and check it at every other."""
    await NOTE_FIRST.run(db, _KEY, key_fingerprint(key))
    await check_key(db, key)


async def replace_key(db: Executor, key: bytes) -> None:
    """Accept another key; credentials that were stored with the old one stay unreadable."""
    await NOTE.run(db, _KEY, key_fingerprint(key))


async def note_webhook_allow(db: Executor, allowed: str) -> None:
    """Note the addresses that the service allows, so that commands apply the same rule without its environment."""
    await NOTE.run(db, _WEBHOOK_ALLOW, allowed)


async def noted_webhook_allow(db: Executor) -> str:
    return await FACT.maybe(db, _WEBHOOK_ALLOW) or ""


async def note_backup(db: Executor) -> None:
    with contextlib.suppress(PostgresError, Unavailable):  # a standby has the backup, but cannot note it
        await NOTE.run(db, _BACKUP, "")


async def last_backup(db: Executor) -> datetime | None:
    return await NOTED_AT.maybe(db, _BACKUP)
