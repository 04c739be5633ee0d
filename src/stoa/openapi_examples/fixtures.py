"""What all examples share: the store, the app, times and ids, and the envelopes around resources."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from stoa.rest.call import Store
from stoa.rest.openapi.envelopes import PAGE_META

STORE = Store(7, "demo", "Hearth & Loom", "USD", "active", timezone="America/New_York", locale="en-US")
SERVICE_URL = "https://api.example.com"
APP_ID, APP_NAME = 3, "Stock Sync"
CREATED_AT, UPDATED_AT = "2026-03-14T09:26:53.589793Z", "2026-03-14T15:09:26.535897Z"
REQUEST_ID = "req_7v3k9m2q5x8c1b4n6p0t"

Resource = dict[str, Any]
Responses = dict[str, dict[str, Any]]  # whole bodies, by operation


class EventExample(msgspec.Struct, frozen=True):
    """The part of an event that its resource determines."""

    resource_id: int
    version: int
    data: Resource
    changes: Mapping[str, Any] = {}


Events = dict[str, EventExample]  # by event name


def one(resource: Resource, **meta: Any) -> dict[str, Any]:
    return {"data": resource, "meta": meta}


def page(*resources: Resource, **meta: Any) -> dict[str, Any]:
    return {"data": list(resources), "meta": {**PAGE_META, "total": len(resources), **meta}}


def batch(status: str, *resources: Resource) -> dict[str, Any]:
    """The result of a batch in which every item succeeded."""
    data = [
        {"index": index, "status": status, "id": each["id"], "resource": each, "error": None}
        for index, each in enumerate(resources)
    ]
    return {"data": data, "meta": {"total": len(data), "succeeded": len(data), "failed": 0}}


def timestamps(version: int = 1) -> Resource:
    return {"created_at": CREATED_AT, "updated_at": CREATED_AT if version == 1 else UPDATED_AT, "version": version}


def tombstone(resource_id: int, version: int = 2) -> EventExample:
    """The event of a deletion."""
    data = {"id": resource_id, "deleted_at": UPDATED_AT, "updated_at": UPDATED_AT, "version": version}
    return EventExample(resource_id, version, data)


def shifted(time: str, **by: float) -> str:
    """A time plus a duration, in the same format."""
    moved = datetime.fromisoformat(time) + timedelta(**by)
    return moved.isoformat(timespec="microseconds").replace("+00:00", "Z")
