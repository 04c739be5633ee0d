"""The interface of an importable resource: its columns and keys, and how rows are applied."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from stoa.db.query import Executor
from stoa.events.outbox import Cause
from stoa.imports.contract import Options, Outcome
from stoa.imports.reading import Row
from stoa.rest.call import Store
from stoa.rest.checks import parse_time
from stoa.rest.csv_rows import Columns
from stoa.rest.metadata import Definitions
from stoa.rest.metadata_types import Resource
from stoa.rest.problems import Fault, Refusal, ValidationFailed


class Task(msgspec.Struct, frozen=True):
    """The context in which rows are applied: store, import, app or person, and options."""

    store: Store
    import_id: str
    app_id: int | None
    request_id: str
    options: Options
    scopes: frozenset[str] | None = (
        None  # that the app had at the upload and still has; None: an operator or a person may do all
    )
    account_id: int | None = None  # of the person who started the import in the portal

    @property
    def cause(self) -> Cause:
        return Cause(self.app_id, self.request_id, self.account_id)

    def may(self, scope: str) -> bool:
        return self.scopes is None or scope in self.scopes


class RowKey(NamedTuple):
    """A key in a row. Several rows may have it only if each of them concerns another part of the resource."""

    pointer: str
    value: str
    part: str | None = None  # None: the whole resource


class Result(msgspec.Struct):
    """The result of one row."""

    row: int
    status: Outcome
    id: int | None
    key: dict[str, Any]
    errors: list[Fault] = []
    changes: str | None = None  # what a dry run would change, as JSON
    raw: str | None = None


class Apply(Protocol):
    """Applies several rows together. Without `write` nothing is saved, and the results contain the changes."""

    async def __call__(self, db: Executor, task: Task, rows: Sequence[Row], *, write: bool) -> list[Result]: ...


class Importable(msgspec.Struct, frozen=True):
    """A resource that can be imported."""

    resource: str
    scope: str
    match_by: tuple[str, ...]  # the first is the default
    columns: Columns
    tables: tuple[str, ...]  # to which an import adds rows
    keys: Callable[[dict[str, Any]], Iterable[RowKey]]  # that no other row may have
    key: Callable[[dict[str, Any], str], dict[str, Any]]  # the key of a row in a report
    apply: Apply
    read_metadata: Callable[[dict[str, Any], Definitions], None]  # give the texts of a CSV row their defined types
    retire: Callable[[Executor, Task, Sequence[int]], Awaitable[int]] | None = (
        None  # resources that are not in the file
    )


def creation_time(row: Row) -> datetime | None:
    """The time at which a new resource was created elsewhere, if its row says so."""
    given = row.members.get("created_at")
    if given is None:
        return None
    moment = parse_time(given) if isinstance(given, str) else None
    if moment is not None and moment <= datetime.now(UTC):
        return moment
    fault = Fault("/created_at", "invalid_format", "must be a past RFC 3339 time such as 2026-01-31T12:00:00Z")
    raise ValidationFailed("The time of creation cannot be used.", faults=[fault])


def read_entries(members: dict[str, Any], resource: Resource, definitions: Definitions) -> None:
    """Give the metadata texts of a CSV row, or of a member of it, the types that their definitions name."""
    metadata = members.get("metadata")
    if isinstance(metadata, dict):
        members["metadata"] = definitions.read(resource, cast("dict[str, Any]", metadata))


def failed(row: Row, refusal: Refusal, key: dict[str, Any]) -> Result:
    faults = refusal.faults or [Fault("", refusal.code, refusal.detail, refusal.members or None)]
    return Result(row.number, "failed", None, key, faults, raw=row.raw)
