"""The chain of events of each resource: what an event says that changed is the difference from the event before it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.support.shops import Shop

EVENTS = """
    SELECT resource_type, resource_id, resource_version, type, changes, data FROM events
     WHERE store_id = $1 AND resource_type IN ('order', 'product', 'variant') ORDER BY position"""
STOCK = ("on_hand", "reserved", "available")
# Of these, `changes` has only the entries that differ.
_IN_PART = ("line_items", "fulfillments", "refunds", "payments", "locations")

Document = Mapping[str, Any]


class Versions:
    """The newest document of each resource, and that of the version before it if an event showed it."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, int], tuple[Document, Document | None]] = {}

    def add(self, kind: str, data: Document) -> Document | None:
        """Add a document; returns that of the version before it. Several events of one version have the same document."""
        newest, before = self._newest.get((kind, data["id"]), (None, None))
        if newest is not None and data["version"] == newest["version"]:
            assert data == newest, f"{kind} {data['id']}"
        else:
            assert newest is None or data["version"] > newest["version"], f"{kind} {data['id']}"
            before = newest if newest is not None and data["version"] == newest["version"] + 1 else None
        self._newest[kind, data["id"]] = data, before
        return before


async def assert_events_follow(shop: Shop) -> None:
    """The old values of each event are those of the version before it, and its new values are those of its own document."""
    versions = Versions()
    for kind, id_, version, name, changes, text in await shop.db.fetch(EVENTS, shop.store_id):
        data: Document = msgspec.json.decode(text)
        assert (data["id"], data["version"]) == (id_, version)
        before = versions.add(kind, data)
        if kind == "product":
            for variant in data.get("variants", ()):
                versions.add("variant", variant)
        for field, (old, new) in msgspec.json.decode(changes, type=dict[str, tuple[Any, Any]]).items():
            if field not in _IN_PART:
                said = f"{field} in {name} of {kind} {id_}, version {version}"
                assert _value(data, kind, field, new) == new, said
                assert before is None or _value(before, kind, field, old) == old, said


def _value(data: Document, kind: str, field: str, default: Any) -> Any:
    """The value of a field in a document; the default if the document does not show it, such as the sums of quantities."""
    shown: Document = data["stock"] if kind == "variant" and field in STOCK else data
    return shown.get(field, default)
