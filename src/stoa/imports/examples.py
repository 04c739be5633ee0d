"""Example files for bulk imports, by media type: the same rows in each format."""

from typing import Any

import msgspec

from stoa.customers.examples import NEW_CUSTOMER
from stoa.products.examples import PRODUCT_BATCH
from stoa.rest.headers import CSV, JSON, NDJSON

_MUG: dict[str, Any] = PRODUCT_BATCH["items"][0]["data"]


def _file(row: dict[str, str]) -> dict[str, Any]:
    return {
        NDJSON: msgspec.json.encode(row).decode(),
        CSV: f"{','.join(row)}\n{','.join(row.values())}",
        JSON: {"items": [row]},
    }


PRODUCT_FILE = _file({name: _MUG[name] for name in ("sku", "name", "price")})
CUSTOMER_FILE = _file({name: NEW_CUSTOMER[name] for name in ("email", "first_name", "last_name")})
