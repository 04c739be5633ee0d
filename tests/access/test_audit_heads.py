"""Somebody with access to the database cannot rewrite or shorten the audit log unnoticed."""

import hashlib
import itertools
import os
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
import structlog

from stoa.access import audit, audit_heads
from stoa.access.stores import create_store
from stoa.db.pool import Database
from stoa.demo.past import Past, PastOperator
from stoa.secret_keys import Keys
from stoa.settings import load
from stoa.store_data.store_erasure import delete_rows
from tests.support.service import migrated_database
from tests.support.shops import operator_of

KEYS = Keys(secrets.token_bytes(32))
ALWAYS = timedelta()
_numbers = itertools.count(1)


@pytest.fixture
async def db(worker_id: str) -> AsyncIterator[Database]:
    url = await migrated_database(f"heads_{worker_id}_{os.getpid()}_{next(_numbers)}")
    database = Database(url, size=2)
    yield database
    await database.close()


async def chain(db: Database, length: int = 6) -> int:
    """A store whose audit chain has this many entries, sealed by the service."""
    operator = operator_of(db, load({}, secret_key=KEYS.current.hex()))
    store = await create_store(operator, f"store-{next(_numbers)}", "A store", "USD")
    async with db.transaction() as transaction:
        await audit.record(transaction, audit.SERVICE, "x", actor="a", subject="", detail={}, request_id="r")
    for number in range(length - 1):
        await append(db, store.id, f"thing:{number}")
    await seal(db)
    return store.id


async def append(db: Database, store_id: int, subject: str) -> None:
    async with db.transaction() as transaction:
        await audit.record(transaction, store_id, "x", actor="a", subject=subject, detail={}, request_id="r")


async def seal(db: Database, keys: Keys = KEYS, most: int = audit_heads.BATCH) -> None:
    async with db.transaction() as transaction:
        await audit_heads.seal_chains(transaction, keys, most, ALWAYS)


async def rewrite(db: Database, store_id: int, position: int) -> None:
    """Alter an entry and compute every hash after it again, as somebody who knows the code can."""
    await db.execute(
        "UPDATE audit_entries SET actor = 'nobody' WHERE store_id = $1 AND position = $2", store_id, position
    )
    seal_before = bytes(32)
    for entry in await audit.page(db, store_id, 0):
        fields = msgspec.structs.astuple(entry)[:-1]
        digest = hashlib.sha256(seal_before + msgspec.json.encode([store_id, *fields])).digest()
        await db.execute(
            "UPDATE audit_entries SET seal = $3 WHERE store_id = $1 AND position = $2", store_id, entry.position, digest
        )
        seal_before = digest
    assert await audit.verify(db, store_id) is None, "the hashes alone do not reveal it"


async def first_bad(db: Database, store_id: int | None, keys: Keys = KEYS) -> int | None:
    return (await audit_heads.verify(db, keys, store_id)).first_bad


async def test_a_sealed_chain_verifies_to_its_end(db: Database) -> None:
    store_id = await chain(db)
    assert await audit_heads.verify(db, KEYS, store_id) == audit_heads.Verified(6, 6, None)
    await append(db, store_id, "later")
    assert await audit_heads.verify(db, KEYS, store_id) == audit_heads.Verified(7, 6, None)
    await seal(db)
    assert await audit_heads.verify(db, KEYS, store_id) == audit_heads.Verified(7, 7, None)
    assert await first_bad(db, audit.SERVICE) is None


async def test_a_rewritten_chain_is_found(db: Database) -> None:
    store_id = await chain(db)
    await rewrite(db, store_id, 3)
    assert await first_bad(db, store_id) == 6


async def test_a_rewritten_chain_is_not_sealed_again(db: Database) -> None:
    store_id = await chain(db)
    await rewrite(db, store_id, 3)
    await append(db, store_id, "later")
    with structlog.testing.capture_logs() as lines:
        await seal(db)
    assert "the audit log was altered" in [line["event"] for line in lines]
    assert await first_bad(db, store_id) == 6


async def test_a_cut_is_found(db: Database) -> None:
    store_id = await chain(db)
    await db.execute("DELETE FROM audit_entries WHERE store_id = $1 AND position > 4", store_id)
    assert await audit.verify(db, store_id) is None, "the hashes alone do not reveal it"
    assert await first_bad(db, store_id) == 5
    for number in range(3):  # other entries take the places of those that were cut off
        await append(db, store_id, f"other:{number}")
    await seal(db)
    assert await first_bad(db, store_id) == 6


async def test_a_seal_without_the_key_is_found(db: Database) -> None:
    store_id = await chain(db)
    await rewrite(db, store_id, 3)
    end = await audit.head(db, store_id)
    forged = audit_heads.Signer(Keys(secrets.token_bytes(32))).mac(store_id, end.position, end.seal)
    await audit_heads.SEAL.run(db, store_id, end.position, end.seal, forged)
    assert await first_bad(db, store_id) == 6
    await append(db, store_id, "later")
    await seal(db)
    assert await first_bad(db, store_id) is not None


async def test_a_seal_of_another_chain_is_found(db: Database) -> None:
    store_id, other = await chain(db), await chain(db)
    await db.execute(
        """UPDATE audit_heads SET (position, seal, mac) = (SELECT position, seal, mac FROM audit_heads WHERE store_id = $2)
            WHERE store_id = $1""",
        store_id,
        other,
    )
    assert await first_bad(db, store_id) == 6


async def test_a_removed_seal_of_old_entries_is_found_and_not_made_again(db: Database) -> None:
    store_id = await chain(db)
    await db.execute(
        "UPDATE audit_entries SET created_at = created_at - interval '2 hours' WHERE store_id = $1", store_id
    )
    await rewrite(db, store_id, 3)
    await db.execute("DELETE FROM audit_heads WHERE store_id = $1", store_id)
    assert await first_bad(db, store_id) == 1
    await append(db, store_id, "later")
    await seal(db)
    assert await first_bad(db, store_id) == 1


async def receive(db: Database, store_id: int, age: timedelta) -> audit.Entry:
    """Receive an entry about what the directory did some time ago; returns it."""
    moment = datetime.now(UTC) - age
    late = audit.LateEntry("store.closed", "operator:a", "store:x", {"reason": "late"}, "r", moment)
    async with db.transaction() as transaction:
        await audit.receive_entry(transaction, store_id, msgspec.json.encode(late))
    [newest] = await audit.newest(db, store_id, 1)
    return newest


async def test_an_entry_that_replication_brings_late_is_sealed(db: Database) -> None:
    store_id = await chain(db)
    received = await receive(db, store_id, timedelta(minutes=90))
    await seal(db)
    assert await audit_heads.verify(db, KEYS, store_id) == audit_heads.Verified(7, 7, None)
    await append(db, store_id, "later")
    with structlog.testing.capture_logs() as lines:
        await seal(db)
    assert "the audit log was altered" not in [line["event"] for line in lines]
    assert await audit_heads.verify(db, KEYS, store_id) == audit_heads.Verified(8, 8, None)
    detail = msgspec.json.decode(received.detail)
    happened = datetime.fromisoformat(detail.pop("happened_at"))
    assert timedelta(minutes=90) <= received.created_at - happened < timedelta(minutes=92)
    assert detail == {"reason": "late"}


async def test_an_entry_that_replication_brings_soon_has_the_time_of_its_action(db: Database) -> None:
    store_id = await chain(db)
    received = await receive(db, store_id, timedelta(minutes=20))
    assert received.detail == '{"reason":"late"}'
    assert timedelta(minutes=20) <= datetime.now(UTC) - received.created_at < timedelta(minutes=22)
    await seal(db)
    assert await audit_heads.verify(db, KEYS, store_id) == audit_heads.Verified(7, 7, None)


@pytest.mark.parametrize("scanned", [False, True])
async def test_a_store_with_a_past_is_sealed(db: Database, scanned: bool) -> None:
    if scanned:
        await chain(db)
    past = Past()
    await past.travel(db, datetime.now(UTC) - timedelta(days=30))
    settings = load({}, secret_key=KEYS.current.hex())
    operator = PastOperator(db, settings, actor="operator:demo", request_id="r", past=past)
    store = await create_store(operator, f"store-{next(_numbers)}", "A store", "USD")
    [created] = await audit.newest(db, store.id, 1)
    assert (created.created_at < datetime.now(UTC) - timedelta(days=29)) is not scanned
    await seal(db)
    await append(db, store.id, "later")
    await seal(db)
    assert await audit_heads.verify(db, KEYS, store.id) == audit_heads.Verified(2, 2, None)


async def test_entries_of_the_previous_release_are_sealed_by_the_first_run(db: Database) -> None:
    store_id = await chain(db)
    await db.execute("DELETE FROM audit_heads")
    await db.execute("DELETE FROM service_facts WHERE name = 'audit_scan'")
    await db.execute(
        "UPDATE audit_entries SET created_at = created_at - interval '9 days' WHERE store_id = $1", store_id
    )
    await rewrite(db, store_id, 1)  # with the hashes of the earlier times
    assert await audit_heads.verify(db, KEYS, store_id) == audit_heads.Verified(6, 0, None)
    await seal(db, most=4)  # in batches
    await seal(db, most=4)
    await seal(db)
    assert await audit_heads.verify(db, KEYS, store_id) == audit_heads.Verified(6, 6, None)


async def test_the_end_of_each_chain_is_logged_once(db: Database) -> None:
    with structlog.testing.capture_logs() as lines:
        store_id = await chain(db)
    [[handle]] = await db.fetch("SELECT handle FROM stores WHERE id = $1", store_id)
    notes = [line["note"] for line in lines if line["event"] == "audit head"]
    assert audit.note_of(handle, store_id, await audit.head(db, store_id)) in notes
    assert any(note.startswith("-:") for note in notes)
    with structlog.testing.capture_logs() as lines:
        await seal(db)
    assert [line for line in lines if line["event"] == "audit head"] == []
    await db.execute("UPDATE audit_heads SET logged_at = logged_at - interval '25 hours'")
    with structlog.testing.capture_logs() as lines:
        await seal(db)
    assert [line["note"] for line in lines if line["event"] == "audit head"] == notes


async def test_a_rotated_key_seals_again_and_the_former_one_no_longer_does(db: Database) -> None:
    store_id = await chain(db)
    new = secrets.token_bytes(32)
    during, after = Keys(new, (KEYS.current,)), Keys(new, (), (KEYS.current,))
    assert await first_bad(db, store_id, during) is None
    assert await first_bad(db, store_id, after) == 6
    chains, renewed = await audit_heads.renew_heads(db, during, -1, 100)
    assert (chains, renewed) == ([0, store_id], 2)
    assert await audit_heads.renew_heads(db, during, -1, 100) == (chains, 0)
    assert await first_bad(db, store_id, after) is None


async def test_an_erased_store_leaves_no_seal(db: Database) -> None:
    store_id = await chain(db)
    while await delete_rows(db, store_id, 100):
        pass
    assert await audit_heads.HEAD.maybe(db, store_id) is None
