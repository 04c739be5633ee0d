"""The committed description of the API: what `openapi.json` holds and `/openapi.json` answers."""

from functools import cache
from typing import Any

import msgspec

from stoa.access.contract import SCOPES
from stoa.api import ENDPOINTS, EVENTS
from stoa.rest.dispatch import PREFIX
from stoa.rest.openapi import document
from stoa.webhooks.schemas import described

VERSION = "3.0"
GROUPS = {
    "Products": "The catalogue: products, their variants, stock and bulk import.",
    "Orders": "What is bought: orders, their lines, status and payment, timeline and duplicates.",
    "Customers": "Who buys: profiles, addresses, metadata by app, bulk import, and erasure for good.",
    "Webhooks": "What happens in the store, told as it happens: subscriptions, deliveries, a feed to pull, and sending again.",
}


@cache
def openapi() -> dict[str, Any]:
    told = document(ENDPOINTS, prefix=PREFIX, version=VERSION, scopes=SCOPES, groups=GROUPS)
    told["webhooks"], schemas = described(EVENTS, "#/components/schemas/{name}")
    told["components"]["schemas"] = dict(sorted({**schemas, **told["components"]["schemas"]}.items()))
    return told


@cache
def openapi_bytes() -> bytes:
    return msgspec.json.format(msgspec.json.encode(openapi()), indent=2) + b"\n"
