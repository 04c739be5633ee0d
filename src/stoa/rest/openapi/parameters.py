"""The parameters of an operation: in its path, its query and its headers."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from stoa.rest.batch import Batch
from stoa.rest.endpoint import Endpoint
from stoa.rest.filters import LARGEST_SET, Filter
from stoa.rest.headers import MOST_TAG_BYTES
from stoa.rest.openapi.envelopes import REFS
from stoa.rest.openapi.schemas import exclude_nul, field_name

_TAGS = {"type": "string", "maxLength": MOST_TAG_BYTES}


def parameters_of(endpoint: Endpoint, examples: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*exclude_nul([*_path(endpoint, examples), *_query(endpoint)]), *_headers(endpoint)]


def _path(endpoint: Endpoint, examples: Mapping[str, Any]) -> list[dict[str, Any]]:
    integer = {"type": "integer", "format": "int64", "minimum": 1, "maximum": 10**18 - 1}
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": f"The id of the {name.removesuffix('_id').replace('_', ' ')}.",
            "schema": integer if kind is int else {"type": "string", "maxLength": 64},
            **({"example": examples[name]} if name in examples else {}),
        }
        for name, kind in endpoint.path_parameters.items()
    ]


def _query(endpoint: Endpoint) -> list[dict[str, Any]]:
    if endpoint.lists is None:
        found = (
            [_several("fields", "Return only these fields, separated by commas.", _fields(endpoint))]
            if endpoint.shows_fields
            else []
        )
        if endpoint.includes:
            found.append(_several("include", "Related data to include in the response.", _one_of(endpoint.includes)))
        return found + [p for name, kind in endpoint.parameters.items() for p in _filter(name, kind)]
    parameters: list[dict[str, Any]] = []
    for name, kind in endpoint.lists.parameters().items():
        if name == "sort":
            parameters.append(_sort(endpoint.lists.sorts, kind.description))
        elif name == "fields":
            parameters.append(_several(name, kind.description, _fields(endpoint)))
        elif name != "include":
            parameters += _filter(name, kind)
        elif endpoint.lists.includes:
            parameters.append(_several(name, kind.description, _one_of(endpoint.lists.includes)))
    return parameters


def _fields(endpoint: Endpoint) -> dict[str, Any]:
    return {"$ref": REFS.format(name=field_name(endpoint))}


def _one_of(values: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def _sort(keys: Collection[str], description: str) -> dict[str, Any]:
    """Each key at most once, ascending or descending."""
    items = _one_of([sign + key for key in keys for sign in ("", "-")])
    # In most languages an enum member cannot be called "-name".
    items["x-enum-varnames"] = [key.upper() + suffix for key in keys for suffix in ("", "_DESCENDING")]
    parameter = _several("sort", description, items)
    parameter["schema"] |= {"maxItems": len(keys), "uniqueItems": True}
    return parameter


def _several(name: str, description: str, items: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "array", "items": items, "minItems": 1, "maxItems": LARGEST_SET}
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
        # Without a default, which generated clients would send under both names.
        schema = {"type": "integer", "format": "int32", "minimum": 1, "maximum": 250}
    elif name == "page":
        schema = {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10_000}
    style: dict[str, Any] = {}
    if schema["type"] == "array":
        style = {"style": "form", "explode": False}
    elif schema["type"] == "object":
        style = {"style": "deepObject", "explode": True}
    found = [{"name": name, "in": "query", "description": kind.description, **style, "schema": schema}]
    comparisons = {"gte": "At least", "gt": "Greater than", "lte": "At most", "lt": "Less than"}
    return found + [
        {
            "name": f"{name}[{operator}]",
            "in": "query",
            "description": f"{comparisons[operator]} this value.",
            "schema": schema,
        }
        for operator in kind.operators
        if operator in comparisons
    ]


def _headers(endpoint: Endpoint) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if endpoint.method != "GET":
        found.append(
            _header(
                "Idempotency-Key",
                "Makes retries safe: for 7 days, requests with the same key take effect once and get the same response.",
                {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
            )
        )
    # A batch has no version; its items have `if_version`.
    if endpoint.method in ("PATCH", "PUT", "DELETE") and not issubclass(endpoint.returns, Batch):
        found.append(_header("If-Match", "Make the change only if the resource still has this `ETag`.", _TAGS))
    if endpoint.method == "GET" and endpoint.lists is None:
        found.append(_header("If-None-Match", "Respond with 304 if the resource still has this `ETag`.", _TAGS))
    if endpoint.longest_wait_s:
        text = (
            f"`wait=10` waits up to 10 seconds, and at most {endpoint.longest_wait_s}, for the work to finish: the status is "
            "then 200 instead of 202 (RFC 7240)."
        )
        found.append(_header("Prefer", text, {"type": "string", "maxLength": 255, "examples": ["wait=10"]}))
    return found


def _header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": description, "schema": schema}
