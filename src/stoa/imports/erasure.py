"""Erases a person from imports: from rows in reports, from rows that are not imported yet, and from faults in events."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from stoa.customers.erasure import Person
from stoa.db.query import Command, Executor, Query
from stoa.events.outbox import AppView, views_json
from stoa.imports.queries import REPLACE_PART
from stoa.imports.reading import cells_of, without_rows
from stoa.rest.csv_rows import Header

PAGE = 1_000
_JSON_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')
_JSON_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")

ERASE_IMPORTED_ROWS = Command(
    """UPDATE import_rows SET key = '{}', changes = NULL, raw = NULL
        WHERE store_id = $1 AND result_id = $2 AND import_id IN (
              SELECT id FROM imports WHERE store_id = $1 AND resource = 'customers')"""
)


class FailedRow(msgspec.Struct):
    import_id: str
    row: int
    raw: str
    header: str | None


FAILED_ROWS = Query(
    FailedRow,
    """SELECT r.import_id, r.row, r.raw, i.header
         FROM import_rows r JOIN imports i ON i.store_id = $1 AND i.id = r.import_id
        WHERE r.store_id = $1 AND r.status = 'failed' AND i.resource = 'customers' AND (r.import_id, r.row) > ($2, $3)
        ORDER BY r.import_id, r.row LIMIT $4""",
)
# A fault names the member that is wrong, and a row can have any text as the name of a member or of a key of its metadata.
ERASE_FAILED_ROWS = Command(
    """UPDATE import_rows SET key = '{}', raw = '', errors = list_cleared(errors, '{pointer}', '""')
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
# A worker may have read the rows already: it loses its lease, and the job continues with the rows as they are now.
END_LEASE = Command(
    "UPDATE import_queue SET lease_owner = '', lease_until = now() WHERE store_id = $1 AND import_id = $2"
)


class FinishedEvent(msgspec.Struct):
    id: str
    data: str
    app_views: str | None


FINISHED_EVENTS = Query(
    FinishedEvent,
    """SELECT id, data, app_views FROM events
        WHERE store_id = $1 AND type = 'customer.import_finished' AND resource_id IN (
              SELECT number FROM imports WHERE store_id = $1 AND resource = 'customers')""",
)
REPLACE_EVENT = Command("UPDATE events SET data = $3, app_views = $4 WHERE store_id = $1 AND id = $2")


async def erase_in_imports(db: Executor, person: Person) -> None:
    """Search everything that imports of customers have stored, and erase the rows of this person."""
    await ERASE_IMPORTED_ROWS.run(db, person.store_id, person.customer_id)
    await _erase_in_reports(db, person)
    await _erase_in_files(db, person)
    for event in await FINISHED_EVENTS.all(db, person.store_id):
        report = cast("dict[str, Any]", msgspec.json.decode(event.data))
        views = msgspec.json.decode(event.app_views or "{}", type=dict[int, AppView])
        if sum([_erase_errors(each, person) for each in (report, *(view.data for view in views.values()))]):
            data = msgspec.json.encode(report).decode()
            await REPLACE_EVENT.run(db, person.store_id, event.id, data, views_json(views))


def _erase_errors(report: dict[str, Any], person: Person) -> int:
    """Erase the faults of rows of this person; returns their number."""
    errors: list[Any] = report.get("errors", [])
    kept = [error for error in errors if not _is_key_of(error["key"], person)]
    if errors:
        report["errors"] = kept
    return len(errors) - len(kept)


async def _erase_in_reports(db: Executor, person: Person) -> None:
    after = ("", 0)
    while rows := await FAILED_ROWS.all(db, person.store_id, *after, PAGE):
        after = (rows[-1].import_id, rows[-1].row)
        matching: dict[str, list[int]] = {}
        for row in rows:
            if _is_row_of(row.raw, _header(row.header), person):
                matching.setdefault(row.import_id, []).append(row.row)
        for import_id, numbers in matching.items():
            await ERASE_FAILED_ROWS.run(db, person.store_id, import_id, numbers)


async def _erase_in_files(db: Executor, person: Person) -> None:
    for waiting in await WAITING_PARTS.all(db, person.store_id):
        header = _header(waiting.header)
        data = await PART.one(db, person.store_id, waiting.import_id, waiting.part)
        # Decompressing and searching run in a thread, so that the event loop keeps serving.
        erased = await asyncio.to_thread(without_rows, data, header, lambda raw: _is_row_of(raw, header, person))  # noqa: B023
        if erased is not None:
            await REPLACE_PART.run(db, person.store_id, waiting.import_id, waiting.part, erased)
            await END_LEASE.run(db, person.store_id, waiting.import_id)


def _header(text: str | None) -> Header | None:
    return msgspec.json.decode(text, type=Header) if text else None


def _is_row_of(raw: str, header: Header | None, person: Person) -> bool:
    if not raw:
        return False
    return any(map(person.is_named_in, _values_in(raw, header))) or _is_id_of(_keys_in(raw, header), person)


def _is_key_of(members: dict[str, Any], person: Person) -> bool:
    return _is_id_of(members, person) or any(
        isinstance(value, str) and person.is_named_in(value) for value in members.values()
    )


def _is_id_of(members: dict[str, Any], person: Person) -> bool:
    external_id = members.get("external_id")
    return str(members.get("id", "")) == str(person.customer_id) or (
        isinstance(external_id, str) and external_id in person.external_ids
    )


def _values_in(raw: str, header: Header | None) -> Iterator[str]:
    """The cells of a stored row; of JSON, which need not be valid, the strings and what is between them."""
    for text in [raw] if header is None else [cell for cells in cells_of(raw, header) for cell in cells]:
        if header is None or text.lstrip().startswith(("{", "[")):
            yield from map(_unescaped, _JSON_STRING.split(text))
        else:
            yield text


def _unescaped(part: str) -> str:
    """The text that a part of JSON stands for; of control characters, only that they separate words."""
    return _JSON_ESCAPE.sub(
        lambda each: chr(int(each[1], 16)) if each[1] else each[2] if each[2] in '"\\/' else " ", part
    )


def _keys_in(raw: str, header: Header | None) -> dict[str, Any]:
    """The identifiers in a stored row; empty if it cannot be read."""
    if header is None:
        try:
            members = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return {}
        return cast("dict[str, Any]", members) if isinstance(members, dict) else {}
    cells = next(cells_of(raw, header), list[str]())
    columns = [name.strip().lower() for name in header.columns]
    return {name: cell.strip() for name, cell in zip(columns, cells, strict=False) if name in ("id", "external_id")}
