"""The audit log stays intact under concurrent writers, and reveals tampering."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest

from stoa.access import audit
from stoa.access.operator import Operator
from stoa.db.connection import Connection
from stoa.db.pool import Database
from tests.access.tenants import open_store


async def append(db: Database, store_id: int, number: int) -> int:
    async with db.transaction() as transaction:
        return await audit.record(
            transaction,
            store_id,
            "test.happened",
            actor="operator:maria",
            subject=f"thing:{number}",
            detail={"b": 1, "a": [number, "é"]},
            request_id=f"req_{number}",
        )


async def chain(db: Database, operator: Operator, length: int = 5) -> int:
    """A store whose audit chain has this many entries, the first being its creation."""
    store = await open_store(operator)
    for number in range(length - 1):
        await append(db, store.id, number)
    return store.id


class Rollback(Exception):
    """Rolls back the transaction in which it is raised."""


@asynccontextmanager
async def tampering(db: Database, sql: str, *args: object) -> AsyncGenerator[Connection, None]:
    """A transaction in which the log is altered, rolled back so that every chain verifies again afterwards."""
    with suppress(Rollback):
        async with db.transaction() as altered:
            await altered.execute(sql, *args)
            yield altered
            raise Rollback


async def test_entries_are_numbered_and_the_chain_verifies(db: Database, operator: Operator) -> None:
    store_id = await chain(db, operator)
    entries = await audit.newest(db, store_id, 100)
    assert [entry.position for entry in entries] == [5, 4, 3, 2, 1]
    assert [entry.action for entry in entries][-1] == "store.created"
    assert entries[0].detail == '{"a":[3,"é"],"b":1}'
    assert await audit.verify(db, store_id) is None


async def test_an_empty_chain_verifies(db: Database) -> None:
    assert await audit.verify(db, 2**40) is None
    assert (await audit.head(db, 2**40)).position == 0


async def test_concurrent_appends_keep_the_chain_intact(db: Database, operator: Operator) -> None:
    store_id = (await open_store(operator)).id
    positions = await asyncio.gather(*(append(db, store_id, number) for number in range(60)))
    assert sorted(positions) == list(range(2, 62))
    assert await audit.verify(db, store_id) is None


async def test_a_race_for_the_first_entry_keeps_the_chain_intact(db: Database, operator: Operator) -> None:
    store_id = (await open_store(operator)).id
    await db.execute("DELETE FROM audit_entries WHERE store_id = $1", store_id)  # the chain does not exist yet
    positions = await asyncio.gather(*(append(db, store_id, number) for number in range(9)))
    assert sorted(positions) == list(range(1, 10))
    assert await audit.verify(db, store_id) is None


async def test_an_entry_is_rolled_back_with_its_transaction(db: Database, operator: Operator) -> None:
    store_id = await chain(db, operator, 2)
    with suppress(Rollback):
        async with db.transaction() as transaction:
            await audit.record(transaction, store_id, "x", actor="", subject="", detail={}, request_id="")
            raise Rollback
    assert (await audit.head(db, store_id)).position == 2
    assert await append(db, store_id, 1) == 3


@pytest.mark.not_on_cluster("Citus refuses the statements that alter the entry")
async def test_every_altered_field_is_found(db: Database, operator: Operator) -> None:
    alterations = {
        "action": "'app.created'",
        "actor": "'operator:mallory'",
        "subject": "subject || '1'",
        "detail": "'{}'",
        "request_id": "'req_other'",
        "created_at": "created_at + interval '1 microsecond'",
        "seal": "sha256('x')",
    }
    store_id = await chain(db, operator)
    for column, value in alterations.items():
        sql = f"UPDATE audit_entries SET {column} = {value} WHERE store_id = $1 AND position = 3"
        async with tampering(db, sql, store_id) as altered:
            assert await audit.verify(altered, store_id) == 3, column


async def test_an_entry_that_was_altered_with_its_seal_is_found_by_the_next_one(
    db: Database, operator: Operator
) -> None:
    store_id = await chain(db, operator)
    before, entry = await audit.page(db, store_id, 1, limit=2)
    entry.actor = "operator:mallory"
    fields = [store_id, *msgspec.structs.astuple(entry)[:-1]]
    seal = hashlib.sha256(before.seal + msgspec.json.encode(fields)).digest()
    sql = "UPDATE audit_entries SET actor = $2, seal = $3 WHERE store_id = $1 AND position = 3"
    async with tampering(db, sql, store_id, entry.actor, seal) as altered:
        assert await audit.verify(altered, store_id) == 4


async def test_a_removed_entry_is_found(db: Database, operator: Operator) -> None:
    store_id = await chain(db, operator)
    for position in (1, 3):
        sql = "DELETE FROM audit_entries WHERE store_id = $1 AND position = $2"
        async with tampering(db, sql, store_id, position) as altered:
            assert await audit.verify(altered, store_id) == position


@pytest.mark.not_on_cluster("Citus refuses to change the store of a row")
async def test_an_entry_moved_to_another_chain_is_found(db: Database, operator: Operator) -> None:
    store_id, other = await chain(db, operator, 3), await chain(db, operator, 2)
    sql = "UPDATE audit_entries SET store_id = $2 WHERE store_id = $1 AND position = 3"
    async with tampering(db, sql, store_id, other) as altered:
        assert await audit.verify(altered, other) == 3


async def test_a_note_reveals_that_the_end_was_cut_off(db: Database, operator: Operator) -> None:
    store_id = await chain(db, operator)
    noted = await audit.head(db, store_id)
    await append(db, store_id, 9)
    assert await audit.holds(db, store_id, noted)
    sql = "DELETE FROM audit_entries WHERE store_id = $1 AND position >= 4"
    async with tampering(db, sql, store_id) as altered:
        assert await audit.verify(altered, store_id) is None
        assert not await audit.holds(altered, store_id, noted)


async def test_long_chains_are_verified_to_their_end(db: Database, operator: Operator) -> None:
    store_id = (await open_store(operator)).id
    async with db.transaction() as transaction:
        for number in range(1_100):
            await audit.record(transaction, store_id, "x", actor="", subject=str(number), detail={}, request_id="")
    assert await audit.verify(db, store_id) is None
    sql = "UPDATE audit_entries SET subject = '' WHERE store_id = $1 AND position = 1050"
    async with tampering(db, sql, store_id) as altered:
        assert await audit.verify(altered, store_id) == 1050
