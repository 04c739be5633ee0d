"""The schemas of response bodies: `data` and `meta` around a resource, a page of them, or the results of a batch."""

from typing import Any

from stoa.rest.endpoint import Endpoint

Schemas = dict[str, Any]
SPARSE = "Sparse"  # begins the name of the schema of a resource that `fields` reduces
REFS = "#/components/schemas/{name}"
PAGE_META = {"total": 1, "limit": 50, "page": 1, "next_cursor": None, "prev_cursor": None}
_DATA, _META = "The resource, the list, or the results.", "Information about the response itself."
PARTS: Schemas = {
    "Meta": {"type": "object", "description": "Empty, unless the operation describes its content."},
    "PageMeta": {
        "type": "object",
        "description": "The size of the whole list, and the position of this page in it.",
        "required": list(PAGE_META),
        "properties": {
            "total": {"type": "integer", "description": "The exact number of items in the whole list."},
            "limit": {"type": "integer", "description": "The largest number of items on a page, as requested."},
            "page": {
                "type": ["integer", "null"],
                "description": "The number of this page, from 1; null if the request used `cursor`.",
            },
            "next_cursor": {
                "type": ["string", "null"],
                "description": "Send it as `cursor` to get the next page; null on the last page.",
            },
            "prev_cursor": {
                "type": ["string", "null"],
                "description": "Send it as `cursor` to get the previous page; null on the first page.",
            },
        },
        "examples": [PAGE_META],
    },
    "Tombstone": {
        "type": "object",
        "description": "A deleted resource; only lists with `include_deleted=true` contain it.",
        "required": ["id", "deleted_at", "updated_at", "version"],
        "properties": {
            "id": {"type": "integer", "description": "The id that the resource had. It is never used again."},
            "deleted_at": {
                "type": "string",
                "format": "date-time",
                "description": "The time of the deletion, in UTC.",
            },
            "updated_at": {
                "type": "string",
                "format": "date-time",
                "description": "The time of the last change, by which `updated_since` finds the deletion, in UTC.",
            },
            "version": {"type": "integer", "description": "The last version; higher than any that you read before."},
        },
        "additionalProperties": False,
    },
    "BatchMeta": {
        "type": "object",
        "description": "The number of items, and of those that succeeded and failed.",
        "required": ["total", "succeeded", "failed"],
        "properties": {
            "total": {"type": "integer", "description": "The number of items in the request."},
            "succeeded": {"type": "integer", "description": "The number of items that were applied or were unchanged."},
            "failed": {
                "type": "integer",
                "description": "The number of items that were rejected; each has an `error`.",
            },
        },
    },
    "BatchError": {
        "type": "object",
        "description": "Why an item of a batch failed.",
        "required": ["code", "title", "status", "detail"],
        "properties": {
            "code": {"type": "string", "description": "The error code, with a page at `/problems/{code}`."},
            "title": {"type": "string", "description": "The error in a few words, the same for every such error."},
            "status": {
                "type": "integer",
                "description": "The HTTP status that the item would get as a single request.",
            },
            "detail": {
                "type": "string",
                "description": "What is wrong with this item. For people; programs use `code`.",
            },
            "errors": {
                "type": "array",
                "description": "All faults of the item, each with a pointer into the body that was sent.",
                "items": {"$ref": REFS.format(name="Fault")},
            },
        },
    },
}


def one_of(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    return _named(
        f"{_resource(endpoint)}Answer", endpoint, _enveloped(_any_of(_shown(endpoint, schemas)), _part("Meta")), schemas
    )


def page_of(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    shown, meta = _shown(endpoint, schemas), _part("PageMeta")
    if endpoint.lists and endpoint.lists.deletable:
        shown.insert(1, _part("Tombstone"))
    if endpoint.lists and endpoint.lists.meta:
        whole = PARTS["PageMeta"]
        meta = {**whole, "properties": {**whole["properties"], **endpoint.lists.meta}}
        meta = _named(f"{_resource(endpoint)}PageMeta", endpoint, meta, schemas)
    data = {"type": "array", "maxItems": 250, "items": _any_of(shown)}
    return _named(f"{_resource(endpoint)}Page", endpoint, _enveloped(data, meta), schemas)


def batch_of(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    item = {
        "type": "object",
        "description": "The result of one item.",
        "required": ["index", "status", "id", "resource", "error"],
        "properties": {
            "index": {"type": "integer", "description": "The position of the item in the request, from 0."},
            "status": {
                "enum": ["created", "updated", "unchanged", "deleted", "failed"],
                "description": "What happened to the item.",
            },
            "id": {"type": ["integer", "null"], "description": "The id of the resource; null if the item failed."},
            "resource": {
                "anyOf": [_data(endpoint), {"type": "null"}],
                "description": "The resource after the change; null if the item failed or was deleted, and if the description of the operation says so.",
            },
            "error": {
                "anyOf": [_part("BatchError"), {"type": "null"}],
                "description": "Why the item failed; null if it did not.",
            },
        },
    }
    data = {"type": "array", "items": _named(f"{_resource(endpoint)}Outcome", endpoint, item, schemas)}
    return _named(f"{_resource(endpoint)}Outcomes", endpoint, _enveloped(data, _part("BatchMeta")), schemas)


def _resource(endpoint: Endpoint) -> str:
    return endpoint.resource.__name__ if endpoint.resource else ""


def _data(endpoint: Endpoint) -> dict[str, Any]:
    return _part(_resource(endpoint)) if endpoint.resource else {}


def _shown(endpoint: Endpoint, schemas: Schemas) -> list[dict[str, Any]]:
    """The resource, and what `fields` leaves of it: the same members, but none of them is required."""
    whole: dict[str, Any] = schemas.get(_resource(endpoint), {})
    if not (endpoint.lists or endpoint.shows_fields) or "properties" not in whole:
        return [_data(endpoint)]
    name = f"{SPARSE}{_resource(endpoint)}"
    text = "The resource with only the members that `fields` selects."
    # Without their descriptions, which would make the document much longer and say nothing new.
    members = {
        each: {k: v for k, v in kind.items() if k != "description"} for each, kind in whole["properties"].items()
    }
    schemas[name] = {"type": "object", "description": text, "properties": members}
    return [_data(endpoint), _part(name)]


def _any_of(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _part(name: str) -> dict[str, Any]:
    return {"$ref": REFS.format(name=name)}


def _enveloped(data: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    properties = {"data": {"description": _DATA, **data}, "meta": {"description": _META, **meta}}
    return {"type": "object", "required": ["data", "meta"], "properties": properties}


def _named(name: str, endpoint: Endpoint, schema: dict[str, Any], schemas: Schemas) -> dict[str, Any]:
    """Add a schema and return a reference to it; if the name is taken by another schema, the operation name prefixes it."""
    if schemas.setdefault(name, schema) != schema:
        name = "".join(word.title() for word in endpoint.name.split("_")) + name
        schemas[name] = schema
    return _part(name)
