"""The committed description of the API: what `openapi.json` holds and `/openapi.json` answers."""

import json
from functools import cache
from typing import Any, cast

from stoa.access.contract import SCOPES
from stoa.answers.whole import answers, resources
from stoa.api import ENDPOINTS, EVENTS
from stoa.rest.dispatch import PREFIX
from stoa.rest.openapi import document
from stoa.rest.openapi_envelopes import REFS
from stoa.webhooks.api.schemas import components, described

VERSION = "3.0"
_WIDTH = 116
GROUPS = {
    "Products": "The catalogue: products, their variants, stock and bulk import.",
    "Orders": "What is bought: orders, their lines, status and payment, timeline and duplicates.",
    "Customers": "Who buys: profiles, addresses, metadata by app, bulk import, and erasure for good.",
    "Webhooks": "What happens in the store, told as it happens: subscriptions, deliveries, a feed to pull, and sending again.",
}


@cache
def openapi() -> dict[str, Any]:
    told = document(
        ENDPOINTS,
        prefix=PREFIX,
        version=VERSION,
        scopes=SCOPES,
        groups=GROUPS,
        resources=resources(),
        answers=answers(),
    )
    told["webhooks"] = described(EVENTS, REFS)
    for kind, more in components(EVENTS, REFS).items():
        told["components"][kind] = dict(sorted({**more, **told["components"][kind]}.items()))
    return told


@cache
def openapi_bytes() -> bytes:
    return _lines(openapi(), "").encode() + b"\n"


def _lines(value: Any, indent: str) -> str:
    """JSON as people write it: what fits on a line stays on a line, so that a difference shows where it is."""
    flat = json.dumps(value, ensure_ascii=False)
    if not value or not isinstance(value, dict | list) or len(indent) + len(flat) <= _WIDTH:
        return flat
    deeper = indent + "  "
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {_lines(each, deeper)}" for key, each in members.items()]
    else:
        parts = [_lines(each, deeper) for each in cast("list[Any]", value)]
    return f"{flat[0]}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{flat[-1]}"
