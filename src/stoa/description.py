"""The committed description of the API: what `openapi.json` holds and `/openapi.json` answers."""

from functools import cache
from typing import Any

import msgspec

from stoa.access.contract import SCOPES
from stoa.api import ENDPOINTS
from stoa.rest.dispatch import PREFIX
from stoa.rest.openapi import document

VERSION = "3.0"
GROUPS = {
    "Products": "The catalogue: products, their variants, stock and bulk import.",
}


@cache
def openapi() -> dict[str, Any]:
    return document(ENDPOINTS, prefix=PREFIX, version=VERSION, scopes=SCOPES, groups=GROUPS)


@cache
def openapi_bytes() -> bytes:
    return msgspec.json.format(msgspec.json.encode(openapi()), indent=2) + b"\n"
