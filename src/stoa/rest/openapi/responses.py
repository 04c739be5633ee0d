"""The responses of an operation: success with its headers and schema, and its errors by status."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from stoa.rest.batch import Batch
from stoa.rest.endpoint import Created, Endpoint, NoContent, Page
from stoa.rest.headers import CSV, JSONL, NDJSON
from stoa.rest.openapi.envelopes import batch_of, one_of, page_of
from stoa.rest.openapi.errors import errors_of
from stoa.rest.problems import Problem, Refusal

CODES = "x-problem-codes"
_TEXT = {"type": "string"}
HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {"description": "The id of this request, which the service also logs.", "schema": _TEXT},
    "API-Version": {"description": "The API version that responded: `3.` and an increasing number.", "schema": _TEXT},
    "RateLimit-Policy": {"description": "The rate limit of the app on this store (IETF draft 11).", "schema": _TEXT},
    "RateLimit": {
        "description": "The remaining requests, and the seconds until the limit is fully restored, or after 429 until the next request.",
        "schema": _TEXT,
    },
    "X-RateLimit-Limit": {"description": "The largest burst of requests.", "schema": _TEXT},
    "X-RateLimit-Remaining": {"description": "The requests that remain now.", "schema": _TEXT},
    "X-RateLimit-Reset": {"description": "Seconds until the full burst is available again.", "schema": _TEXT},
    "ETag": {"description": "The version of the resource, for `If-Match` and `If-None-Match`.", "schema": _TEXT},
    "Location": {"description": "The URL of the new resource.", "schema": _TEXT},
    "Link": {"description": "Links to the next and previous page (RFC 8288).", "schema": _TEXT},
    "Retry-After": {"description": "Seconds to wait before a retry.", "schema": {"type": "integer"}},
    "WWW-Authenticate": {"description": "Why the access token was rejected (RFC 6750).", "schema": _TEXT},
    "Allow": {"description": "The methods that this URL supports.", "schema": _TEXT},
}
_LINES = (
    'All rows without pages, one on each line. The last line is `{"meta":{"total","count","cursor","complete":true}}`, or '
    'after a failure a problem document with `"complete":false` and the `cursor` to resume from. With `Prefer: checkpoints`, lines '
    "with `meta.cursor` in between say where to resume."
)
_STREAMS = {
    NDJSON: {"description": _LINES},
    JSONL: {"description": f"The same as `{NDJSON}`."},
    CSV: {"description": "All rows without pages, as a CSV file with a header. A file that breaks off is incomplete."},
}
_IN_EVERY_RESPONSE = list(HEADERS)[:7]
_BY_STATUS = {
    401: ["WWW-Authenticate"],
    403: ["WWW-Authenticate"],
    405: ["Allow"],
    409: ["Retry-After"],
    429: ["Retry-After"],
    503: ["Retry-After"],
}


def responses_of(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    """All responses by status; adds the schemas of their bodies to `schemas`."""
    return {**_success(endpoint, schemas), **_failures(errors_of(endpoint))}


def _success(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    if issubclass(endpoint.returns, NoContent):
        return {"204": _response("Success, without a response body.", [])}
    if issubclass(endpoint.returns, Batch):
        schema = batch_of(endpoint, schemas)
        return {
            "200": _response("Every item succeeded.", [], schema),
            "207": _response("Some items failed; each of them has an `error`.", [], schema),
        }
    if issubclass(endpoint.returns, Page):
        schema, headers = page_of(endpoint, schemas), ["Link"]
        description = "A page of the list; or the whole list, as a stream."
    else:
        schema, description, headers = one_of(endpoint, schemas), "The resource.", ["ETag"]
        if issubclass(endpoint.returns, Created):
            description, headers = "Created.", ["ETag", "Location"]
        if endpoint.status == 202:
            description = "Accepted; the work continues."
    responses = {
        str(endpoint.status): _response(
            description, headers, schema, endpoint.produces[1:], streams=endpoint.lists is not None
        )
    }
    dry_run_in_body = "dry_run" in getattr(endpoint.body, "__struct_fields__", ())
    if dry_run_in_body or (endpoint.status == 201 and "dry_run" in endpoint.parameters):
        responses["200"] = _response("The result of a dry run; nothing was changed.", ["ETag"], schema)
    if endpoint.longest_wait_s:
        text = "The work finished within the time of `Prefer: wait`."
        responses["200"] = _response(text, ["ETag"], schema)
    if endpoint.batch is not None:
        outcomes = batch_of(endpoint, schemas)
        shown = {"anyOf": [schema, outcomes]}
        responses["200"] = _response(
            "The result of a dry run, or a batch of which every item succeeded.", ["ETag"], shown
        )
        responses["207"] = _response("A batch of which some items failed; each of them has an `error`.", [], outcomes)
    if endpoint.method == "GET" and endpoint.lists is None:
        responses["304"] = _response("Not modified: the `ETag` still matches.", ["ETag"])
    return responses


def _response(
    description: str,
    headers: Iterable[str],
    schema: dict[str, Any] | None = None,
    other_media: Iterable[str] = (),
    *,
    streams: bool = False,
) -> dict[str, Any]:
    response: dict[str, Any] = {"description": description, "headers": _headers(headers)}
    if schema is not None:
        others = {
            media: {"schema": {"type": "string", **(_STREAMS[media] if streams else {})}} for media in other_media
        }
        response["content"] = {"application/json": {"schema": schema}, **others}
    return response


def _headers(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in (*_IN_EVERY_RESPONSE, *names)}


def _failures(errors: Iterable[type[Refusal]]) -> dict[str, Any]:
    by_status: dict[int, dict[str, str]] = defaultdict(dict)
    for error in errors:
        by_status[error.status][error.code] = error.title
    return {str(status): _failure(status, titles) for status, titles in sorted(by_status.items())}


def _failure(status: int, titles: dict[str, str]) -> dict[str, Any]:
    """All errors share one schema, because codes may be added; the extension lists the current ones."""
    return {
        "description": "; ".join(f"`{code}`: {title}" for code, title in titles.items()) + ".",
        "headers": _headers(_BY_STATUS.get(status, [])),
        "content": {"application/problem+json": {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}},
        CODES: list(titles),
    }
