"""The OpenAPI document of the whole API: `openapi.json` in the repository, with line breaks for diffs, and compact at `/openapi.json`,
or `/openapi-3.2.json` in version 3.2 of OpenAPI."""

import json
from functools import cache
from typing import Any, cast

from stoa.access.contract import SCOPES
from stoa.access.discovery import METADATA_PATH
from stoa.api import ENDPOINTS, EVENTS
from stoa.openapi_examples import collected
from stoa.openapi_examples.code_samples import code_samples
from stoa.rest.dispatch import PREFIX
from stoa.rest.openapi.document import Examples, document
from stoa.rest.openapi.envelopes import REFS
from stoa.rest.openapi.schemas import open_objects
from stoa.rest.openapi.version_32 import in_version_32
from stoa.webhooks.api import example_responses
from stoa.webhooks.api.schemas import EVENTS_TAG, components, described

VERSION = "3.2"
_WIDTH = 116
GROUPS = {
    "Products": "The catalog: products, their variants, stock and bulk import.",
    "Orders": "Orders with their line items, status, payment, timeline and suspected duplicates.",
    "Customers": "Customer profiles, addresses, metadata per app, bulk import, and permanent erasure.",
    "Webhooks": "Notifications about changes in a store: subscriptions, deliveries, a feed to pull, and redelivery.",
}


@cache
def openapi() -> dict[str, Any]:
    made = document(
        ENDPOINTS,
        prefix=PREFIX,
        version=VERSION,
        summary="One API for the products, orders, customers and webhooks of many stores.",
        description="A successful response has `data` and `meta`; an error is a problem document (RFC 9457). The guides at "
        "`/docs/guides` explain pagination, retries, webhooks and imports.",
        scopes=SCOPES,
        groups=GROUPS,
        examples=_examples(),
    )
    made["webhooks"] = described(EVENTS, REFS)
    for kind, more in components(EVENTS, REFS).items():
        made["components"][kind] = dict(sorted({**more, **made["components"][kind]}.items()))
    made["tags"].append({"name": EVENTS_TAG, "description": "The requests that Stoa sends to your webhook endpoint."})
    open_objects(made)
    _add_code_samples(made["paths"])
    return made


def _add_code_samples(paths: dict[str, dict[str, Any]]) -> None:
    samples = code_samples()
    for operation in (each for methods in paths.values() for each in methods.values()):
        tasks: list[dict[str, Any]] = operation.get("x-tasks", [])
        for name, shown in ((operation["operationId"], operation), *((each["name"], each) for each in tasks)):
            if found := samples.get(name):
                shown["x-codeSamples"] = found


def _examples() -> Examples:
    return Examples(
        {**collected.resources(), **collected.as_json(example_responses.resources())},
        {**collected.responses(), **collected.as_json(example_responses.responses())},
        {**collected.PATH_PARAMETERS, **example_responses.PATH_PARAMETERS},
    )


@cache
def openapi_32() -> dict[str, Any]:
    return in_version_32(openapi(), metadata=METADATA_PATH)


@cache
def openapi_bytes() -> bytes:
    """The document as it is served: without the white space that makes up a third of the committed file."""
    return _compact(openapi())


@cache
def openapi_32_bytes() -> bytes:
    return _compact(openapi_32())


def _compact(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def openapi_file(document: dict[str, Any] | None = None) -> bytes:
    """A document in the form of the committed one, by default that of 3.1."""
    return _lines(document or openapi(), "").encode() + b"\n"


def _lines(value: Any, indent: str) -> str:
    """JSON with short values on one line, so that diffs stay small."""
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
