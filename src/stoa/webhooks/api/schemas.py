"""The JSON Schema of every event, from the type of its document: what a receiver can rely on."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from stoa.events.outbox import Event
from stoa.webhooks.api.samples import sample

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_EVENT_ID = r"^evt_[0-9a-z]{20}$"


def address(name: str) -> str:
    """Where an event's schema is served, below the service's root."""
    return f"/schemas/events/{name}"


@cache
def schema_bytes(event: type[Event]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(schema(event)), indent=2) + b"\n"


def schema(event: type[Event]) -> dict[str, Any]:
    """The schema of one event, whole: it refers to nothing outside itself."""
    parts = _parts([event], "#/$defs/{name}")
    return {
        "$schema": DIALECT,
        "$id": address(event.name),
        **_envelope(event, "#/$defs/{name}"),
        "examples": [sample(event)],
        "$defs": parts,
    }


def described(events: Mapping[str, type[Event]], reference: str) -> dict[str, Any]:
    """OpenAPI's `webhooks`, an operation for each event."""
    return {name: {"post": _operation(event, reference)} for name, event in events.items()}


def components(events: Mapping[str, type[Event]], reference: str) -> dict[str, dict[str, Any]]:
    """What these operations refer to: the envelope, the documents within, the header fields."""
    schemas = {"Event": _any_event(), **_parts(list(events.values()), reference)}
    return {"schemas": schemas, "parameters": {name: _header(name, text) for name, text in _HEADERS.items()}}


def _parts(events: list[type[Event]], reference: str) -> dict[str, Any]:
    types = list(dict.fromkeys(event.resource for event in events if event.resource is not None))
    _, components = msgspec.json.schema_components(types, ref_template=reference)
    return dict(components)


def _data(event: type[Event], reference: str) -> dict[str, Any]:
    data: dict[str, Any] = {"type": "object"}
    if event.resource is not None:
        data = {"$ref": reference.format(name=event.resource.__name__)}
    if event.resource_type == "customer":
        data = {"anyOf": [data, _ERASED]}
    return {
        **data,
        "description": "The resource after the change; left out with `payload: thin`, narrowed by `fields`.",
    }


def _envelope(event: type[Event], reference: str) -> dict[str, Any]:
    properties = _common({"const": event.name}, {"const": event.resource_type}, _data(event, reference))
    return {"title": event.name, "description": event.__doc__ or "", **_object(properties)}


def _narrowed(event: type[Event], reference: str) -> dict[str, Any]:
    """The same envelope, by what it has of its own beside that of every event."""
    own = {
        "type": {"const": event.name},
        "resource": {"type": "object", "properties": {"type": {"const": event.resource_type}}},
        "data": _data(event, reference),
    }
    every = {"$ref": reference.format(name="Event")}
    return {
        "title": event.name,
        "description": event.__doc__ or "",
        "allOf": [every, {"type": "object", "properties": own}],
    }


def _any_event() -> dict[str, Any]:
    properties = _common({"type": "string"}, {"type": "string"}, {"type": "object"})
    return {"description": "What a subscription is sent, whatever happened.", **_object(properties)}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [name for name in properties if name != "data"],
        "properties": properties,
    }


def _common(name: dict[str, Any], resource_type: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": {
            "type": "string",
            "pattern": _EVENT_ID,
            "description": "Equal over retries, replays and subscriptions; also the `webhook-id` header.",
        },
        "type": name,
        "timestamp": {"type": "string", "format": "date-time", "description": "When it happened, in UTC."},
        "api_version": {"const": "v3"},
        "store": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}},
        "sequence": {
            "type": "integer",
            "minimum": 0,
            "description": "One more with each event of this subscription, without gaps; 0 in a test.",
        },
        "resource": {
            "type": "object",
            "required": ["type", "id", "version", "url"],
            "properties": {
                "type": resource_type,
                "id": {"type": "integer"},
                "version": {"type": "integer", "description": "Drop news of a version older than the one you have."},
                "url": {"type": ["string", "null"], "description": "The resource below the store's address."},
            },
        },
        "actor": {
            "type": "object",
            "description": "Who caused it.",
            "required": ["type"],
            "properties": {"type": {"type": "string"}, "app_id": {"type": ["integer", "null"]}},
        },
        "changes": {
            "type": "object",
            "description": "Old and new value of each field that changed.",
            "additionalProperties": {"type": "array", "minItems": 2, "maxItems": 2, "items": {}},
        },
        "data": data,
    }


def _operation(event: type[Event], reference: str) -> dict[str, Any]:
    return {
        "operationId": f"on_{event.name.replace('.', '_')}",
        "tags": ["Webhooks"],
        "summary": (event.__doc__ or event.name).strip().splitlines()[0].rstrip("."),
        "description": f"Sent to subscriptions of apps with `{event.scope}`; signed as Standard Webhooks.",
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in _HEADERS],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _narrowed(event, reference), "example": sample(event)}},
        },
        "responses": {
            "2XX": {"description": "Received; anything else is tried again."},
            "410": {"description": "Gone: the subscription is disabled at once."},
        },
    }


_ERASED = {
    "type": "object",
    "description": "What is left in a stored event once its customer is erased.",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}},
    "additionalProperties": False,
}
_HEADERS = {
    "webhook-id": "The event's id, the same at every try.",
    "webhook-timestamp": "Seconds since 1970 at which this try was signed.",
    "webhook-signature": "`v1,` and the base64 HMAC-SHA256 of id, timestamp and body; a list while secrets rotate.",
}


def _header(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": True, "description": text, "schema": {"type": "string"}}
