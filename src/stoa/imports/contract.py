"""The public contract of imports: the job, its options, the report on each row, and errors."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from stoa.events.outbox import Event
from stoa.rest.checks import Time
from stoa.rest.fields import CreatedAt
from stoa.rest.filters import Filter, Flag, InvalidValue, StoreContext
from stoa.rest.problems import Refusal, printable

MOST_ROWS, MOST_ITEMS = 100_000, 1_000
MOST_RUNNING, MOST_WAITING = 2, 20
MOST_ERRORS = 100

Status = Literal["queued", "running", "succeeded", "partially_succeeded", "failed", "cancelled"]
Outcome = Literal["created", "updated", "unchanged", "failed"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an import."""

    mode: Annotated[
        Literal["upsert", "create", "update"],
        Meta(
            description="`upsert` creates or updates the resource of a row, `create` only creates, and `update` only updates. The default is `upsert`."
        ),
    ] = "upsert"
    match_by: Annotated[
        str,
        Meta(
            description="The field that identifies the resource of a row. The default is `sku` for products and `email` for customers."
        ),
    ] = "sku"
    on_error: Annotated[
        Literal["continue", "abort"],
        Meta(
            description="With `continue`, the default, valid rows are written even if others fail; with `abort`, all rows are written or none."
        ),
    ] = "continue"
    dry_run: Annotated[
        bool, Meta(description="Whether the rows are only checked and nothing is written. The default is false.")
    ] = False
    missing: Annotated[
        Literal["ignore", "archive"],
        Meta(
            description="With `archive`, products that are not in the file are archived if no row failed. The default is `ignore`."
        ),
    ] = "ignore"
    unknown_columns: Annotated[
        Literal["refuse", "ignore"], Meta(description="Whether a CSV file may have columns that Stoa does not know.")
    ] = "refuse"
    send_events: Annotated[
        bool,
        Meta(
            description="Whether webhooks receive the changes of the rows and the end of the import. The default is true."
        ),
    ] = True


class Counts(msgspec.Struct):
    total: Annotated[
        int, Meta(description="The rows of the file. Several CSV records of one product count as one row.")
    ]
    processed: Annotated[int, Meta(description="The rows that are finished, including failed ones.")]
    created: Annotated[int, Meta(description="The rows that created a resource, or would create one in a dry run.")]
    updated: Annotated[int, Meta(description="The rows that changed a resource, or would change one in a dry run.")]
    unchanged: Annotated[int, Meta(description="The rows whose resource already had all values.")]
    archived: Annotated[
        int,
        Meta(description="The products that were archived because they are not in the file, or would be in a dry run."),
    ]
    failed: Annotated[int, Meta(description="The rows with faults, which were not written.")]


class RowError(msgspec.Struct):
    """A fault of one row, or of the whole job if `row` is null."""

    row: Annotated[
        int | None,
        Meta(
            description="The position of the row in the file, from 1, without the CSV header and empty lines; null if the fault concerns the whole job."
        ),
    ]
    key: Annotated[
        dict[str, Any],
        Meta(
            description="The field that identifies the row, such as `sku`, with its value. Empty if the row has none."
        ),
    ]
    pointer: Annotated[
        str, Meta(description="A JSON Pointer to the field in the row; empty if the fault concerns the whole row.")
    ]
    code: Annotated[str, Meta(description="The kind of fault, such as `duplicate_row`, for programs.")]
    detail: Annotated[str, Meta(description="What is wrong, for people.")]


class Import(msgspec.Struct):
    """An import job: its options, progress and counts, and its first errors."""

    id: Annotated[str, Meta(description="The id of the import, which begins with `imp_`.")]
    resource: Annotated[str, Meta(description="What is imported: `products` or `customers`.")]
    status: Annotated[
        Status,
        Meta(
            description="`queued`, `running`, then `succeeded` if no row failed, `partially_succeeded` if some failed, or `failed` if all failed, a failed row aborted the import, or it could not finish; `cancelled` if a person or an operator cancelled it. Rows that were written before stay."
        ),
    ]
    options: Annotated[Options, Meta(description="The options of the import, with their defaults.")]
    counts: Annotated[Counts, Meta(description="The number of rows by their result, up to now.")]
    progress: Annotated[float, Meta(description="The part of the work that is done, from 0 to 1.")]
    errors: Annotated[
        list[RowError],
        Meta(
            description=f"The first {MOST_ERRORS} faults, those of the whole job before those of rows. The report lists all. Only the app that made the import sees faults of rows."
        ),
    ]
    created_at: CreatedAt
    started_at: Annotated[
        Time | None, Meta(description="The time at which the import started, in UTC; null while it is queued.")
    ]
    finished_at: Annotated[
        Time | None, Meta(description="The time at which the import finished, in UTC; null until then.")
    ]
    report_expires_at: Annotated[
        Time, Meta(description="The time until which the import and its report can be read: 30 days after the upload.")
    ]
    request_id: Annotated[str, Meta(description="The id of the upload request, as in `X-Request-Id`.")]
    version: Annotated[int, Meta(description="Increases with each change of the import, from 1.")]


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
        "send_events": Flag(
            description="With `false`, no webhook is sent for the rows and the end of the import. The default is `true`."
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


class ReportNotVisible(Refusal):
    """Only the app that made an import can read its rows. Other apps can read the import as JSON, without its rows."""

    status, code, title = 403, "report_not_visible", "The report belongs to another app"


class ProductImportFinished(Event):
    """An import of products finished; `data` is the job. Only the app that made it sees `errors` of rows."""

    name, scope, resource_type = "product.import_finished", "products:read", "import"
    resource = Import


class CustomerImportFinished(Event):
    """An import of customers finished; `data` is the job. Only the app that made it sees `errors` of rows."""

    name, scope, resource_type = "customer.import_finished", "customers:read", "import"
    resource = Import
