"""OpenAPI's answers: what an endpoint gives when it succeeds, and the refusals that it can give instead."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from stoa.rest.batch import Batch
from stoa.rest.endpoint import Created, Endpoint, NoContent, Page
from stoa.rest.problems import Refusal

REFS = "#/components/schemas/{name}"


def answers_of(endpoint: Endpoint, errors: Iterable[type[Refusal]]) -> dict[str, Any]:
    return {**_success(endpoint), **_failures(errors)}


def _success(endpoint: Endpoint) -> dict[str, Any]:
    if issubclass(endpoint.answer, NoContent):
        return {"204": {"description": "Done.", "headers": _answer_headers([])}}
    resource = {"$ref": REFS.format(name=endpoint.resource.__name__)} if endpoint.resource else {}
    if issubclass(endpoint.answer, Batch):
        return _batch(resource)
    if issubclass(endpoint.answer, Page):
        meta = {
            "type": "object",
            "required": ["total", "limit", "page", "next_cursor", "prev_cursor"],
            "properties": {
                "total": {"type": "integer", "description": "How many there are in all, exactly."},
                "limit": {"type": "integer"},
                "page": {"type": ["integer", "null"]},
                "next_cursor": {"type": ["string", "null"]},
                "prev_cursor": {"type": ["string", "null"]},
                **(endpoint.lists.meta if endpoint.lists else {}),
            },
        }
        tombstone = {
            "type": "object",
            "description": "A deleted one, when asked for.",
            "required": ["id", "deleted_at", "version"],
            "properties": {
                "id": {"type": "integer"},
                "deleted_at": {"type": "string", "format": "date-time"},
                "version": {"type": "integer"},
            },
            "additionalProperties": False,
        }
        item = {"anyOf": [resource, tombstone]} if endpoint.lists and endpoint.lists.deletable else resource
        data: dict[str, Any] = {"type": "array", "maxItems": 250, "items": item}
        headers, description = ["Link"], "A page."
    else:
        meta, data = {"type": "object"}, resource
        headers, description = ["ETag"], "The resource."
        if issubclass(endpoint.answer, Created):
            headers, description = ["ETag", "Location"], "Created."
    schema = {"type": "object", "required": ["data", "meta"], "properties": {"data": data, "meta": meta}}
    found: dict[str, Any] = {
        str(endpoint.status): {
            "description": description,
            "headers": _answer_headers(headers),
            "content": {
                "application/json": {"schema": schema},
                **{media: {"schema": {"type": "string"}} for media in endpoint.produces[1:]},
            },
        }
    }
    asked_in_body = "dry_run" in getattr(endpoint.body, "__struct_fields__", ())
    if asked_in_body or (endpoint.status == 201 and "dry_run" in endpoint.parameters):
        tried = {"description": "What would come of it; nothing was done.", "headers": _answer_headers(["ETag"])}
        found["200"] = {**tried, "content": {"application/json": {"schema": schema}}}
    if endpoint.method == "GET" and endpoint.lists is None:
        found["304"] = {"description": "Not changed since that `ETag`.", "headers": _answer_headers(["ETag"])}
    return found


def _batch(resource: dict[str, Any]) -> dict[str, Any]:
    error = {
        "type": "object",
        "required": ["code", "title", "status", "detail"],
        "properties": {
            "code": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "errors": {"type": "array", "items": {"$ref": REFS.format(name="Fault")}},
        },
    }
    item = {
        "type": "object",
        "required": ["index", "status", "id", "resource", "error"],
        "properties": {
            "index": {"type": "integer"},
            "status": {"enum": ["created", "updated", "unchanged", "deleted", "failed"]},
            "id": {"type": ["integer", "null"]},
            "resource": {"anyOf": [resource, {"type": "null"}]},
            "error": {"anyOf": [error, {"type": "null"}]},
        },
    }
    counts = {name: {"type": "integer"} for name in ("total", "succeeded", "failed")}
    meta = {"type": "object", "required": list(counts), "properties": counts}
    data = {"type": "array", "items": item}
    schema = {"type": "object", "required": ["data", "meta"], "properties": {"data": data, "meta": meta}}
    answer = {"headers": _answer_headers([]), "content": {"application/json": {"schema": schema}}}
    return {
        "200": {"description": "Every item was carried out.", **answer},
        "207": {"description": "Some items failed; each says why.", **answer},
    }


def _answer_headers(names: Iterable[str]) -> dict[str, Any]:
    every = ["X-Request-Id", "API-Version", "RateLimit-Policy", "RateLimit", "X-RateLimit-Limit"]
    every += ["X-RateLimit-Remaining", "X-RateLimit-Reset", *names]
    return {name: {"schema": {"type": "string"}} for name in every}


def _failures(errors: Iterable[type[Refusal]]) -> dict[str, Any]:
    by_status: dict[int, list[type[Refusal]]] = defaultdict(list)
    for error in errors:
        if error not in by_status[error.status]:
            by_status[error.status].append(error)
    found: dict[str, Any] = {}
    for status, kinds in sorted(by_status.items()):
        codes = [kind.code for kind in kinds]
        narrowed = {"properties": {"code": {"enum": codes}}}
        found[str(status)] = {
            "description": "; ".join(f"`{kind.code}`: {kind.title}" for kind in kinds) + ".",
            "content": {
                "application/problem+json": {"schema": {"allOf": [{"$ref": REFS.format(name="Problem")}, narrowed]}}
            },
        }
        if status in (429, 503):
            found[str(status)]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return found
