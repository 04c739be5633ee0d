"""Decides whether an event changed one of the fields that a subscription watches, from the recorded old and new values.

The write that caused an event has recorded what it changed, so no document is decoded and no values are compared again. Of an
object or a list, only the watched part is compared.
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from stoa.events.outbox import Event as EventType
from stoa.rest.patch import is_same
from stoa.webhooks.delivery.conditions import plural

VARIANTS = "variants."  # the fields of a variant, as its product shows them


class Changes:
    """The recorded changes of one event, decoded when a subscription first needs them."""

    def __init__(self, type: str, changes: str) -> None:
        kind = EventType.known.get(type, EventType)
        self._is_update = bool(kind.recorded)
        self._paths = kind.changed_paths
        self._prefix = VARIANTS if kind.resource_type == "variant" else None
        self._changes = changes
        self._pairs: dict[str, msgspec.Raw] | None = None
        self._values: dict[str, list[Any]] = {}
        self._found: dict[str, bool] = {}

    def include(self, fields: Iterable[str]) -> bool:
        """Whether one of these fields changed. An event that is no update, or has no record of changes, includes all fields."""
        if not self._is_update:
            return True
        if self._pairs is None:
            self._pairs = msgspec.json.decode(self._changes, type=dict[str, msgspec.Raw])
        return not self._pairs or any(self._includes(field, self._pairs) for field in fields)

    def _includes(self, field: str, pairs: dict[str, msgspec.Raw]) -> bool:
        found = self._found.get(field)
        if found is None:
            path = field.removeprefix(self._prefix) if self._prefix else field
            found = self._found[field] = any(self._covers(path, name, raw) for name, raw in pairs.items())
        return found

    def _covers(self, path: str, name: str, raw: msgspec.Raw) -> bool:
        recorded = self._paths.get(name, name)
        if recorded == path or recorded.startswith(f"{path}."):
            return True
        if not path.startswith(f"{recorded}."):
            return False
        old, new = self._pair(name, raw)
        rest = path[len(recorded) + 1 :]
        return not is_same(_part(old, rest), _part(new, rest))

    def _pair(self, name: str, raw: msgspec.Raw) -> Sequence[Any]:
        if name not in self._values:
            self._values[name] = msgspec.json.decode(raw, type=list[Any])
        return self._values[name]


def _part(value: Any, path: str) -> Any:
    """The values at a path; those of each item of a list. A key of metadata may contain dots."""
    if isinstance(value, list):
        return [_part(item, path) for item in cast("list[Any]", value)]
    if not path or not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value)
    if path in members:
        return members[path]
    name, _, rest = path.partition(".")
    name = name if name in members else plural(name)
    # A missing member differs from null.
    return _part(members[name], rest) if name in members else _MISSING


_MISSING = object()
