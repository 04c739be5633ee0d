"""A dlt source for Stoa: loads the lists of a store, then only what changed, and deletes what was deleted."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import dlt
from dlt.extract.source import DltResource
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
# A change becomes visible when it is committed, slightly after its `updated_at`. Stoa's guide asks for this overlap.
OVERLAP_S = 60
# Tombstones are kept for 90 days: a pipeline that paused for longer must start over (`refresh="drop_sources"`).
TOMBSTONES = timedelta(days=90)


@dlt.source(name="stoa", max_table_nesting=2)
def stoa(
    base_url: str = dlt.config.value,
    client_id: str = dlt.secrets.value,
    client_secret: str = dlt.secrets.value,
) -> Iterator[DltResource]:
    """The lists of the store at this base URL, such as https://shop.example.com, with the credentials of an app."""
    base = base_url.rstrip("/")
    client = RESTClient(
        base_url=f"{base}/api/v3/app",
        auth=OAuth2ClientCredentials(f"{base}/oauth/token", client_id, client_secret),
        paginator=JSONResponseCursorPaginator(cursor_path="meta.next_cursor", cursor_param="cursor"),
        data_selector="data",
    )
    for name, (path, key, tombstones) in LISTS.items():
        yield dlt.resource(
            _rows,
            name=name,
            primary_key=key,
            write_disposition={"disposition": "merge", "strategy": "upsert"},
            # A row with a time of deletion is deleted at the destination.
            columns={"deleted_at": {"data_type": "timestamp", "hard_delete": True}} if tombstones else None,
        )(client, path)


def _rows(
    client: RESTClient,
    path: str,
    updated_at: dlt.sources.incremental[str] = dlt.sources.incremental("updated_at", lag=OVERLAP_S),  # noqa: B008 - as dlt does
) -> Iterator[list[dict[str, Any]]]:
    params: dict[str, Any] = {"limit": 250, "sort": "id"}
    if updated_at.start_value:
        if datetime.now(UTC) - datetime.fromisoformat(updated_at.start_value) >= TOMBSTONES:
            raise ValueError("Tombstones are gone after 90 days. Start over: run the pipeline with refresh='drop_sources'.")
        params["updated_since"] = updated_at.start_value
    for page in client.paginate(path, params=params):
        yield [{**row, "updated_at": row.get("updated_at") or row["deleted_at"]} for row in page]
