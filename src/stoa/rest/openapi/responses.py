"""OpenAPI's answers: what an endpoint gives when it succeeds, and the refusals that it can give instead."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from stoa.rest.batch import Batch
from stoa.rest.endpoint import Created, Endpoint, NoContent, Page
from stoa.rest.openapi.envelopes import batch_of, one_of, page_of
from stoa.rest.openapi.errors import errors_of
from stoa.rest.problems import Problem, Refusal

CODES = "x-problem-codes"
_TEXT = {"type": "string"}
HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {"description": "Names this request, in our log too.", "schema": _TEXT},
    "API-Version": {"description": "The version that answered, `3.` and a number that grows.", "schema": _TEXT},
    "RateLimit-Policy": {"description": "How much the app may ask of this store (IETF draft 10).", "schema": _TEXT},
    "RateLimit": {"description": "How much of it is left, and when there will be more.", "schema": _TEXT},
    "X-RateLimit-Limit": {"description": "The most requests at once.", "schema": _TEXT},
    "X-RateLimit-Remaining": {"description": "Those left at this moment.", "schema": _TEXT},
    "X-RateLimit-Reset": {"description": "Seconds until all of them are there again.", "schema": _TEXT},
    "ETag": {"description": "The version of what is answered, for `If-Match` and `If-None-Match`.", "schema": _TEXT},
    "Location": {"description": "Where to find what was made.", "schema": _TEXT},
    "Link": {"description": "The pages next to this one (RFC 8288).", "schema": _TEXT},
    "Retry-After": {"description": "Seconds to wait before the next try.", "schema": {"type": "integer"}},
    "WWW-Authenticate": {"description": "What is wrong with the token (RFC 6750).", "schema": _TEXT},
    "Allow": {"description": "The methods that this address takes.", "schema": _TEXT},
}
_EVERY = list(HEADERS)[:7]
_OF_STATUS = {
    401: ["WWW-Authenticate"],
    403: ["WWW-Authenticate"],
    405: ["Allow"],
    409: ["Retry-After"],
    429: ["Retry-After"],
    503: ["Retry-After"],
}


def responses_of(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    """Every answer by its status; what their bodies are called is added to the schemas."""
    return {**_success(endpoint, schemas), **_failures(errors_of(endpoint))}


def _success(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    if issubclass(endpoint.answer, NoContent):
        return {"204": _answer("Done.", [])}
    if issubclass(endpoint.answer, Batch):
        schema = batch_of(endpoint, schemas)
        return {
            "200": _answer("Every item was carried out.", [], schema),
            "207": _answer("Some items failed; each says why.", [], schema),
        }
    if issubclass(endpoint.answer, Page):
        schema, description, headers = page_of(endpoint, schemas), "A page.", ["Link"]
    else:
        schema, description, headers = one_of(endpoint, schemas), "The resource.", ["ETag"]
        if issubclass(endpoint.answer, Created):
            description, headers = "Created.", ["ETag", "Location"]
    found = {str(endpoint.status): _answer(description, headers, schema, endpoint.produces[1:])}
    asked_in_body = "dry_run" in getattr(endpoint.body, "__struct_fields__", ())
    if asked_in_body or (endpoint.status == 201 and "dry_run" in endpoint.parameters):
        found["200"] = _answer("What would come of it; nothing was done.", ["ETag"], schema)
    if endpoint.method == "GET" and endpoint.lists is None:
        found["304"] = _answer("Not changed since that `ETag`.", ["ETag"])
    return found


def _answer(
    description: str, headers: Iterable[str], schema: dict[str, Any] | None = None, other_media: Iterable[str] = ()
) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": description, "headers": _headers(headers)}
    if schema is not None:
        others = {media: {"schema": {"type": "string"}} for media in other_media}
        answer["content"] = {"application/json": {"schema": schema}, **others}
    return answer


def _headers(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in (*_EVERY, *names)}


def _failures(errors: Iterable[type[Refusal]]) -> dict[str, Any]:
    by_status: dict[int, dict[str, str]] = defaultdict(dict)
    for error in errors:
        by_status[error.status][error.code] = error.title
    return {str(status): _failure(status, titles) for status, titles in sorted(by_status.items())}


def _failure(status: int, titles: dict[str, str]) -> dict[str, Any]:
    """One schema for all, because codes may be added; those of today are listed beside it."""
    return {
        "description": "; ".join(f"`{code}`: {title}" for code, title in titles.items()) + ".",
        "headers": _headers(_OF_STATUS.get(status, [])),
        "content": {"application/problem+json": {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}},
        CODES: list(titles),
    }
