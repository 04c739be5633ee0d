"""What is forgotten with a customer here: rows in reports, rows that still wait in files, and faults that events tell of."""

import asyncio
from typing import Any, cast

import msgspec

from stoa.customers.erasure import REACHES, SEARCHES, Person
from stoa.db.query import Command, Executor, Query
from stoa.imports.reading import cells_of, without_rows
from stoa.imports.sheets import Header

PAGE = 1_000

ROWS_OF_CUSTOMER = Command(
    """UPDATE import_rows SET key = '{}', changes = NULL, raw = NULL
        WHERE store_id = $1 AND result_id = $2 AND import_id IN (
              SELECT id FROM imports WHERE store_id = $1 AND resource = 'customers')"""
)


class KeptRow(msgspec.Struct):
    import_id: str
    row: int
    raw: str
    header: str | None


FAILED_ROWS = Query(
    KeptRow,
    """SELECT r.import_id, r.row, r.raw, i.header
         FROM import_rows r JOIN imports i ON i.store_id = $1 AND i.id = r.import_id
        WHERE r.store_id = $1 AND r.status = 'failed' AND i.resource = 'customers' AND (r.import_id, r.row) > ($2, $3)
        ORDER BY r.import_id, r.row LIMIT $4""",
)
BLANK_ROWS = Command(
    """UPDATE import_rows SET key = '{}', raw = ''
        WHERE store_id = $1 AND import_id = $2 AND row = ANY($3::integer[])"""
)


class WaitingPart(msgspec.Struct):
    import_id: str
    part: int
    header: str | None


WAITING_PARTS = Query(
    WaitingPart,
    """SELECT p.import_id, p.part, i.header
         FROM import_parts p JOIN imports i ON i.store_id = $1 AND i.id = p.import_id
        WHERE p.store_id = $1 AND i.resource = 'customers' ORDER BY p.import_id, p.part""",
)
PART = Query(bytes, "SELECT data FROM import_parts WHERE store_id = $1 AND import_id = $2 AND part = $3")
REPLACE_PART = Command("UPDATE import_parts SET data = $4 WHERE store_id = $1 AND import_id = $2 AND part = $3")
# Whoever works on it may hold the rows as they were: it loses its lease, and the job goes on with what is kept now.
TAKE_LEASE = Command(
    "UPDATE import_queue SET lease_owner = '', lease_until = now() WHERE store_id = $1 AND import_id = $2"
)


class Finished(msgspec.Struct):
    id: str
    data: str


FINISHED = Query(
    Finished,
    """SELECT id, data FROM events
        WHERE store_id = $1 AND type = 'customer.import_finished' AND resource_id IN (
              SELECT number FROM imports WHERE store_id = $1 AND resource = 'customers')""",
)
RETELL = Command("UPDATE events SET data = $3 WHERE store_id = $1 AND id = $2")


async def forget(db: Executor, person: Person) -> None:
    """Look through everything that imports of customers have kept, and empty what tells of this person."""
    await _forget_reports(db, person)
    await _forget_files(db, person)
    for event in await FINISHED.all(db, person.store_id):
        told = cast("dict[str, Any]", msgspec.json.decode(event.data))
        kept = [each for each in told.get("errors", []) if not _is_key_of(each["key"], person)]
        if len(kept) < len(told.get("errors", [])):
            data = msgspec.json.encode({**told, "errors": kept}).decode()
            await RETELL.run(db, person.store_id, event.id, data)


async def _forget_reports(db: Executor, person: Person) -> None:
    after = ("", 0)
    while rows := await FAILED_ROWS.all(db, person.store_id, *after, PAGE):
        after = (rows[-1].import_id, rows[-1].row)
        meant: dict[str, list[int]] = {}
        for row in rows:
            if _is_row_of(row.raw, _header(row.header), person):
                meant.setdefault(row.import_id, []).append(row.row)
        for import_id, numbers in meant.items():
            await BLANK_ROWS.run(db, person.store_id, import_id, numbers)


async def _forget_files(db: Executor, person: Person) -> None:
    for waiting in await WAITING_PARTS.all(db, person.store_id):
        header = _header(waiting.header)
        data = await PART.one(db, person.store_id, waiting.import_id, waiting.part)
        # Unpacked and searched beside the loop, which serves others meanwhile.
        emptied = await asyncio.to_thread(without_rows, data, header, lambda raw: _is_row_of(raw, header, person))  # noqa: B023
        if emptied is not None:
            await REPLACE_PART.run(db, person.store_id, waiting.import_id, waiting.part, emptied)
            await TAKE_LEASE.run(db, person.store_id, waiting.import_id)


def _header(text: str | None) -> Header | None:
    return msgspec.json.decode(text, type=Header) if text else None


def _is_row_of(raw: str, header: Header | None, person: Person) -> bool:
    return person.is_named_in(raw) or (bool(raw) and _is_key_of(_keys_in(raw, header), person))


def _is_key_of(members: dict[str, Any], person: Person) -> bool:
    return (
        members.get("external_id") in person.external_ids
        or str(members.get("id", "")) == str(person.customer_id)
        or any(isinstance(value, str) and person.is_named_in(value) for value in members.values())
    )


def _keys_in(raw: str, header: Header | None) -> dict[str, Any]:
    """What a kept row is named by; nothing where it cannot be read."""
    if header is None:
        try:
            members = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            return {}
        return cast("dict[str, Any]", members) if isinstance(members, dict) else {}
    cells = next(cells_of(raw, header.delimiter), list[str]())
    columns = [name.strip().lower() for name in header.columns]
    return {name: cell.strip() for name, cell in zip(columns, cells, strict=False) if name in ("id", "external_id")}


REACHES.append(ROWS_OF_CUSTOMER)
SEARCHES.append(forget)
