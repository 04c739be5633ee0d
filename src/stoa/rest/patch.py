"""Merge patch (RFC 7396): what is left out stays, null clears, arrays are replaced, objects are merged."""

from collections.abc import Mapping
from typing import Any

from stoa.rest.endpoint import Call
from stoa.rest.problems import Fault, ValidationFailed, counted


def merge(target: Any, patch: Any) -> Any:
    """The target with the patch applied; neither is changed."""
    if not isinstance(patch, dict):
        return patch
    members: dict[str, Any] = dict(target) if isinstance(target, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
    changes: dict[str, Any] = patch  # pyright: ignore[reportUnknownVariableType]
    for name, value in changes.items():
        if value is None:
            members.pop(name, None)
        else:
            members[name] = merge(members.get(name), value)
    return members


def changes_between(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Old and new value of every member that differs; empty when nothing changed."""
    names = [*before, *(name for name in after if name not in before)]
    return {
        name: (before.get(name), after.get(name)) for name in names if not is_same(before.get(name), after.get(name))
    }


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON, objects in any order; Python alone would take true for 1."""
    if one != other:
        return False
    if isinstance(one, dict):
        members: dict[str, Any] = one  # pyright: ignore[reportUnknownVariableType]
        return all(is_same(value, other[name]) for name, value in members.items())
    return isinstance(one, bool) == isinstance(other, bool)


def check_echoes(call: Call, current: dict[str, Any], elsewhere: Mapping[str, str] = {}) -> None:
    """Read-only fields may be sent back as they are; a changed one is refused."""
    refuse_changed(call.echoed, current, elsewhere)


def refuse_changed(echoed: Mapping[str, Any], current: Mapping[str, Any], elsewhere: Mapping[str, str] = {}) -> None:
    """`elsewhere` says of a field where it is changed instead."""
    faults = [
        Fault(f"/{name}", "read_only_field", _cannot(elsewhere.get(name)))
        for name, value in echoed.items()
        if current.get(name) != value
    ]
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'read-only field')} would change.", faults=faults)


def _cannot(elsewhere: str | None) -> str:
    return f"cannot be changed here; use {elsewhere}" if elsewhere else "cannot be changed"
