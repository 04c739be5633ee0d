"""The documentation as resources: guides, operations, events and schemas."""

import re
from collections.abc import Callable
from functools import cache

import msgspec

from stoa.guides.library import changelog, guides
from stoa.mcp.responses import text
from stoa.mcp.schemas import inlined
from stoa.mcp.tools import document
from stoa.reference import markdown

MARKDOWN, JSON = "text/markdown", "application/json"
_GUIDE_LINK = re.compile(r"\(/docs/guides/([\w-]+)\.md(?:#[\w-]+)?\)")


class Resource(msgspec.Struct, frozen=True):
    uri: str
    title: str
    summary: str
    media: str
    read: Callable[[], str]


class Template(msgspec.Struct, frozen=True):
    """A kind of resource that is too numerous to list one by one."""

    name: str
    uri: str
    summary: str
    media: str


TEMPLATES = (
    Template("operation", "stoa://operations/{operation_id}", "An operation with its errors and an example.", MARKDOWN),
    Template("event", "stoa://events/{type}", "An event with its payload and a sample.", MARKDOWN),
    Template("schema", "stoa://schemas/{name}", "The JSON Schema of a resource or a request body.", JSON),
)


@cache
def resources() -> dict[str, Resource]:
    """All resources by URI."""
    pages = markdown.texts(document(), guides(), changelog())
    found = [
        Resource(f"stoa://guides/{name}", guide.title, guide.summary, MARKDOWN, _linked(pages[f"/docs/guides/{name}"]))
        for name, guide in guides().items()
    ]
    found.append(Resource("stoa://events", "Event catalog", "Every event and its scope.", MARKDOWN, _catalog))
    for each in document().operations:
        page = pages[document().addresses[each.operation_id]]
        summary = f"{each.method} {each.path}"
        found.append(Resource(f"stoa://operations/{each.operation_id}", each.summary, summary, MARKDOWN, page))
    for event in document().events:
        page = pages[event.address]
        found.append(Resource(f"stoa://events/{event.name}", event.name, event.summary, MARKDOWN, page))
    for name, schema in document().components.schemas.items():
        summary = str(schema.get("description", "")).partition("\n")[0]
        found.append(Resource(f"stoa://schemas/{name}", name, summary, JSON, _schema(name)))
    return {each.uri: each for each in found}


def listed() -> list[Resource]:
    """The resources to list; the templates name the others."""
    return [
        each for each in resources().values() if each.uri.startswith("stoa://guides/") or each.uri == "stoa://events"
    ]


def _linked(page: Callable[[], str]) -> Callable[[], str]:
    return lambda: _GUIDE_LINK.sub(r"(stoa://guides/\1)", page())


def _schema(name: str) -> Callable[[], str]:
    return lambda: text(inlined(document().components.schemas[name], document()))


def _catalog() -> str:
    lines = [f"- `{each.name}` (scope `{each.scope}`): {each.summary}" for each in document().events]
    return "\n".join(["# Event catalog\n", "Read `stoa://events/{type}` for the payload of an event.\n", *lines, ""])
