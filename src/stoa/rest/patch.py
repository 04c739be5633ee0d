"""Merge patch (RFC 7396): omitted members stay, null removes, arrays are replaced, objects are merged."""

from collections.abc import Mapping
from typing import Any

from stoa.rest.call import Call
from stoa.rest.problems import Fault, VersionConflict


def merge(target: Any, patch: Any) -> Any:
    """A copy of the target with the patch applied."""
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
    """The old and new values of the members that differ."""
    names = [*before, *(name for name in after if name not in before)]
    return {
        name: (before.get(name), after.get(name)) for name in names if not is_same(before.get(name), after.get(name))
    }


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON. Member order does not matter, but unlike in Python, true is not 1."""
    if one is other:
        return True  # what a change leaves alone is not copied
    if one != other:
        return False
    if isinstance(one, dict):
        members: dict[str, Any] = one  # pyright: ignore[reportUnknownVariableType]
        return all(is_same(value, other[name]) for name, value in members.items())
    if isinstance(one, list):
        values: list[Any] = one  # pyright: ignore[reportUnknownVariableType]
        return all(map(is_same, values, other))
    return isinstance(one, bool) == isinstance(other, bool)


def check_echoes(call: Call, current: dict[str, Any], elsewhere: Mapping[str, str] = {}) -> None:
    """Find read-only fields that a merge patch changes; repeating a current value is allowed. The handler goes on, so that the
    response also has the faults that it finds."""
    call.faults += [
        fault for fault in echo_faults(call.echoed, current, elsewhere) if fault not in call.faults
    ]  # a transaction may run twice


def echo_faults(
    echoed: Mapping[str, Any], current: Mapping[str, Any], elsewhere: Mapping[str, str] = {}
) -> list[Fault]:
    """The faults of read-only fields with new values. `elsewhere` maps a field to the operation that changes it.

    Another `version` is refused at once: the caller read the resource before it changed, so that other fields may differ too.
    """
    if type(version := current.get("version")) is int:
        refuse_stale(echoed.get("version"), version, "/version")
    return [
        Fault(f"/{name}", "read_only_field", cannot_change(elsewhere.get(name)))
        for name, value in echoed.items()
        if current.get(name) != value
    ]


def refuse_stale(expected: Any, current: int, at: str) -> None:
    """Refuse a body that expects another version than the current one."""
    if type(expected) is int and expected != current:
        fault = Fault(at, VersionConflict.code, f"the current version is {current}", {"current_version": current})
        raise VersionConflict(f"The current version is {current}.", faults=[fault], current_version=current)


def cannot_change(elsewhere: str | None) -> str:
    """The detail of a fault about a read-only field."""
    return f"cannot be changed here; use {elsewhere}" if elsewhere else "cannot be changed"
