"""What readers can find: guides by section, operations, parameters, fields, events, error codes and scopes."""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from stoa.guides.library import Guide
from stoa.guides.rendering import Section, sections
from stoa.reference.document import EVENTS_ADDRESS, Document, Group
from stoa.reference.openapi_types import Operation, Parameter, Schema
from stoa.reference.schema_text import description
from stoa.reference.search import Entry
from stoa.reference.search_words import TOPICS

_MARKUP = re.compile(r"[`*|]|\]\([^)]*\)|\[|^#+ ", re.MULTILINE)
# Identifiers that a guide or a section is about. Headers of responses have no other entry.
_EXPLAINED = {
    "idempotency": ("Idempotency-Key", "Idempotent-Replayed"),
    "errors#rate-limits": ("Retry-After", "RateLimit", "RateLimit-Policy"),
    "errors": ("X-Request-Id", "application/problem+json"),
    "products#versions-and-conflicts": ("If-Match", "ETag"),
    "webhooks#verify-signatures": ("webhook-id", "webhook-timestamp", "webhook-signature"),
    "versioning#deprecation": ("Deprecation", "Sunset"),
}
_USUAL = 12  # a parameter of so many operations is explained by a guide
_RANGE = re.compile(r"\[\w+\]\Z")
# Bodies and responses have most fields in common; one entry shows the field of the resource.
_WRAPPER = re.compile(r"(?:Answer|Page|Field|Outcomes?)\Z|\ASparse")
_BODY = re.compile(r"\A(?:New|Added|Changed|Inline)(?=[A-Z])|Changes\Z")


class ErrorText(msgspec.Struct, frozen=True):
    """An error code as its page shows it."""

    code: str
    status: str  # empty for a code that only entries of `errors` have
    title: str
    text: str


def entries(
    document: Document, guides: Mapping[str, Guide], changelog: Guide, errors: Iterable[ErrorText]
) -> Iterator[Entry]:
    """Everything to find, each with its topics."""
    for entry in _entries(document, guides, changelog, errors):
        topics = TOPICS.get(entry.address)
        yield msgspec.structs.replace(entry, topics=tuple(topics.split("; "))) if topics else entry


def _entries(
    document: Document, guides: Mapping[str, Guide], changelog: Guide, errors: Iterable[ErrorText]
) -> Iterator[Entry]:
    for guide in guides.values():
        yield from _of_guide(guide, f"/docs/guides/{guide.name}", "Guide")
    yield from _of_guide(changelog, "/docs/changelog", "Changelog", weight=0.7)
    for group in document.groups:
        yield Entry(kind="Reference", title=group.name, address=group.address, text=group.description, weight=0.9)
        for operation in group.entries:
            yield _of_operation(operation, group)
    yield Entry(
        kind="Reference",
        title="Events",
        address=EVENTS_ADDRESS,
        names=("event catalog", "event types"),
        text="Every event with its scope, fields, sample and JSON Schema.",
    )
    for event in document.events:
        text = plain(f"{event.description} {event.delivery}")
        yield Entry(kind="Event", title=event.name, address=event.address, names=(event.name,), text=text, weight=0.85)
    for error in errors:
        yield Entry(
            kind="Error",
            title=error.code,
            address=f"/problems/{error.code}",
            context=error.title,
            names=(error.code, error.status) if error.status else (error.code,),
            text=plain(error.text),
            weight=0.8,
        )
    for scope, meaning in document.flow.scopes.items():
        yield Entry(kind="Scope", title=scope, address="/docs#scopes", names=(scope,), text=plain(meaning), weight=0.9)
    yield from _parameters(document)
    yield from _fields(document)


def plain(text: str) -> str:
    """Text without the marks of Markdown."""
    return _MARKUP.sub("", text)


def _of_guide(guide: Guide, address: str, kind: str, weight: float = 1.0) -> Iterator[Entry]:
    opening, *rest = sections(guide.text)
    names = (guide.name, *_EXPLAINED.get(guide.name, ()))
    yield Entry(
        kind=kind, title=guide.title, address=address, names=names, text=plain(opening.text), weight=1.15 * weight
    )
    for section in rest:
        yield _of_section(section, guide, address, kind, weight)


def _of_section(section: Section, guide: Guide, address: str, kind: str, weight: float) -> Entry:
    return Entry(
        kind=kind,
        title=plain(section.title),
        address=f"{address}#{section.anchor}",
        context=guide.title,
        names=_EXPLAINED.get(f"{guide.name}#{section.anchor}", ()),
        text=plain(section.text),
        weight=weight,
    )


def _of_operation(operation: Operation, group: Group) -> Entry:
    call = f"{operation.method} {operation.path.removeprefix(operation.prefix)}"
    return Entry(
        kind="Operation",
        title=operation.summary,
        address=group.address_of(operation),
        context=call,
        names=(operation.operation_id, call),
        text=f"{plain(operation.description)} {group.name} {' '.join(operation.scopes)}",
    )


def _parameters(document: Document) -> Iterator[Entry]:
    """One entry for each query parameter and header of a group, at the first operation that has it."""
    counts: dict[str, int] = {}
    for operation in document.operations:
        for parameter in operation.parameters:
            counts[parameter.name] = counts.get(parameter.name, 0) + 1
    for group in document.groups:
        seen: set[str] = set()
        for operation in group.operations:
            for parameter in operation.parameters:
                if parameter.where != "path" and parameter.name not in seen and not _RANGE.search(parameter.name):
                    seen.add(parameter.name)
                    yield _of_parameter(parameter, operation, group, usual=counts[parameter.name] >= _USUAL)


def _of_parameter(parameter: Parameter, operation: Operation, group: Group, *, usual: bool) -> Entry:
    return Entry(
        kind="Header" if parameter.where == "header" else "Parameter",
        title=parameter.name,
        address=f"{group.address_of(operation)}#parameter-{parameter.name}",
        context=operation.summary,
        names=(parameter.name,),
        text=plain(parameter.description),
        weight=0.4 if usual else 0.7,
    )


def _fields(document: Document) -> Iterator[Entry]:
    """One entry for each field of a resource, on the page of the first group that shows it."""
    found: dict[tuple[str, str], Entry] = {}
    pages = [(address, name) for address, names in _schemas_by_page(document) for name in names]
    for address, schema_name in sorted(pages, key=lambda page: bool(_BODY.search(page[1]))):
        properties: Mapping[str, Schema] = document.components.schemas[schema_name].get("properties", {})
        for name, each in properties.items():
            found.setdefault((_BODY.sub("", schema_name), name), _of_field(name, each, schema_name, address))
    yield from found.values()


def _schemas_by_page(document: Document) -> Iterator[tuple[str, list[str]]]:
    for group in document.groups:
        names = document.named_by(schema for each in group.operations for schema in each.schemas)
        yield group.address, [name for name in names if not _WRAPPER.search(name)]
    yield EVENTS_ADDRESS, [name for name in ("Event",) if name in document.components.schemas]


def _of_field(name: str, schema: Schema, owner: str, address: str) -> Entry:
    return Entry(
        kind="Field",
        title=name,
        address=f"{address}#{owner}.{name}",
        context=owner,
        names=(name, f"{owner}.{name}"),
        text=plain(description(schema)),
        weight=0.75,
    )
