"""The OpenAPI 3.1 document, derived from the declarations: it documents exactly what is declared."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stoa.rest.endpoint import Endpoint
from stoa.rest.openapi.components import share
from stoa.rest.openapi.envelopes import REFS
from stoa.rest.openapi.parameters import parameters_of
from stoa.rest.openapi.responses import HEADERS, responses_of
from stoa.rest.openapi.schemas import body_name, schemas_of

ORIGIN = "http://localhost:8000"  # of the local demo; every service has its own


class Examples(msgspec.Struct, frozen=True):
    """Examples to show that the declarations do not contain."""

    resources: Mapping[str, Any] = {}  # by type
    responses: Mapping[str, Any] = {}  # by operation
    path_parameters: Mapping[str, Any] = {}  # by name


def document(
    endpoints: Sequence[Endpoint],
    *,
    prefix: str,
    version: str,
    summary: str,
    description: str,
    scopes: Mapping[str, str],
    groups: Mapping[str, str],
    examples: Examples | None = None,
) -> dict[str, Any]:
    """The whole document."""
    examples = examples or Examples()
    schemas = schemas_of(endpoints)
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for endpoint in endpoints:
        operation = paths[prefix + endpoint.path][endpoint.method.lower()] = _operation(endpoint, schemas, examples)
        if endpoint.name in examples.responses:
            content = operation["responses"][str(endpoint.status)]["content"]
            content["application/json"]["example"] = examples.responses[endpoint.name]
    for name, example in examples.resources.items():
        schemas[name]["examples"] = [example]
    shared = share(paths)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stoa app API",
            "version": version,
            "summary": summary,
            "description": description,
            "contact": {"name": "The operator of the service"},
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {
                "url": "{base_url}",
                "description": "The base URL of a store, by path or by host; the default is the local demo store.",
                "x-internal": False,
                "variables": {"base_url": {"default": f"{ORIGIN}/stores/demo"}},
            }
        ],
        "tags": [{"name": name, "description": text} for name, text in groups.items()],
        "security": [{"app": []}],
        "paths": dict(paths),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            **shared,
            "headers": HEADERS,
            "securitySchemes": {
                "app": {
                    "type": "oauth2",
                    "description": "Exchange `client_id` and `client_secret` for an access token that expires after one hour.",
                    "flows": {"clientCredentials": {"tokenUrl": "/oauth/token", "scopes": dict(scopes)}},
                }
            },
        },
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any], examples: Examples) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "tags": [endpoint.group],
        "summary": endpoint.summary,
        "description": endpoint.description or endpoint.summary + ".",
        "security": [{"app": [endpoint.scope]}],
        "parameters": parameters_of(endpoint, examples.path_parameters),
        "responses": responses_of(endpoint, schemas),
    }
    if endpoint.body is not None:
        names = [body_name(endpoint), *(type_.__name__ for type_ in endpoint.bodies.values())]
        choices = [{"$ref": REFS.format(name=name)} for name in names]
        content: dict[str, Any] = {"schema": choices[0] if len(choices) == 1 else {"anyOf": choices}}
        if endpoint.example is not None:
            content["example"] = endpoint.example
        media = ["application/json"] + (["application/merge-patch+json"] if endpoint.method == "PATCH" else [])
        operation["requestBody"] = {
            "required": endpoint.body_required,
            "content": dict.fromkeys(media, content),
        }
    if endpoint.uploads:
        operation["requestBody"] = {
            "required": True,
            "content": {media: _upload(media, endpoint.example) for media in endpoint.uploads},
        }
    if endpoint.field_scopes:
        operation["x-field-scopes"] = {f"/{'/'.join(path)}": scope for path, scope in endpoint.field_scopes}
    if endpoint.repeats and endpoint.method != "POST":  # of which nobody expects otherwise
        operation["x-idempotent"] = False
    if endpoint.tasks:
        operation["x-tasks"] = [
            {**msgspec.to_builtins(task), "response": examples.responses[task.name]} for task in endpoint.tasks
        ]
    if endpoint.deprecation is not None:
        operation["deprecated"] = True
    return operation


def _upload(media: str, examples: Mapping[str, Any] | None) -> dict[str, Any]:
    """A file, or a JSON object with the rows as its items."""
    example = {"example": examples[media]} if examples else {}
    if media != "application/json":
        return {"schema": {"type": "string", "format": "binary"}, **example}
    rows = {"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "object"}}
    schema = {"type": "object", "required": ["items"], "properties": {"items": rows}, "additionalProperties": False}
    return {"schema": schema, **example}
