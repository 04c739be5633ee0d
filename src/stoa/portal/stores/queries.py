"""SQL for pages of stores that no API endpoint covers."""

from datetime import datetime

import msgspec

from stoa.db.query import Query

ORDER_NUMBER = Query(int, "SELECT number FROM orders WHERE store_id = $1 AND id = $2")
ORDER_STATUS = Query(str, "SELECT status FROM orders WHERE store_id = $1 AND id = $2")


class ImportRow(msgspec.Struct):
    """An import in the list of imports."""

    id: str
    number: int
    resource: str
    status: str
    dry_run: bool
    started_by: str | None
    total: int
    processed: int
    failed: int
    created_at: datetime
    finished_at: datetime | None


IMPORTS = Query(
    ImportRow,
    """SELECT i.id, i.number, i.resource, i.status, i.options::json ->> 'dry_run' = 'true' AS dry_run,
              coalesce(a.name, p.name) AS started_by, i.total, i.processed, i.failed, i.created_at, i.finished_at
         FROM imports i LEFT JOIN apps a ON a.id = i.app_id LEFT JOIN accounts p ON p.id = i.account_id
        WHERE i.store_id = $1 AND i.number < $2 ORDER BY i.number DESC LIMIT $3""",
)
APP_NAME = Query(str, "SELECT name FROM apps WHERE id = $1", unbound="a store sees the names of apps that wrote to it")


class AppName(msgspec.Struct):
    id: int
    name: str


APP_NAMES = Query(
    AppName,
    "SELECT id, name FROM apps WHERE id = ANY ($1::text[]::bigint[])",
    unbound="a store sees the names of apps that wrote to it",
)


class SavedFilter(msgspec.Struct):
    name: str
    filters: str  # as JSON


MOST_SAVED = 12
SAVED_FILTERS = Query(
    SavedFilter,
    "SELECT name, filters FROM saved_filters WHERE store_id = $1 AND account_id = $2 ORDER BY created_at, name",
)
# A name that is saved again gets the new filters. An account has at most MOST_SAVED in a store.
SAVE_FILTER = Query(
    str,
    f"""INSERT INTO saved_filters (store_id, account_id, name, filters)
        SELECT $1, $2, $3, $4
         WHERE (SELECT count(*) FROM saved_filters WHERE store_id = $1 AND account_id = $2 AND name <> $3) < {MOST_SAVED}
            ON CONFLICT ON CONSTRAINT saved_filters_pkey DO UPDATE SET filters = excluded.filters
        RETURNING name""",
)
FORGET_FILTER = Query(
    str, "DELETE FROM saved_filters WHERE store_id = $1 AND account_id = $2 AND name = $3 RETURNING name"
)
