"""What is known of the service as a whole: the fingerprint of its key, the addresses that it allows to webhooks, its last
backup, whether a restore has not ended, and whether it can write."""

import contextlib
from datetime import datetime

from stoa.db.errors import PostgresError, Unavailable, sqlstate
from stoa.db.query import Command, Executor, Query
from stoa.secret_keys import Keys, key_fingerprint
from stoa.settings import WrongSetting

_SERVICE = "a fact about the service belongs to no store"
KEY, _BACKUP, _WEBHOOK_ALLOW, _SHARD = "key_fingerprint", "backup", "webhook_allow", "shard"
TO_REPEAT = "erasures_to_repeat"  # the erasures that a restore of this database has to repeat, until it has
_NO_TABLE = "42P01"
_SHOWN_DIGITS = 8  # enough to compare, and useless to an attacker

FACT = Query(str, "SELECT value FROM service_facts WHERE name = $1", unbound=_SERVICE)
NOTED_AT = Query(datetime, "SELECT noted_at FROM service_facts WHERE name = $1", unbound=_SERVICE)
# Returns nothing while another transaction that recorded it is not visible yet.
NOTE_FIRST = Query(
    str,
    """WITH first AS (
           INSERT INTO service_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING value)
       SELECT value FROM first UNION ALL SELECT value FROM service_facts WHERE name = $1""",
    unbound=_SERVICE,
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


async def known_key(db: Executor) -> str | None:
    """The fingerprint of the key that belongs to the database; None before the first credential."""
    return await _known(db, KEY)


async def _known(db: Executor, name: str) -> str | None:
    try:
        return await FACT.maybe(db, name)
    except PostgresError as error:
        if sqlstate(error) == _NO_TABLE:  # not migrated yet
            return None
        raise


async def check_key(db: Executor, keys: Keys) -> None:
    """Refuse a setting without the key of the stored credentials."""
    _check(await known_key(db), keys)


async def note_key(db: Executor, keys: Keys) -> None:
    """Record the fingerprint in the transaction of the first credential, and check it at every other."""
    known = await NOTE_FIRST.maybe(db, KEY, key_fingerprint(keys.current))
    _check(known or await FACT.maybe(db, KEY), keys)


def _check(known: str | None, keys: Keys) -> None:
    """A shard that was away during a rotation still has the former key, until maintenance replaces it there."""
    if known is not None and keys.find(known) is None:
        given = [key_fingerprint(key) for key in keys.configured]
        raise WrongSetting(
            f"STOA_SECRET_KEY is not the key of this database: its fingerprint is "
            f"{', '.join(each[:_SHOWN_DIGITS] for each in given)}, and the database expects {known[:_SHOWN_DIGITS]}. "
            "Set the key with which the first credential was created; to replace it, set the new key and this one, "
            "separated by a comma; if it is lost, run `stoa accept-key`"
        )


async def replace_key(db: Executor, keys: Keys) -> None:
    """Accept another key; credentials that were stored with the old one stay unreadable."""
    await NOTE.run(db, KEY, key_fingerprint(keys.current))


async def restore_has_ended(db: Executor) -> bool:
    """Whether no restore of this database was interrupted before it repeated the erasures since its backup."""
    return await _known(db, TO_REPEAT) is None


async def own_shard(db: Executor) -> str:
    """The name of the shard that the database is; empty for the directory."""
    return await FACT.maybe(db, _SHARD) or ""


async def note_webhook_allow(db: Executor, allowed: str) -> None:
    """Note the addresses that the service allows, so that commands apply the same rule without its environment."""
    await NOTE.run(db, _WEBHOOK_ALLOW, allowed)


async def noted_webhook_allow(db: Executor) -> str | None:
    """None if no service was started yet."""
    return await FACT.maybe(db, _WEBHOOK_ALLOW)


async def note_backup(db: Executor) -> None:
    with contextlib.suppress(PostgresError, Unavailable):  # a standby has the backup, but cannot note it
        await NOTE.run(db, _BACKUP, "")


async def last_backup(db: Executor) -> datetime | None:
    return await NOTED_AT.maybe(db, _BACKUP)
