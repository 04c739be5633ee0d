"""Seals the audit log: the end of each chain has a MAC under a key that is not in the database, and is written to the log.

An entry's own seal is a plain hash, which anyone with access to the database can compute again. The MAC of a later end covers
every entry before it, so a rewritten or shortened chain no longer matches it.
"""

import hmac
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import structlog

from stoa.access import audit
from stoa.access.encryption import derived_key
from stoa.db.query import Command, Executor, Query
from stoa.db.service_facts import NOTE, NOTED_AT
from stoa.secret_keys import Keys

EVERY = timedelta(seconds=30)
BATCH = 5_000  # entries that one run of maintenance seals at most
MARGIN = audit.OLDEST + timedelta(minutes=30)  # no transaction lasts so long that it commits an entry that is older
_LOGGED_AT_ONCE = 500
_SCANNED = "audit_scan"
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_ALL_CHAINS = "the service seals the chains of all stores"


class SealedHead(msgspec.Struct):
    """An end of a chain with its MAC; `store_id` is 0 for the chain of the service."""

    store_id: int
    position: int
    seal: bytes
    mac: bytes


class _Last(msgspec.Struct):
    store_id: int
    position: int


class _Logged(msgspec.Struct):
    store_id: int
    name: str | None
    position: int
    seal: bytes


class Verified(msgspec.Struct):
    """The result of verifying a chain: its entries, how many of them a seal covers, and the first one that is wrong."""

    entries: int
    sealed: int
    first_bad: int | None


DUE = Query(
    bool,
    "SELECT NOT EXISTS (SELECT FROM service_facts WHERE name = 'audit_scan' AND noted_at > now() - $1::interval)",
    unbound=_ALL_CHAINS,
)
GROWN = Query(
    _Last,
    """SELECT store_id, max(position) AS position FROM audit_entries
        WHERE created_at > $1 AND store_id <> ALL ($2::bigint[]) GROUP BY store_id""",
    unbound=_ALL_CHAINS,
    over="shard",
)
HEAD = Query(
    SealedHead, "SELECT store_id, position, seal, mac FROM audit_heads WHERE store_id = $1", unbound=_ALL_CHAINS
)
HEADS = Query(
    SealedHead,
    "SELECT store_id, position, seal, mac FROM audit_heads WHERE store_id > $1 ORDER BY store_id LIMIT $2",
    unbound=_ALL_CHAINS,
)
POSITIONS = Query(
    _Last, "SELECT store_id, position FROM audit_heads WHERE store_id = ANY ($1::bigint[])", unbound=_ALL_CHAINS
)
SEAL = Command(
    """INSERT INTO audit_heads (store_id, position, seal, mac) VALUES ($1, $2, $3, $4)
           ON CONFLICT (store_id) DO UPDATE SET position = excluded.position, seal = excluded.seal, mac = excluded.mac,
               sealed_at = now()""",
    unbound=_ALL_CHAINS,
)
RENEW = Command("UPDATE audit_heads SET mac = $3 WHERE store_id = $1 AND position = $2", unbound=_ALL_CHAINS)
# A busy chain is logged once a minute, and each one once a day, so that a log of a few days names the end of every chain.
UNLOGGED = Query(
    _Logged,
    """SELECT h.store_id, (SELECT s.handle FROM stores s WHERE s.id = h.store_id) AS name, h.position, h.seal
         FROM audit_heads h
        WHERE h.logged_at IS NULL OR h.logged_at < now() - interval '1 day'
           OR (h.sealed_at > h.logged_at AND h.logged_at < now() - interval '1 minute')
        ORDER BY h.store_id LIMIT $1""",
    unbound=_ALL_CHAINS,
)
LOGGED = Command("UPDATE audit_heads SET logged_at = now() WHERE store_id = ANY ($1::bigint[])", unbound=_ALL_CHAINS)
FORGET_HEADS = Command("DELETE FROM audit_heads", unbound=_ALL_CHAINS)
FORGET_SCAN = Command("DELETE FROM service_facts WHERE name = 'audit_scan'", unbound=_ALL_CHAINS)


class Signer:
    """Computes and checks the MACs of ends. A key that was rotated out is not accepted, because a thief of it must not seal."""

    def __init__(self, keys: Keys) -> None:
        self._keys = [derived_key(key, b"stoa audit heads") for key in keys.configured]

    def mac(self, store_id: int, position: int, seal: bytes) -> bytes:
        return _mac(self._keys[0], store_id, position, seal)

    def accepts(self, head: SealedHead) -> bool:
        macs = [_mac(key, head.store_id, head.position, head.seal) for key in self._keys]
        return any(hmac.compare_digest(mac, head.mac) for mac in macs)


def _mac(key: bytes, store_id: int, position: int, seal: bytes) -> bytes:
    return hmac.digest(key, f"{store_id}:{position}:".encode() + seal, "sha256")


async def seal_chains(
    db: Executor, keys: Keys, most: int = BATCH, every: timedelta = EVERY, absent: Sequence[int] = ()
) -> None:
    """Seal the chains that have grown and log their ends, in a transaction that only one worker runs at a time.

    The chains of `absent` stores are left alone: this database does not hold them.
    """
    scanned = await NOTED_AT.maybe(db, _SCANNED)
    if not await DUE.one(db, every):
        return
    signer = Signer(keys)
    grown = {each.store_id: each.position for each in await GROWN.all(db, _since(scanned), list(absent))}
    grown[0] = (await audit.head(db, audit.SERVICE)).position
    sealed = {each.store_id: each.position for each in await POSITIONS.all(db, list(grown))}
    for store_id, position in sorted(grown.items()):
        if position > sealed.get(store_id, 0) and most > 0:
            most -= await _seal(db, signer, store_id, most, scanned)
    if most > 0:
        await NOTE.run(db, _SCANNED, "")
    await _log_heads(db)


def _since(scanned: datetime | None) -> datetime:
    return _BEGINNING if scanned is None else scanned - MARGIN


async def _seal(db: Executor, signer: Signer, store_id: int, most: int, scanned: datetime | None) -> int:
    """Seal the next entries of a chain unless it was altered; then the end that was sealed last stays as the evidence."""
    chain, head = store_id or audit.SERVICE, await HEAD.maybe(db, store_id)
    start = audit.START if head is None else audit.Head(head.position, head.seal)
    entries = await audit.page(db, chain, start.position, most)
    intact = (head is None or signer.accepts(head)) and await audit.holds(db, chain, start)
    end = audit.follow(chain, start, entries)
    if not intact or end is None or _overdue(entries, scanned):
        structlog.get_logger().error("the audit log was altered", store_id=store_id, position=start.position)
    elif end.position > start.position:
        await SEAL.run(db, store_id, end.position, end.seal, signer.mac(store_id, end.position, end.seal))
    return len(entries)


def _overdue(unsealed: list[audit.Entry], scanned: datetime | None) -> bool:
    """Whether entries are without a seal that they had: every entry before the last scan was sealed."""
    return scanned is not None and bool(unsealed) and unsealed[0].created_at < scanned - MARGIN


async def _log_heads(db: Executor) -> None:
    heads = await UNLOGGED.all(db, _LOGGED_AT_ONCE)
    for head in heads:
        name = audit.SERVICE_NAME if head.store_id == 0 else head.name
        if name is not None:  # its store is being erased
            note = audit.note_of(name, head.store_id or audit.SERVICE, audit.Head(head.position, head.seal))
            structlog.get_logger().info("audit head", note=note)
    if heads:
        await LOGGED.run(db, [head.store_id for head in heads])


async def verify(db: Executor, keys: Keys, store_id: int | None) -> Verified:
    """Walk a chain, and compare it with its sealed end."""
    head, scanned = await HEAD.maybe(db, store_id or 0), await NOTED_AT.maybe(db, _SCANNED)
    first_bad, last = await audit.verify(db, store_id), await audit.head(db, store_id)
    sealed = 0 if head is None else head.position
    if head is not None and first_bad is None:
        if not Signer(keys).accepts(head):
            first_bad, sealed = min(head.position, last.position), 0
        elif head.position > last.position:
            first_bad = last.position + 1
        elif not await audit.holds(db, store_id, audit.Head(head.position, head.seal)):
            first_bad = head.position
    if first_bad is None and _overdue(await audit.page(db, store_id, sealed, 1), scanned):
        first_bad = sealed + 1
    return Verified(last.position, sealed, first_bad)


async def renew_heads(db: Executor, keys: Keys, after: int, most: int) -> tuple[list[int], int]:
    """Seal ends again under the current key of the service; returns the chains of the batch, and how many had another key."""
    signer, heads, renewed = Signer(keys), await HEADS.all(db, after, most), 0
    for head in heads:
        mac = signer.mac(head.store_id, head.position, head.seal)
        if mac != head.mac and signer.accepts(head):
            renewed += await RENEW.run(db, head.store_id, head.position, mac)
    return [head.store_id for head in heads], renewed
