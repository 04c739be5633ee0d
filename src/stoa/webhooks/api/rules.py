"""Checks of a subscription: event patterns, scopes, headers and fields."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from stoa.access.rules import expanded
from stoa.events.outbox import Event
from stoa.rest.call import Caller
from stoa.rest.problems import Fault, InsufficientScope, did_you_mean, printable
from stoa.webhooks.http.message import HIDDEN

# Set by the service or by the connection.
_RESERVED = frozenset(
    """accept accept-encoding connection content-encoding content-length content-type expect host keep-alive
       proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade""".split()
)


def selected_events(patterns: Iterable[str], known: Mapping[str, type[Event]]) -> list[type[Event]]:
    """The events that patterns such as `order.created`, `order.*` and `*` select."""
    wanted = set(patterns)
    return [
        event
        for name, event in known.items()
        if name in wanted or "*" in wanted or f"{name.partition('.')[0]}.*" in wanted
    ]


def valid_patterns(known: Mapping[str, type[Event]]) -> list[str]:
    """Every pattern that selects a known event."""
    return [*known, *dict.fromkeys(f"{name.partition('.')[0]}.*" for name in known), "*"]


def check_events(patterns: Sequence[str], known: Mapping[str, type[Event]], faults: list[Fault]) -> None:
    """Every pattern must select a known event and occur once."""
    choices = valid_patterns(known)
    for index, pattern in enumerate(patterns):
        if pattern not in choices:
            detail = f'is not a known event: "{printable(pattern)}"'
            meta = did_you_mean(pattern, choices, faults)
            faults.append(Fault(f"/events/{index}", "unknown_event", detail, meta))
        elif pattern in patterns[:index]:
            faults.append(Fault(f"/events/{index}", "invalid_format", "occurs more than once"))


def check_scopes(patterns: Iterable[str], known: Mapping[str, type[Event]], caller: Caller) -> None:
    """The token must have the scope of each named event, and of one event of each family; `*` covers what it may read."""
    for pattern in patterns:
        selected = selected_events([pattern], known) if pattern != "*" else []
        if selected and not any(caller.may(event.scope) for event in selected):
            raise _lacks(selected[0].scope, f"receive {pattern}")


def check_sent(types: Iterable[str], caller: Caller, granted: Collection[str]) -> None:
    """The token must have the scopes of what is sent; a subscription with these scopes may send more of some events."""
    for kind in (Event.known[name] for name in types if name in Event.known):
        needed = [kind.scope, *([kind.full_scope] if kind.full_scope in expanded(granted) else [])]
        for scope in needed:
            if not caller.may(scope):
                raise _lacks(scope, f"send {kind.name}")


def _lacks(scope: str, purpose: str) -> InsufficientScope:
    return InsufficientScope(f"The token needs {scope} to {purpose}.", required_scope=scope)


def readable_by(caller: Caller) -> list[str] | None:
    """The scopes that bound a subscription of this token; None if it follows the installation."""
    return sorted(scope for scope in caller.scopes if scope.endswith(":read")) if caller.narrowed else None


def usable(caller: Caller, readable: Collection[str] | None) -> frozenset[str]:
    """The scopes that a token can use on a subscription: its own, within those of the subscription."""
    return caller.scopes if readable is None else caller.scopes.intersection(readable)


def check_headers(headers: Mapping[str, str], faults: list[Fault], stored: Collection[str] = ()) -> None:
    """Every header must be free to use and have a value; one that was stored before it was reserved stays."""
    seen: set[str] = set()
    for name, value in headers.items():
        at = f"/headers/{name.replace('~', '~0')}"
        plain = name.lower()
        if name not in stored and (plain in _RESERVED or plain.startswith("webhook-")):
            faults.append(Fault(at, "invalid_format", "is reserved for the service"))
        elif plain in seen:
            faults.append(Fault(at, "invalid_format", "occurs more than once; header names are case-insensitive"))
        elif value == HIDDEN:
            faults.append(Fault(at, "required", "must be sent in full: there is no stored value for this host"))
        seen.add(plain)


def changed_headers(before: Mapping[str, str], patch: Mapping[str, str | None] | None) -> dict[str, str]:
    """Header values after a merge patch; asterisks keep the stored value."""
    if patch is None:
        return {}
    after = {name: value for name, value in before.items() if patch.get(name, "") is not None}
    return after | {
        name: value for name, value in patch.items() if value is not None and not (value == HIDDEN and name in before)
    }


def check_fields(fields: Sequence[str], events: Iterable[type[Event]], faults: list[Fault]) -> None:
    """Each field must exist in the document of a selected event."""
    known = list(dict.fromkeys(name for event in events for name in _fields_of(event)))
    for index, name in enumerate(fields):
        if name not in known:
            meta = did_you_mean(name, known, faults)
            faults.append(Fault(f"/fields/{index}", "unknown_field", "is not a field of any of these events", meta))


def _fields_of(event: type[Event]) -> Sequence[str]:
    return [] if event.resource is None else event.resource.__struct_encode_fields__
