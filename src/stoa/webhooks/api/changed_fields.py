"""Checks the fields that a subscription watches for changes, against the documents of its events."""

from collections.abc import Iterable, Iterator, Sequence

from stoa.events.outbox import Event
from stoa.rest.problems import Fault, did_you_mean
from stoa.webhooks.api.filters import has_path
from stoa.webhooks.delivery.changes import VARIANTS


def check(fields: Sequence[str], events: Sequence[type[Event]], faults: list[Fault]) -> None:
    """Each field must be one whose change causes one of these events, and occur once."""
    for index, field in enumerate(fields):
        at = f"/changed/{index}"
        if field in fields[:index]:
            faults.append(Fault(at, "invalid_format", "occurs more than once"))
        elif not any(_has(event, field) for event in events):
            meta = did_you_mean(field, watchable(events), faults)
            detail = f'is not a field whose changes cause one of these events: "{field}"'
            faults.append(Fault(at, "unknown_field", detail, meta))


def watchable(events: Iterable[type[Event]]) -> Iterator[str]:
    """The fields that a subscription to these events can watch; objects and lists also by their parts."""
    for event in events:
        yield from (
            (name for name in event.resource.__struct_encode_fields__ if name in event.recorded)
            if event.resource
            else ()
        )
        yield from event.changed_paths.values()


def _has(event: type[Event], field: str) -> bool:
    path = field.removeprefix(VARIANTS) if event.resource_type == "variant" else field
    if _is_within(path, event.changed_paths.values()):
        return True
    return (
        event.resource is not None
        and path.partition(".")[0] in event.recorded
        and not _is_within(path, event.unrecorded)
        and has_path(event.resource, path.split("."))
    )


def _is_within(path: str, fields: Iterable[str]) -> bool:
    return any(path == field or path.startswith(f"{field}.") for field in fields)
