"""OpenAPI 3.1, derived from the declarations: what is not declared is not documented, and the other way round."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stoa.rest import problems
from stoa.rest.batch import Batch
from stoa.rest.endpoint import Created, Endpoint, NoContent, Page
from stoa.rest.filters import Filter
from stoa.rest.problems import Problem, Refusal

_REFS = "#/components/schemas/{name}"
_ALWAYS: tuple[type[Refusal], ...] = (
    problems.MissingToken,
    problems.InvalidToken,
    problems.ExpiredToken,
    problems.InsufficientScope,
    problems.AppNotInstalled,
    problems.AppSuspended,
    problems.StoreSuspended,
    problems.NotFound,
    problems.MethodNotAllowed,
    problems.NotAcceptable,
    problems.UnknownParameter,
    problems.InvalidParameter,
    problems.RateLimited,
    problems.HeadersTooLarge,
    problems.InternalError,
    problems.ServiceUnavailable,
)
_LISTS = (problems.CursorMismatch, problems.PageTooDeep)
_WRITES = (
    problems.InvalidIdempotencyKey,
    problems.IdempotencyInProgress,
    problems.IdempotencyKeyReused,
    problems.RequestTimeout,
    problems.PayloadTooLarge,
    problems.UnsupportedMediaType,
)
_BODIES = (problems.MalformedJson, problems.ValidationFailed)
_ONES = (problems.VersionConflict,)


def errors_of(endpoint: Endpoint) -> list[type[Refusal]]:
    """Every refusal that an endpoint can answer with: those of its nature, then its own."""
    found = list(_ALWAYS)
    if endpoint.lists is not None:
        found += _LISTS
    if endpoint.method != "GET":
        found += _WRITES
    if endpoint.body is not None:
        found += _BODIES
    if endpoint.method in ("PATCH", "PUT", "DELETE"):
        found += _ONES
    return [*found, *endpoint.errors]


def document(
    endpoints: Sequence[Endpoint],
    *,
    prefix: str,
    version: str,
    scopes: Mapping[str, str],
    groups: Mapping[str, str],
) -> dict[str, Any]:
    """The whole description of the API."""
    types: list[Any] = [Problem]
    for endpoint in endpoints:
        types += [t for t in (endpoint.resource, endpoint.body) if t is not None and t not in types]
    _, components = msgspec.json.schema_components(types, ref_template=_REFS)
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for endpoint in endpoints:
        paths[prefix + endpoint.path][endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stoa app API",
            "version": version,
            "summary": "One interface through which apps reach the products, orders, customers and webhooks of many stores.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {
                "url": "{base_url}",
                "description": "A store, by its path or its host.",
                "variables": {"base_url": {"default": "http://localhost:8000/stores/demo"}},
            }
        ],
        "tags": [{"name": name, "description": text} for name, text in groups.items()],
        "security": [{"app": []}],
        "paths": dict(paths),
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "app": {
                    "type": "oauth2",
                    "description": "Exchange client_id and client_secret for a bearer token that lives one hour.",
                    "flows": {"clientCredentials": {"tokenUrl": "/oauth/token", "scopes": dict(scopes)}},
                }
            },
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [endpoint.group],
        "summary": endpoint.summary,
        "description": endpoint.description or endpoint.summary + ".",
        "security": [{"app": [endpoint.scope]}],
        "parameters": [*_path(endpoint), *_query(endpoint), *_headers(endpoint)],
        "responses": {**_success(endpoint), **_failures(errors_of(endpoint))},
    }
    if endpoint.body is not None:
        schema = {"$ref": _REFS.format(name=endpoint.body.__name__)}
        content: dict[str, Any] = {"schema": schema}
        if endpoint.example is not None:
            content["example"] = endpoint.example
        media = ["application/json"] + (["application/merge-patch+json"] if endpoint.method == "PATCH" else [])
        operation["requestBody"] = {
            "required": endpoint.body_required,
            "content": dict.fromkeys(media, content),
        }
    if endpoint.uploads:
        binary: dict[str, Any] = {"schema": {"type": "string"}}
        operation["requestBody"] = {"required": True, "content": dict.fromkeys(endpoint.uploads, binary)}
    if endpoint.deprecation is not None:
        operation["deprecated"] = True
    return operation


def _path(endpoint: Endpoint) -> list[dict[str, Any]]:
    integer = {"type": "integer", "format": "int64", "minimum": 1, "maximum": 10**18 - 1}
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": f"The id of the {name.removesuffix('_id').replace('_', ' ')}.",
            "schema": integer if kind is int else {"type": "string", "maxLength": 64},
        }
        for name, kind in endpoint.path_parameters.items()
    ]


def _query(endpoint: Endpoint) -> list[dict[str, Any]]:
    if endpoint.lists is None:
        found = (
            [_list_parameter("fields", "Only these fields, with commas between.", _fields(endpoint))]
            if endpoint.shows_fields
            else []
        )
        if endpoint.includes:
            found.append(_list_parameter("include", "What else to put into the answer.", endpoint.includes))
        return found + [p for name, kind in endpoint.parameters.items() for p in _filter(name, kind)]
    parameters: list[dict[str, Any]] = []
    sorts = [sign + name for name in endpoint.lists.sorts for sign in ("", "-")]
    known: dict[str, Sequence[str]] = {
        "sort": sorts,
        "fields": endpoint.lists.fields,
        "include": endpoint.lists.includes,
    }
    for name, kind in endpoint.lists.parameters().items():
        if name in known:
            if known[name]:
                parameters.append(_list_parameter(name, kind.description, known[name]))
        else:
            parameters += _filter(name, kind)
    return parameters


def _fields(endpoint: Endpoint) -> Sequence[str]:
    return [f.encode_name for f in msgspec.structs.fields(endpoint.resource)] if endpoint.resource else []


def _list_parameter(name: str, description: str, values: Sequence[str]) -> dict[str, Any]:
    items = {"type": "string", "enum": list(values)}
    schema = {"type": "array", "items": items, "minItems": 1, "maxItems": len(values), "uniqueItems": True}
    return {
        "name": name,
        "in": "query",
        "description": description,
        "style": "form",
        "explode": False,
        "schema": schema,
    }


def _filter(name: str, kind: Filter) -> list[dict[str, Any]]:
    schema = kind.schema()
    if name in ("limit", "per_page"):
        schema = {"type": "integer", "minimum": 1, "maximum": 250, "default": 50}
    elif name == "page":
        schema = {"type": "integer", "minimum": 1, "maximum": 10_000}
    style: dict[str, Any] = {}
    if schema["type"] == "array":
        style = {"style": "form", "explode": False}
    elif schema["type"] == "object":
        style = {"style": "deepObject", "explode": True}
    found = [{"name": name, "in": "query", "description": kind.description, **style, "schema": schema}]
    words = {"gte": "At least", "gt": "More than", "lte": "At most", "lt": "Less than"}
    return found + [
        {"name": f"{name}[{o}]", "in": "query", "description": f"{words[o]} this.", "schema": schema}
        for o in kind.operators
        if o in words
    ]


def _headers(endpoint: Endpoint) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if endpoint.method != "GET":
        found.append(
            _header(
                "Idempotency-Key",
                "Makes a retry safe: the same key has one effect and the same answer, for 7 days.",
                {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
            )
        )
    if endpoint.method in ("PATCH", "PUT", "DELETE"):
        found.append(
            _header(
                "If-Match",
                "Only if this is still the version, as in the `ETag`.",
                {"type": "string", "maxLength": 255},
            )
        )
    if endpoint.method == "GET" and endpoint.lists is None:
        found.append(
            _header("If-None-Match", "Answers 304 while the `ETag` is this.", {"type": "string", "maxLength": 255})
        )
    return found


def _header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": description, "schema": schema}


def _success(endpoint: Endpoint) -> dict[str, Any]:
    if issubclass(endpoint.answer, NoContent):
        return {"204": {"description": "Done.", "headers": _answer_headers([])}}
    resource = {"$ref": _REFS.format(name=endpoint.resource.__name__)} if endpoint.resource else {}
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
            "errors": {"type": "array", "items": {"$ref": _REFS.format(name="Fault")}},
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
                "application/problem+json": {"schema": {"allOf": [{"$ref": _REFS.format(name="Problem")}, narrowed]}}
            },
        }
        if status in (429, 503):
            found[str(status)]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    return found
