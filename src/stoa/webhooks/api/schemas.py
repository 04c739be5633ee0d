"""The JSON Schema of every event, generated from the type of its resource."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from stoa.events.outbox import Event
from stoa.webhooks.api.samples import sample

DIALECT = "https://json-schema.org/draft/2020-12/schema"
EVENTS_TAG = "Events"  # not the tag of the operations on subscriptions, whose names generators would repeat
_EVENT_ID = r"^evt_[0-9a-z]{20}$"


def address(name: str) -> str:
    """The path at which the schema of an event is served."""
    return f"/schemas/events/{name}"


@cache
def schema_bytes(event: type[Event]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(schema(event)), indent=2) + b"\n"


def schema(event: type[Event]) -> dict[str, Any]:
    """The complete schema of one event, without external references."""
    parts = _parts([event], "#/$defs/{name}")
    return {
        "$schema": DIALECT,
        "$id": address(event.name),
        **_envelope(event, "#/$defs/{name}"),
        "examples": [sample(event)],
        "$defs": parts,
    }


def described(events: Mapping[str, type[Event]], reference: str) -> dict[str, Any]:
    """The `webhooks` of the OpenAPI document: one operation per event."""
    return {name: {"post": _operation(event, reference)} for name, event in events.items()}


def components(events: Mapping[str, type[Event]], reference: str) -> dict[str, dict[str, Any]]:
    """The components that these operations refer to: the envelope, the resources and the headers."""
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
        "description": _AFTER,
    }


def _envelope(event: type[Event], reference: str) -> dict[str, Any]:
    properties = _common(
        {"const": event.name}, {"const": event.resource_type}, _parent_of(event), _data(event, reference)
    )
    return {"title": event.name, "description": event.__doc__ or "", **_object(properties)}


def _narrowed(event: type[Event], reference: str) -> dict[str, Any]:
    """The envelope of one event, as the envelope of every event with some fields narrowed."""
    narrowed = {
        "type": {"const": event.name},
        "resource": {"type": "object", "properties": {"type": {"const": event.resource_type}}},
        # Not narrowed to null for the others: generators have no type for it.
        **({"parent": _PARENT} if event.resource_type == "variant" else {}),
        "data": _data(event, reference),
    }
    envelope = {"$ref": reference.format(name="Event")}
    return {
        "title": event.name,
        "description": event.__doc__ or "",
        "allOf": [envelope, {"type": "object", "properties": narrowed}],
    }


def _any_event() -> dict[str, Any]:
    data = {"type": "object", "description": _AFTER}
    properties = _common({"type": "string"}, {"type": "string"}, _NULL_OR_PARENT, data)
    return {"description": "An event as a subscription receives it.", **_object(properties)}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [name for name in properties if name != "data"],
        "properties": properties,
    }


def _parent_of(event: type[Event]) -> dict[str, Any]:
    return (
        _PARENT
        if event.resource_type == "variant"
        else {"type": "null", "description": "Null: only variants have a parent."}
    )


def _common(
    name: dict[str, Any], resource_type: dict[str, Any], parent: dict[str, Any], data: dict[str, Any]
) -> dict[str, Any]:
    return {
        "id": {
            "type": "string",
            "pattern": _EVENT_ID,
            "description": "The same in retries, redeliveries and other subscriptions; also the `webhook-id` header.",
        },
        "type": {**name, "description": "The name of the event."},
        "timestamp": {"type": "string", "format": "date-time", "description": "The time of the change, in UTC."},
        "api_version": {"const": "v3", "description": "The major version of the API, whose resources `data` contains."},
        "store": _STORE,
        "sequence": {
            "type": "integer",
            "minimum": 0,
            "description": "Increases by one with each event of this subscription, without gaps; 0 in a test.",
        },
        "resource": {
            "type": "object",
            "description": "The resource that changed.",
            "required": ["type", "id", "version", "url"],
            "properties": {
                "type": {**resource_type, "description": "The type of the resource, such as `order`."},
                "id": {"type": "integer", "description": "The id of the resource."},
                "version": {
                    "type": "integer",
                    "description": "Increases with each change. Overwrite your copy only with a higher version.",
                },
                "url": {
                    "type": ["string", "null"],
                    "description": "The path of the resource, below the base URL of the store.",
                },
            },
        },
        "parent": parent,
        "actor": {
            "type": "object",
            "description": "The originator of the change, such as an app or an operator.",
            "required": ["type"],
            "properties": {
                "type": {"type": "string", "description": "`app` or `operator`."},
                "app_id": {"type": ["integer", "null"], "description": "The id of the app; omitted for an operator."},
            },
        },
        "changes": {
            "type": "object",
            "description": "The old and the new value of each field that changed.",
            "additionalProperties": {"type": "array", "minItems": 2, "maxItems": 2, "items": {}},
        },
        "data": data,
    }


def _operation(event: type[Event], reference: str) -> dict[str, Any]:
    return {
        "operationId": f"on_{event.name.replace('.', '_')}",
        "tags": [EVENTS_TAG],
        "summary": (event.__doc__ or event.name).strip().splitlines()[0].rstrip("."),
        "description": _delivery(event),
        "x-required-scope": event.scope,
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in _HEADERS],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _narrowed(event, reference), "example": sample(event)}},
        },
        "responses": {
            "2XX": {"description": "Received. Stoa retries after any other status."},
            "410": {"description": "Gone. Stoa disables the subscription immediately."},
        },
    }


def _delivery(event: type[Event]) -> str:
    """Which apps receive the event, and what of it."""
    receivers = f"subscriptions of apps that have `{event.scope}`"
    if event.app_only:
        receivers = "the app's own endpoint, whatever its scopes"
    elif event.resource_type == "app":
        receivers += ", and to the app's own endpoint, whatever its scopes"
    text = f"Sent to {receivers}; signed according to Standard Webhooks."
    if not event.full_scope:
        return text
    basic = ", ".join(f"`{name}`" for name in sorted(event.basic_fields))
    return f"{text} Without `{event.full_scope}`, `data` has only {basic}."


_AFTER = "The resource after the change; omitted with `payload: thin`, reduced by `fields`."
_STORE = {
    "type": "object",
    "description": "The store of the event. Events that the app's own endpoint receives also have the optional members.",
    "required": ["id", "handle", "base_url"],
    "properties": {
        "id": {"type": "integer", "description": "The id of the store; it never changes."},
        "handle": {"type": "string", "description": "The name of the store in URLs."},
        "base_url": {
            "type": "string",
            "description": "The URL below which the API of the store is: add `/api/v3/app`.",
        },
        "name": {"type": "string", "description": "The display name of the store."},
        "currency": {"type": "string", "description": "The currency of all amounts, as an ISO 4217 code."},
        "timezone": {"type": "string", "description": "The time zone of the store, as an IANA name."},
        "locale": {"type": "string", "description": "The language of the store, as a BCP 47 tag."},
    },
}
_PARENT = {
    "type": "object",
    "description": "The product of the variant, with its version after the change.",
    "required": ["type", "id", "version"],
    "properties": {
        "type": {"type": "string", "const": "product", "description": "The type of the parent: always `product`."},
        "id": {"type": "integer", "description": "The id of the product."},
        "version": {"type": "integer", "description": "Compare it with the version of your copy of the product."},
    },
}
_NULL_OR_PARENT = {
    **_PARENT,
    "type": ["object", "null"],
    "description": "The resource that the resource of the event belongs to: the product of a variant. Null for all others.",
}
_ERASED = {
    "type": "object",
    "description": "What remains in a stored event after the customer was erased.",
    "required": ["id"],
    "properties": {"id": {"type": "integer", "description": "The id of the erased customer."}},
    "additionalProperties": False,
}
_HEADERS = {
    "webhook-id": "The id of the event, the same in every attempt.",
    "webhook-timestamp": "The time at which this attempt was signed, in seconds since 1970.",
    "webhook-signature": "`v1,` and the base64 HMAC-SHA256 of id, timestamp and body; a list while a secret rotates.",
    "webhook-store": "The id of the store, only in deliveries that are signed with the app's signing secret. A `v1s` signature covers it.",
}


def _header(name: str, text: str) -> dict[str, Any]:
    required = name != "webhook-store"
    return {"name": name, "in": "header", "required": required, "description": text, "schema": {"type": "string"}}
