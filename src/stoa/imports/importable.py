"""What a resource brings along to be imported: its columns and keys, and how rows become changes."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from stoa.db.query import Executor
from stoa.events.outbox import Event
from stoa.imports.contract import Options, Outcome
from stoa.imports.csv_rows import Columns
from stoa.imports.reading import Row
from stoa.rest.endpoint import Store
from stoa.rest.problems import Fault, Refusal


class Task(msgspec.Struct, frozen=True):
    """In whose name, where and how rows are carried out."""

    store: Store
    import_id: str
    app_id: int | None
    request_id: str
    options: Options


class Result(msgspec.Struct):
    """What became of one row."""

    row: int
    status: Outcome
    id: int | None
    key: dict[str, Any]
    errors: list[Fault] = []
    changes: str | None = None  # what a dry run would change, as JSON
    raw: str | None = None


class Apply(Protocol):
    """Carries out some rows together; without `write` nothing is stored, and changes are told."""

    async def __call__(self, db: Executor, task: Task, rows: Sequence[Row], *, write: bool) -> list[Result]: ...


class Importable(msgspec.Struct, frozen=True):
    """A resource that files can bring in."""

    resource: str
    scope: str
    match_by: tuple[str, ...]  # the first is what holds when nothing is said
    columns: Columns
    tables: tuple[str, ...]  # that grow with it
    finished: type[Event]
    keys: Callable[[dict[str, Any]], Iterable[tuple[str, str]]]  # pointer and key of all that no other row may name
    key: Callable[[dict[str, Any], str], dict[str, Any]]  # what a report calls the row
    apply: Apply
    retire: Callable[[Executor, Task, Sequence[int]], Awaitable[int]] | None = None  # those that the file left out


def failed(row: Row, refusal: Refusal, key: dict[str, Any]) -> Result:
    faults = refusal.faults or [Fault("", refusal.code, refusal.detail, refusal.members or None)]
    return Result(row.number, "failed", None, key, faults, raw=row.raw)
