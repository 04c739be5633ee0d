"""The public contract of imports: the job, its options, the report on each row, and errors."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from stoa.events.outbox import Event
from stoa.rest.checks import Time
from stoa.rest.filters import Filter, Flag, InvalidValue, StoreContext
from stoa.rest.problems import Refusal, printable

NDJSON, CSV, JSON = "application/x-ndjson", "text/csv", "application/json"
MOST_ROWS, MOST_ITEMS = 100_000, 1_000
MOST_RUNNING, MOST_WAITING = 2, 20
MOST_ERRORS = 100

Status = Literal["queued", "running", "succeeded", "partially_succeeded", "failed"]
Outcome = Literal["created", "updated", "unchanged", "failed"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an import."""

    mode: Literal["upsert", "create", "update"] = "upsert"
    match_by: str = "sku"
    on_error: Literal["continue", "abort"] = "continue"
    dry_run: bool = False
    missing: Literal["ignore", "archive"] = "ignore"
    unknown_columns: Annotated[
        Literal["refuse", "ignore"], Meta(description="Whether a CSV file may have columns that Stoa does not know.")
    ] = "refuse"


class Counts(msgspec.Struct):
    total: int
    processed: int
    created: int
    updated: int
    unchanged: int
    archived: int
    failed: int


class RowError(msgspec.Struct):
    """A fault of one row, or of the whole job if `row` is null."""

    row: int | None
    key: dict[str, Any]
    pointer: str
    code: str
    detail: str


class Import(msgspec.Struct):
    """An import job: its options, progress and counts, and its first errors."""

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
    """One of a fixed set of values."""

    values: tuple[str, ...]

    def read(self, text: str, store: StoreContext) -> str:
        if text not in self.values:
            raise InvalidValue(f'must be one of {", ".join(self.values)}, not "{printable(text)}"')
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.values), "default": self.values[0]}


def parameters(match_by: tuple[str, ...]) -> dict[str, Filter]:
    """The query parameters of an import; the first value of each is the default."""
    return {
        "mode": Choice(
            values=("upsert", "create", "update"), description="Whether a row may create or update its resource."
        ),
        "match_by": Choice(values=match_by, description="The field that identifies the resource of a row."),
        "on_error": Choice(
            values=("continue", "abort"), description="With `abort`, nothing is written if any row has a fault."
        ),
        "dry_run": Flag(description="Check every row and report its changes without writing them."),
        "unknown_columns": Choice(
            values=("refuse", "ignore"),
            description="With `ignore`, columns of a CSV file that Stoa does not know are skipped. By default the file is refused.",
        ),
    }


MISSING = Choice(
    values=("ignore", "archive"),
    description="What to do with products that are not in the file, after all rows succeeded.",
)


class TooManyRows(Refusal):
    """A file has at most 100,000 rows, or 1,000 items as JSON. Split it into several files."""

    status, code, title = 413, "too_many_rows", "The file has too many rows"


class TooManyImports(Refusal):
    """Two imports of an app can run in a store at the same time, and 20 more can wait. Retry after `Retry-After` seconds."""

    status, code, title, retryable = 429, "too_many_imports", "Too many imports are waiting", True


class Gone(Refusal):
    """The resource has expired. Import reports are available for 30 days."""

    status, code, title = 410, "gone", "The resource has expired"


class ProductImportFinished(Event):
    """An import of products finished; `data` is the job."""

    name, scope, resource_type = "product.import_finished", "products:read", "import"
    resource = Import


class CustomerImportFinished(Event):
    """An import of customers finished; `data` is the job."""

    name, scope, resource_type = "customer.import_finished", "customers:read", "import"
    resource = Import
