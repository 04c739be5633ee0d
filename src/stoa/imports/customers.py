"""Imports customers: finds each row's customer by its key, edits working copies, and saves a part of the file at a time."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from stoa.customers.contract import email_key
from stoa.customers.csv_columns import COLUMNS
from stoa.customers.documents import value_of
from stoa.customers.phones import e164
from stoa.customers.rows import change_by_row, customer_from_row
from stoa.customers.save import load, save_or_refuse
from stoa.customers.working_copy import CustomerCopy, entries_changed
from stoa.customers.workspace import CustomerWorkspace, MatchBy
from stoa.db.query import Executor, json_of
from stoa.imports.contract import Outcome
from stoa.imports.importable import Importable, Result, RowKey, Task, creation_time, failed, read_entries
from stoa.imports.reading import Row
from stoa.rest.patch import changes_between
from stoa.rest.problems import Fault, Refusal, ValidationFailed


class Planned(msgspec.Struct):
    """The planned effect of a row on its customer."""

    row: Row
    outcome: Outcome
    customer: CustomerCopy
    changes: str | None


def keys(members: dict[str, Any]) -> Iterator[RowKey]:
    """The unique keys in a row, with their pointers."""
    for name in ("id", "email", "phone", "external_id"):
        value = compared(name, members.get(name))
        if value is not None:
            yield RowKey(f"/{name}", f"{name} {value}")


def compared(name: str, value: Any) -> int | str | None:
    """A key in the form in which it is compared; None if it identifies no customer."""
    if name == "id":
        return value if type(value) is int else None
    if not isinstance(value, str) or not value:
        return None
    if name == "email":
        return email_key(value)
    return e164(value) if name == "phone" else value


def key(members: dict[str, Any], by: str) -> dict[str, Any]:
    named = members.get(by)
    return {by: named} if isinstance(named, (int, str)) else {}


async def apply(db: Executor, task: Task, rows: Sequence[Row], *, write: bool) -> list[Result]:
    """Apply rows in one workspace, and save the changes in one call."""
    sought: dict[str, list[Any]] = {"id": [], "email": [], "phone": [], "external_id": []}
    for row in rows:
        for name, values in sought.items():
            value = compared(name, row.members.get(name))
            values.extend([value] if value is not None else [])
    loaded = await load(
        db,
        task.store.id,
        ids=sought["id"],
        emails=sought["email"],
        phones=sought["phone"],
        external_ids=sought["external_id"],
    )
    workspace = CustomerWorkspace(loaded)
    planned: list[Planned | Result] = []
    for row in rows:
        try:
            planned.append(_plan(workspace, row, task, with_changes=not write))
        except Refusal as refusal:
            planned.append(failed(row, refusal, key(row.members, task.options.match_by)))
    plans = [each for each in planned if isinstance(each, Planned)]
    ids = [each.customer.id for each in plans]
    if write:
        customers = [each.customer for each in plans]
        events = task.options.send_events
        stored = await save_or_refuse(db, task.store.id, task.store.digits, customers, task.cause, events=events)
        ids = [each.id for each in stored]
    by = task.options.match_by
    results = [
        Result(each.row.number, each.outcome, number, key(each.row.members, by), changes=each.changes)
        for each, number in zip(plans, ids, strict=True)
    ]
    return [*results, *(each for each in planned if isinstance(each, Result))]


def _plan(workspace: CustomerWorkspace, row: Row, task: Task, *, with_changes: bool) -> Planned:
    by, mode = cast("MatchBy", task.options.match_by), task.options.mode
    found = _find(workspace, row.members, by) if mode != "create" else None
    if found is None and (mode == "update" or (by == "id" and row.members.get("id") is not None)):
        raise _unknown(by)
    if found is None:
        new = customer_from_row(row.members, task.app_id, task.store)
        new = msgspec.structs.replace(new, created_at=creation_time(row))
        return Planned(row, "created", workspace.put(new), None)
    changed = change_by_row(found, row.members, task.app_id, task.store)
    if not changed.touched:
        return Planned(row, "unchanged", found, None)
    workspace.put(changed, before=found)
    return Planned(row, "updated", changed, _changes(changed) if with_changes else None)


def _find(workspace: CustomerWorkspace, members: dict[str, Any], by: MatchBy) -> CustomerCopy | None:
    """The customer that a row identifies; None if it does not exist yet."""
    named = members.get(by)
    if named is None and by == "id":
        return None
    if named is None:
        raise ValidationFailed(
            "The row does not identify a customer.",
            faults=[Fault(f"/{by}", "required", f"is required with match_by={by}")],
        )
    if type(named) is not (int if by == "id" else str):
        words = "must be an integer" if by == "id" else "must be a string"
        raise ValidationFailed(
            "The key of the row has the wrong type.", faults=[Fault(f"/{by}", "invalid_type", words)]
        )
    value = compared(by, named)
    return workspace.find(by, value) if value is not None else None


def _unknown(by: str) -> Refusal:
    fault = Fault(f"/{by}", "not_found", "no customer of this store has this value")
    return ValidationFailed("The customer does not exist.", faults=[fault])


def _changes(customer: CustomerCopy) -> str:
    """The old and new values of an existing customer, as JSON."""
    changes: dict[str, Any] = {
        name: list(pair) for name, pair in changes_between(customer.before or {}, customer.fields).items()
    }
    entries = entries_changed(customer)
    if entries:
        changes["metadata"] = [
            {each.key: value_of(text) for each in entries if (text := getattr(each, side)) is not None}
            for side in ("old", "new")
        ]
    return json_of(changes)


CUSTOMERS = Importable(
    resource="customers",
    scope="customers:write",
    match_by=("email", "phone", "external_id", "id"),
    columns=COLUMNS,
    tables=("customers",),
    keys=keys,
    key=key,
    apply=apply,
    read_metadata=lambda members, definitions: read_entries(members, "customer", definitions),
)
