"""The audit log: append-only entries in one hash chain per store, and one chain for the service."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from stoa.db.fan_out import FanOut, distinct, in_order
from stoa.db.query import Command, Executor, Query

SERVICE = None  # the chain of entries that belong to no single store
SERVICE_NAME = "-"  # of that chain; no store handle starts with a hyphen
ENTRY = "entry"  # the kind of a message to a store
# After the first scan, no entry is appended with an older time. Such an entry would look like one that has lost its seal.
OLDEST = timedelta(minutes=30)
_GENESIS = bytes(32)
_PAGE = 1_000


class Entry(msgspec.Struct):
    """One action: its actor, subject, time and request."""

    position: int
    action: str
    actor: str
    subject: str
    detail: str
    request_id: str
    created_at: datetime
    seal: bytes


class StoreEntry(Entry):
    """An entry of any chain; `store` is the handle of its store, or empty for the service."""

    store: str


class Conditions(msgspec.Struct, frozen=True):
    """Which entries to find; empty conditions do not limit them. `app` is the actor or the subject, such as app:7 or account:5."""

    actor: str = ""
    action: str = ""
    app: str = ""
    since: datetime | None = None
    until: datetime | None = None


class Head(msgspec.Struct, frozen=True):
    """The end of a chain; a copy kept elsewhere later proves that nothing before it was altered or removed."""

    position: int
    seal: bytes


START = Head(0, _GENESIS)


class LateEntry(msgspec.Struct):
    """An action in the directory, on its way to the log of a store in a shard."""

    action: str
    actor: str
    subject: str
    detail: dict[str, Any]
    request_id: str
    moment: datetime


class _Last(msgspec.Struct):
    position: int
    seal: bytes | None
    moment: datetime


# What people and operators do with a store is fenced here: none of it goes without an entry.
ENTER = Query(str, "SELECT enter_store($1)::text")
TOO_OLD = Query(
    bool,
    "SELECT $1 < clock_timestamp() - $2::interval AND EXISTS (SELECT FROM service_facts WHERE name = 'audit_scan')",
    unbound="it compares a time with the last scan of all chains",
)
# Appends to a chain are serialized by a lock on its first entry, which is never deleted.
LOCK = Query(int, "SELECT position FROM audit_entries WHERE store_id = $1 AND position = 1 FOR NO KEY UPDATE")
LAST = Query(
    _Last,
    """SELECT coalesce(last.position, 0) AS position, last.seal, clock_timestamp() AS moment
         FROM (SELECT 1) always LEFT JOIN (
              SELECT position, seal FROM audit_entries
               WHERE store_id = $1 ORDER BY position DESC LIMIT 1) last ON true""",
)
APPEND = Command(
    """INSERT INTO audit_entries
              (store_id, position, action, actor, subject, detail, request_id, created_at, seal)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (store_id, position) DO NOTHING"""
)
_ENTRY = "SELECT position, action, actor, subject, detail, request_id, created_at, seal FROM audit_entries"
FORWARDS = Query(Entry, f"{_ENTRY} WHERE store_id = $1 AND position > $2 ORDER BY position LIMIT $3")
NEWEST = Query(Entry, f"{_ENTRY} WHERE store_id = $1 ORDER BY position DESC LIMIT $2")
# A chain is read along its key, newest first; its conditions have no index, because a chain is short and few people search it.
_CONDITIONS = """($2 = '' OR actor = $2) AND ($3 = '' OR action = $3) AND ($4 = '' OR actor = $4 OR subject = $4)
          AND created_at >= coalesce($5::timestamptz, '-infinity') AND created_at < coalesce($6::timestamptz, 'infinity')"""
FOUND = Query(
    Entry,
    f"""{_ENTRY} WHERE store_id = $1 AND position < $8 AND {_CONDITIONS}
        ORDER BY store_id DESC, position DESC LIMIT $7""",
)
_NAMES = "SELECT DISTINCT {0} FROM audit_entries WHERE store_id = $1 AND {0} LIKE $2 ORDER BY {0} LIMIT 200"
ACTIONS = Query(str, _NAMES.format("action"))
ACTORS = Query(str, _NAMES.format("actor"))
SUBJECTS = Query(str, _NAMES.format("subject"))
SEAL_AT = Query(bytes, "SELECT seal FROM audit_entries WHERE store_id = $1 AND position = $2")

# The same for the chain of the service.
_NO_STORE = "these entries belong to no store"
SERVICE_LOCK = Query(
    int, "SELECT position FROM service_audit_entries WHERE position = 1 FOR NO KEY UPDATE", unbound=_NO_STORE
)
SERVICE_LAST = Query(
    _Last,
    """SELECT coalesce(last.position, 0) AS position, last.seal, clock_timestamp() AS moment
         FROM (SELECT 1) always LEFT JOIN (
              SELECT position, seal FROM service_audit_entries ORDER BY position DESC LIMIT 1) last ON true""",
    unbound=_NO_STORE,
)
SERVICE_APPEND = Command(
    """INSERT INTO service_audit_entries (position, action, actor, subject, detail, request_id, created_at, seal)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (position) DO NOTHING""",
    unbound=_NO_STORE,
)
_SERVICE_ENTRY = _ENTRY.replace("audit_entries", "service_audit_entries")
SERVICE_FORWARDS = Query(Entry, f"{_SERVICE_ENTRY} WHERE position > $1 ORDER BY position LIMIT $2", unbound=_NO_STORE)
SERVICE_NEWEST = Query(Entry, f"{_SERVICE_ENTRY} ORDER BY position DESC LIMIT $1", unbound=_NO_STORE)
SERVICE_FOUND = Query(
    Entry,
    f"{_SERVICE_ENTRY} WHERE position < $1 AND {_CONDITIONS} ORDER BY position DESC LIMIT $7",
    unbound=_NO_STORE,
)
_FIELDS = "position, action, actor, subject, detail, request_id, created_at, seal"
EVERYWHERE = FanOut(
    StoreEntry,
    f"""SELECT {_FIELDS}, (SELECT s.handle FROM stores s WHERE s.id = e.store_id) AS store FROM (
               SELECT store_id, {_FIELDS} FROM audit_entries
                WHERE created_at < $1 AND {_CONDITIONS} AND store_id <> ALL ($8::bigint[])
                ORDER BY created_at DESC LIMIT $7) e
         UNION ALL
        (SELECT {_FIELDS}, '' AS store FROM service_audit_entries WHERE created_at < $1 AND {_CONDITIONS}
          ORDER BY created_at DESC LIMIT $7)
         ORDER BY created_at DESC, store, position DESC LIMIT $7""",
    # Each shard has a copy of the log of the service.
    in_order("-created_at", "store", "-position", limit=7, unique=["store", "position"]),
    unbound="operators search the logs of all stores",
)
ALL_ACTIONS = FanOut(
    str,
    """SELECT action FROM (SELECT DISTINCT action FROM audit_entries WHERE store_id <> ALL ($1::bigint[])
                           UNION SELECT DISTINCT action FROM service_audit_entries) a ORDER BY action LIMIT 200""",
    distinct,
    unbound="operators search the logs of all stores",
)
SERVICE_SEAL_AT = Query(bytes, "SELECT seal FROM service_audit_entries WHERE position = $1", unbound=_NO_STORE)


def changed_values(values: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """The details of a change: the new values, and under `before` the ones that they replaced."""
    changed = {name: pair for name, pair in values.items() if pair[0] != pair[1]}
    after = {name: new for name, (_, new) in changed.items()}
    return {**after, "before": {name: old for name, (old, _) in changed.items()}}


async def record(
    db: Executor,
    store_id: int | None,
    action: str,
    *,
    actor: str,
    subject: str,
    detail: Mapping[str, Any],
    request_id: str,
    moment: datetime | None = None,
) -> int:
    """Append an entry in the caller's transaction, which locks the chain until it ends; returns the position.

    `moment` is the time of the action if it is not now: for the past of sample data, and for entries that follow from the directory.
    It is the time of the entry too, unless it is too old for that; then it is among the details.
    """
    if moment is not None and await TOO_OLD.one(db, moment, OLDEST):
        detail, moment = {**detail, "happened_at": moment}, None
    text = msgspec.json.encode(detail, order="deterministic").decode()
    if store_id is not None:
        await ENTER.one(db, store_id)
    while True:
        await (SERVICE_LOCK.maybe(db) if store_id is None else LOCK.maybe(db, store_id))
        last = await _last(db, store_id)
        at = moment or last.moment
        entry = Entry(last.position + 1, action, actor, subject, text, request_id, at, b"")
        seal = _seal(store_id, last.seal or _GENESIS, entry)
        fields = (entry.position, action, actor, subject, text, request_id, at, seal)
        # Only the first entry can conflict: there was no row to lock, and another transaction inserted it.
        inserted = SERVICE_APPEND.run(db, *fields) if store_id is None else APPEND.run(db, store_id, *fields)
        if await inserted:
            return entry.position


async def receive_entry(db: Executor, store_id: int, content: bytes) -> None:
    """Append an entry about what the directory did for a store, with the time of that unless it is long ago."""
    late = msgspec.json.decode(content, type=LateEntry)
    await record(
        db,
        store_id,
        late.action,
        actor=late.actor,
        subject=late.subject,
        detail=late.detail,
        request_id=late.request_id,
        moment=late.moment,
    )


async def _last(db: Executor, store_id: int | None) -> _Last:
    return await (SERVICE_LAST.one(db) if store_id is None else LAST.one(db, store_id))


async def verify(db: Executor, store_id: int | None) -> int | None:
    """The first position that is missing or was altered; None if the chain is intact."""
    end = START
    while entries := await page(db, store_id, end.position):
        for entry in entries:
            following = follow(store_id, end, [entry])
            if following is None:
                return end.position + 1
            end = following
    return None


def follow(store_id: int | None, end: Head, entries: Sequence[Entry]) -> Head | None:
    """The end of a chain after further entries; None if one of them does not continue it."""
    for entry in entries:
        seal = _seal(store_id, end.seal, entry)
        if entry.position != end.position + 1 or entry.seal != seal:
            return None
        end = Head(entry.position, seal)
    return end


def note_of(name: str, store_id: int | None, head: Head) -> str:
    """An end of a chain as text, to be kept elsewhere and compared later. Another store can have the name once a store is erased."""
    note = f"{name}:{head.position}:{head.seal.hex()}"
    return note if store_id is None else f"{note}:{store_id}"


async def page(db: Executor, store_id: int | None, after: int, limit: int = _PAGE) -> list[Entry]:
    """The entries after a position, oldest first."""
    if store_id is None:
        return await SERVICE_FORWARDS.all(db, after, limit)
    return await FORWARDS.all(db, store_id, after, limit)


async def head(db: Executor, store_id: int | None) -> Head:
    """The current end of the chain."""
    last = await _last(db, store_id)
    return Head(last.position, last.seal or _GENESIS)


async def found(db: Executor, store_id: int | None, where: Conditions, before: int, limit: int) -> list[Entry]:
    """The newest entries of a chain before a position that meet the conditions."""
    conditions = (where.actor, where.action, where.app, where.since, where.until, limit)
    if store_id is None:
        return await SERVICE_FOUND.all(db, before, *conditions)
    return await FOUND.all(db, store_id, *conditions, before)


async def found_everywhere(db: Executor, where: Conditions, before: datetime, limit: int) -> list[StoreEntry]:
    """The newest entries of all chains before a moment that meet the conditions."""
    conditions = (where.actor, where.action, where.app, where.since, where.until, limit)
    return await EVERYWHERE.all(db, before, *conditions)


async def holds(db: Executor, store_id: int | None, noted: Head) -> bool:
    """Whether an end that was noted earlier is still part of the chain."""
    if noted.position == 0:
        return True
    if store_id is None:
        return await SERVICE_SEAL_AT.maybe(db, noted.position) == noted.seal
    return await SEAL_AT.maybe(db, store_id, noted.position) == noted.seal


async def newest(db: Executor, store_id: int | None, limit: int) -> list[Entry]:
    return await (SERVICE_NEWEST.all(db, limit) if store_id is None else NEWEST.all(db, store_id, limit))


def _seal(store_id: int | None, previous: bytes, entry: Entry) -> bytes:
    fields = [
        store_id,
        entry.position,
        entry.action,
        entry.actor,
        entry.subject,
        entry.detail,
        entry.request_id,
        entry.created_at,
    ]
    return hashlib.sha256(previous + msgspec.json.encode(fields)).digest()
