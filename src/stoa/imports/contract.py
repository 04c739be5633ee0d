"""Imports as callers see them: the job, its options, the report on each row, and what can be refused."""

from typing import Any, Literal

import msgspec

from stoa.events.outbox import Event
from stoa.rest.checks import Time
from stoa.rest.filters import Filter, Flag, InvalidValue, Reader
from stoa.rest.problems import Refusal, printable

NDJSON, CSV, JSON = "application/x-ndjson", "text/csv", "application/json"
MOST_ROWS, MOST_ITEMS = 100_000, 1_000
MOST_RUNNING, MOST_WAITING = 2, 20
MOST_ERRORS = 100

Status = Literal["queued", "running", "succeeded", "partially_succeeded", "failed"]
Outcome = Literal["created", "updated", "unchanged", "failed"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a file is to be taken in."""

    mode: Literal["upsert", "create", "update"] = "upsert"
    match_by: str = "sku"
    on_error: Literal["continue", "abort"] = "continue"
    dry_run: bool = False
    missing: Literal["ignore", "archive"] = "ignore"


class Counts(msgspec.Struct):
    total: int
    processed: int
    created: int
    updated: int
    unchanged: int
    archived: int
    failed: int


class RowError(msgspec.Struct):
    """A fault of one row; without a row, a fault of the whole job."""

    row: int | None
    key: dict[str, Any]
    pointer: str
    code: str
    detail: str


class Import(msgspec.Struct):
    """A file on its way into the store."""

    id: str
    resource: str
    status: Status
    options: Options
    counts: Counts
    progress: float
    errors: list[RowError]
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    report_expires_at: Time
    request_id: str
    version: int


class Choice(Filter, frozen=True, kw_only=True):
    """One of a few words."""

    values: tuple[str, ...]

    def read(self, text: str, reader: Reader) -> str:
        if text not in self.values:
            raise InvalidValue(f'must be one of {", ".join(self.values)}, not "{printable(text)}"')
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.values), "default": self.values[0]}


def parameters(match_by: tuple[str, ...]) -> dict[str, Filter]:
    """What the query of an import may say; the first word of each is what holds when it is left out."""
    return {
        "mode": Choice(values=("upsert", "create", "update"), description="What may happen to a row's resource."),
        "match_by": Choice(values=match_by, description="The field by which a row names its resource."),
        "on_error": Choice(
            values=("continue", "abort"), description="With `abort` nothing is written unless every row is right."
        ),
        "dry_run": Flag(description="Check every row and tell what it would change; nothing is written."),
    }


MISSING = Choice(
    values=("ignore", "archive"),
    description="What becomes of products that the file does not name, once all rows passed.",
)


class TooManyRows(Refusal):
    """A file has at most 100,000 rows, as JSON 1,000; send it in several files."""

    status, code, title = 413, "too_many_rows", "The file has too many rows"


class TooManyImports(Refusal):
    """Two imports of an app run at once in a store and 20 more wait; `Retry-After` says when to try again."""

    status, code, title, retryable = 429, "too_many_imports", "Too many imports are waiting", True


class Gone(Refusal):
    """What was here was kept for a time, and that time is over."""

    status, code, title = 410, "gone", "No longer kept"


class ProductImportFinished(Event):
    """An import of products came to its end; `data` is the job."""

    name, scope, resource_type = "product.import_finished", "products:read", "import"
    resource = Import


class CustomerImportFinished(Event):
    """An import of customers came to its end; `data` is the job."""

    name, scope, resource_type = "customer.import_finished", "customers:read", "import"
    resource = Import
