"""The list of erased customers, kept apart from backups: a restore of an older backup erases them again."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from itertools import groupby

import msgspec

from stoa.access.operator import Joined
from stoa.backup.archive import BackupRefused
from stoa.customers.erasure import INSERTED_AT, identify
from stoa.db.fan_out import FanOut, in_order
from stoa.db.pool import Database
from stoa.db.query import Command, Executor, Query
from stoa.db.service_facts import FACT, TO_REPEAT
from stoa.events.outbox import Cause
from stoa.store_data import customer_erasure

FORMAT = 1
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_EVERY_STORE = "the list contains the erasures of every store"
_FORGET = Command("DELETE FROM service_facts WHERE name = $1", unbound=_EVERY_STORE)


class Erased(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An erased customer, whom the id and the time of insertion identify. Erasures by 0.3.0 did not record that time."""

    customer_id: int
    at: datetime
    inserted_at: datetime | None = None


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
    """What a replay did. Customers that the database does not contain, or that are erased already, are `absent`; `others` are
    customers who have the id of an erased one, and were left alone."""

    erased: int
    absent: int
    others: int
    unknown_stores: list[str]


class _Row(msgspec.Struct):
    store_id: int
    handle: str
    created_at: datetime
    customer_id: int
    inserted_at: datetime | None
    at: datetime


# The audit log keeps every erasure; the tombstone of a customer is removed after 90 days.
ERASURES = FanOut(
    _Row,
    """SELECT s.id AS store_id, s.handle, s.created_at, split_part(e.subject, ':', 2)::bigint AS customer_id,
              (e.detail::json ->> 'inserted_at')::timestamptz AS inserted_at, max(e.created_at) AS at
         FROM audit_entries e JOIN stores s ON s.id = e.store_id
        WHERE e.action = 'customer.erased' AND e.created_at >= $1 AND e.store_id <> ALL ($2::bigint[])
        GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 4, 5""",
    in_order("store_id", "customer_id", "inserted_at", unique=["store_id", "customer_id", "inserted_at"]),
    unbound=_EVERY_STORE,
)
CREATED_AT = Query(datetime, "SELECT created_at FROM stores WHERE id = $1")


class _Present(msgspec.Struct):
    customer_id: int
    is_erased_one: bool


# A restore also restores the sequence of ids, so that another customer may have the id of an erased one. If the time of insertion
# was not recorded, the customer must at least have been inserted before the erasure.
PRESENT = Query(
    _Present,
    f"""SELECT c.id AS customer_id,
              bool_or(CASE WHEN erased.inserted_at IS NULL THEN {INSERTED_AT} <= erased.at
                           ELSE {INSERTED_AT} = erased.inserted_at END) AS is_erased_one
         FROM customers c JOIN unnest($2::bigint[], $3::timestamptz[], $4::timestamptz[]) AS erased (id, at, inserted_at)
              ON erased.id = c.id
        WHERE c.store_id = $1 AND c.deleted_at IS NULL GROUP BY c.id ORDER BY c.id""",
)


async def collect(db: Executor, since: datetime = BEGINNING) -> ErasureList:
    """Every erasure since a moment, by the audit log."""
    rows = await ERASURES.all(db, since)
    stores = [
        ErasedOfStore(*store, [Erased(row.customer_id, row.at, row.inserted_at) for row in found])
        for store, found in groupby(rows, lambda row: (row.store_id, row.handle, row.created_at))
    ]
    return ErasureList(FORMAT, datetime.now(UTC), since, stores)


async def not_repeated(db: Executor) -> list[ErasureList]:
    """The erasures that a restore of this database had to repeat, and has not yet."""
    noted = await FACT.maybe(db, TO_REPEAT)
    return [] if noted is None else msgspec.json.decode(noted, type=list[ErasureList])


async def repeat(db: Database | Joined, request_id: str) -> Replayed:
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
    result = Replayed(0, 0, 0, [])
    for store in (store for erasures in lists for store in erasures.stores):
        database = directory if database_of is None else await database_of(store.store_id)
        if await CREATED_AT.maybe(database, store.store_id) != store.created_at:
            result.unknown_stores.append(store.handle)
            continue
        columns = zip(*((each.customer_id, each.at, each.inserted_at) for each in store.customers), strict=True)
        present = await PRESENT.all(database, store.store_id, *map(list, columns)) if store.customers else []
        for each in present:
            if not each.is_erased_one:
                result.others += 1
                continue
            async with database.transaction() as db:
                locked = await customer_erasure.lock(db, store.store_id, each.customer_id)
                if locked is not None:
                    cause = Cause(None, request_id)
                    person = await identify(db, store.store_id, each.customer_id, locked.head, cause)
                    await customer_erasure.erase(db, person)
                    result.erased += 1
        result.absent += len({each.customer_id for each in store.customers}) - len(present)
    return result
