"""What every example of an answer is made with: the store it is of, its times, and the envelopes around resources."""

from typing import Any

from stoa.rest.endpoint import Store

STORE = Store(7, "demo", "Hearth & Loom", "USD", "active")
APP_ID, APP_NAME = 3, "Till"
CREATED, CHANGED = "2026-03-14T09:26:53.589793Z", "2026-03-14T15:09:26.535897Z"
REQUEST_ID = "req_7v3k9m2q5x8c1b4n6p0t"

Resource = dict[str, Any]
Answers = dict[str, dict[str, Any]]  # whole bodies, by operation


def one(resource: Resource, **meta: Any) -> dict[str, Any]:
    return {"data": resource, "meta": meta}


def page(*resources: Resource, limit: int = 50) -> dict[str, Any]:
    meta = {"total": len(resources), "limit": limit, "page": 1, "next_cursor": None, "prev_cursor": None}
    return {"data": list(resources), "meta": meta}


def outcomes(status: str, *resources: Resource) -> dict[str, Any]:
    data = [
        {"index": index, "status": status, "id": each["id"], "resource": each, "error": None}
        for index, each in enumerate(resources)
    ]
    return {"data": data, "meta": {"total": len(data), "succeeded": len(data), "failed": 0}}


def books(version: int = 1) -> Resource:
    """When it came to be, when it changed last, and how often."""
    return {"created_at": CREATED, "updated_at": CREATED if version == 1 else CHANGED, "version": version}
