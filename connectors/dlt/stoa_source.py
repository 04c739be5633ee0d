"""A dlt source for Stoa: loads the lists of a store, then only what changed, and deletes what was deleted."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import dlt
from dlt.common.schema.typing import TColumnSchema
from dlt.extract.resource import DltResource
from dlt.sources.helpers.rest_client import RESTClient
from dlt.sources.helpers.rest_client.auth import OAuth2ClientCredentials
from dlt.sources.helpers.rest_client.paginators import JSONResponseCursorPaginator

# Each list with its path, its key, and whether it has tombstones; orders are never deleted.
LISTS = {
    "products": ("/products", "id", True),
    "variants": ("/products/variants", "id", True),
    "inventory": ("/products/inventory", "variant_id", True),
    "customers": ("/customers", "id", True),
    "orders": ("/orders", "id", False),
}
# Tombstones are kept for 90 days: a pipeline that paused for longer must start over.
TOMBSTONES = timedelta(days=90)
# A row with a time of deletion is deleted at the destination.
_DELETED: dict[str, TColumnSchema] = {"deleted_at": {"data_type": "timestamp", "hard_delete": True}}


@dlt.source(name="stoa", max_table_nesting=2)
def stoa(
    base_url: str = dlt.config.value,
    client_id: str = dlt.secrets.value,
    client_secret: str = dlt.secrets.value,
    overlap_s: int = 60,
) -> Iterator[DltResource]:
    """The lists of the store at this base URL, such as https://shop.example.com, with the credentials of an app.

    A change becomes visible when it is committed, slightly after its `updated_at`. So each load reads the last `overlap_s`
    seconds of the load before again; the merge makes that harmless. What changes while it is read appears again further on,
    because lists are read in the order of changes: of several versions of a row, the latest is kept.
    """
    base = base_url.rstrip("/")
    client = RESTClient(
        base_url=f"{base}/api/v3/app",
        auth=OAuth2ClientCredentials(
            access_token_url=f"{base}/oauth/token", client_id=client_id, client_secret=client_secret
        ),
        paginator=JSONResponseCursorPaginator(cursor_path="meta.next_cursor", cursor_param="cursor"),
        data_selector="data",
    )
    for name, (path, key, tombstones) in LISTS.items():
        yield dlt.resource(
            _rows,
            name=name,
            primary_key=key,
            write_disposition="merge",
            columns={"version": {"data_type": "bigint", "dedup_sort": "desc"}} | (_DELETED if tombstones else {}),
        )(client, path, key, tombstones, dlt.sources.incremental("updated_at", lag=overlap_s))


def _rows(
    client: RESTClient, path: str, key: str, tombstones: bool, updated_at: dlt.sources.incremental[str]
) -> Iterator[list[dict[str, Any]]]:
    params: dict[str, Any] = {"limit": 250, "sort": "updated_at"}
    if tombstones:
        params["include_deleted"] = "true"  # also in the first load, which something may be deleted behind
    if updated_at.start_value:
        if datetime.now(UTC) - datetime.fromisoformat(updated_at.start_value) >= TOMBSTONES:
            raise ValueError("tombstones are gone after 90 days; run the pipeline once with refresh='drop_sources'")
        params["updated_since"] = updated_at.start_value
    for page in client.paginate(path, params=params):
        # A tombstone has only its id, the time of its deletion and its version.
        yield [row if key in row and "updated_at" in row else _tombstone(row, key) for row in page]


def _tombstone(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {"updated_at": row["deleted_at"], **row, key: row["id"]}
