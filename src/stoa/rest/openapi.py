"""OpenAPI 3.1, derived from the declarations: what is not declared is not documented, and the other way round."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from stoa.rest import problems
from stoa.rest.endpoint import Endpoint
from stoa.rest.openapi_answers import REFS, answers_of
from stoa.rest.openapi_parameters import parameters_of
from stoa.rest.problems import Problem, Refusal

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
    _, components = msgspec.json.schema_components(types, ref_template=REFS)
    for endpoint in endpoints:
        if endpoint.body is not None and not _is_struct(endpoint.body):
            components[_free_keys(endpoint)] = msgspec.json.schema(endpoint.body)
    _mend(components)
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
        "parameters": parameters_of(endpoint),
        "responses": answers_of(endpoint, errors_of(endpoint)),
    }
    if endpoint.body is not None:
        name = endpoint.body.__name__ if _is_struct(endpoint.body) else _free_keys(endpoint)
        content: dict[str, Any] = {"schema": {"$ref": REFS.format(name=name)}}
        if endpoint.example is not None:
            content["example"] = endpoint.example
        media = ["application/json"] + (["application/merge-patch+json"] if endpoint.method == "PATCH" else [])
        operation["requestBody"] = {
            "required": endpoint.body_required,
            "content": dict.fromkeys(media, content),
        }
    if endpoint.uploads:
        operation["requestBody"] = {"required": True, "content": {media: _upload(media) for media in endpoint.uploads}}
    if endpoint.deprecation is not None:
        operation["deprecated"] = True
    return operation


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _free_keys(endpoint: Endpoint) -> str:
    """The name of a body whose keys are the caller's own, which has none by itself."""
    return "".join(word.title() for word in endpoint.name.split("_")) + "Body"


def _upload(media: str) -> dict[str, Any]:
    """A file, or the same rows as the items of a JSON object."""
    if media != "application/json":
        return {"schema": {"type": "string", "format": "binary"}}
    rows = {"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "object"}}
    return {"schema": {"type": "object", "required": ["items"], "properties": {"items": rows}}}


def _mend(schema: Any) -> None:
    """Put right what msgspec says of pairs, whose length it says twice, and of exact numbers, which it calls strings."""
    if isinstance(schema, dict):
        members = cast("dict[str, Any]", schema)
        if members.get("items") is False:
            del members["items"]
        if members.get("format") == "decimal" and "minimum" in members:  # money has a pattern instead
            members["type"] = "number"
            del members["format"]
        for each in members.values():
            _mend(each)
    elif isinstance(schema, list):
        for each in cast("list[Any]", schema):
            _mend(each)
