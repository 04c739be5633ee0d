"""The list of erased customers, kept apart from backups: a restore of an older backup erases them again."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from itertools import groupby

import msgspec

from stoa.access.operator import Joined
from stoa.backup.archive import BackupRefused
from stoa.customers.erasure import identify
from stoa.db.fan_out import FanOut, in_order
from stoa.db.pool import Database
from stoa.db.query import Command, Executor, Query
from stoa.db.service_facts import FACT
from stoa.events.outbox import Cause
from stoa.store_data import customer_erasure

FORMAT = 1
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
TO_REPEAT = "erasures_to_repeat"  # the fact by which a database whose restore has not ended knows them
_EVERY_STORE = "the list contains the erasures of every store"
_FORGET = Command("DELETE FROM service_facts WHERE name = $1", unbound=_EVERY_STORE)


class Erased(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    customer_id: int
    at: datetime


class ErasedOfStore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The erased customers of a store, which its id and its time of creation identify; the handle is for people."""

    store_id: int
    handle: str
    created_at: datetime
    customers: list[Erased]


class ErasureList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who was erased when. It contains ids only, no personal data."""

    format: int
    made_at: datetime
    since: datetime
    stores: list[ErasedOfStore]

    @property
    def count(self) -> int:
        return sum(len(store.customers) for store in self.stores)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    sha256: str
    erasures: msgspec.Raw


class Replayed(msgspec.Struct):
    """What a replay did. Customers that the database does not contain, or that are erased already, are `absent`."""

    erased: int
    absent: int
    unknown_stores: list[str]


class _Row(msgspec.Struct):
    store_id: int
    handle: str
    created_at: datetime
    customer_id: int
    at: datetime


# The audit log keeps every erasure; the tombstone of a customer is removed after 90 days.
ERASURES = FanOut(
    _Row,
    """SELECT s.id AS store_id, s.handle, s.created_at, split_part(e.subject, ':', 2)::bigint AS customer_id,
              max(e.created_at) AS at
         FROM audit_entries e JOIN stores s ON s.id = e.store_id
        WHERE e.action = 'customer.erased' AND e.created_at >= $1 AND e.store_id <> ALL ($2::bigint[])
        GROUP BY 1, 2, 3, 4 ORDER BY 1, 4""",
    in_order("store_id", "customer_id", unique=["store_id", "customer_id"]),
    unbound=_EVERY_STORE,
)
CREATED_AT = Query(datetime, "SELECT created_at FROM stores WHERE id = $1")
# A restore also restores the sequence of ids, so that a later customer may have the id of an erased one.
PRESENT = Query(
    int,
    """SELECT c.id FROM customers c JOIN unnest($2::bigint[], $3::timestamptz[]) AS erased (id, at) ON erased.id = c.id
        WHERE c.store_id = $1 AND c.deleted_at IS NULL AND c.created_at <= erased.at ORDER BY 1""",
)


async def collect(db: Executor, since: datetime = BEGINNING) -> ErasureList:
    """Every erasure since a moment, by the audit log."""
    rows = await ERASURES.all(db, since)
    stores = [
        ErasedOfStore(*store, [Erased(row.customer_id, row.at) for row in found])
        for store, found in groupby(rows, lambda row: (row.store_id, row.handle, row.created_at))
    ]
    return ErasureList(FORMAT, datetime.now(UTC), since, stores)


async def not_repeated(db: Executor) -> list[ErasureList]:
    """The erasures that a restore of this database had to repeat, and has not yet."""
    noted = await FACT.maybe(db, TO_REPEAT)
    return [] if noted is None else msgspec.json.decode(noted, type=list[ErasureList])


async def repeat(db: Database, request_id: str) -> Replayed:
    """Repeat the erasures after a restore, and then forget the list."""
    done = await replay(db, await not_repeated(db), request_id)
    await _FORGET.run(db, TO_REPEAT)
    return done


def to_bytes(erasures: ErasureList) -> bytes:
    """The content of the file: the list and its checksum."""
    raw = msgspec.json.encode(erasures)
    return msgspec.json.encode(_File(hashlib.sha256(raw).hexdigest(), msgspec.Raw(raw))) + b"\n"


def from_bytes(content: bytes, name: str) -> ErasureList:
    """The list in a file; a damaged one is refused, because a person could come back unnoticed."""
    try:
        file = msgspec.json.decode(content, type=_File)
        if hashlib.sha256(bytes(file.erasures)).hexdigest() != file.sha256:
            raise BackupRefused(f"{name} is damaged; use another list of erasures")
        erasures = msgspec.json.decode(file.erasures, type=ErasureList)
    except msgspec.DecodeError as error:
        raise BackupRefused(f"{name} is not a list of erasures, or it is damaged") from error
    if erasures.format != FORMAT:
        raise BackupRefused(f"{name} has format {erasures.format}; this release reads only format {FORMAT}")
    return erasures


async def replay(
    directory: Database | Joined,
    lists: Iterable[ErasureList],
    request_id: str,
    database_of: Callable[[int], Awaitable[Database | Joined]] | None = None,
) -> Replayed:
    """Erase every customer of the lists that the database of their store still contains, each in one transaction."""
    result = Replayed(0, 0, [])
    for store in (store for erasures in lists for store in erasures.stores):
        database = directory if database_of is None else await database_of(store.store_id)
        if await CREATED_AT.maybe(database, store.store_id) != store.created_at:
            result.unknown_stores.append(store.handle)
            continue
        ids, moments = [each.customer_id for each in store.customers], [each.at for each in store.customers]
        present = await PRESENT.all(database, store.store_id, ids, moments)
        for customer_id in present:
            async with database.transaction() as db:
                locked = await customer_erasure.lock(db, store.store_id, customer_id)
                if locked is not None:
                    cause = Cause(None, request_id)
                    await customer_erasure.erase(
                        db, await identify(db, store.store_id, customer_id, locked.head, cause)
                    )
                    result.erased += 1
        result.absent += len(ids) - len(present)
    return result
