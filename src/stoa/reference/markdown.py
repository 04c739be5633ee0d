"""The documentation as Markdown, for programs that read text: guides, operations, events, `/llms.txt` and `/llms-full.txt`."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from stoa.guides.library import Guide
from stoa.guides.rendering import served_address
from stoa.reference.document import Document, Event, Group
from stoa.reference.fields import Row, parameter_groups, schema_rows
from stoa.reference.openapi_types import Operation
from stoa.reference.operation import OperationView, SchemaView, operation_view, schema_views
from stoa.reference.samples import pretty
from stoa.reference.schema_text import Words

_LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)")
_CHANGELOG = "/docs/changelog"

Texts = Mapping[str, Callable[[], str]]


def texts(document: Document, guides: Mapping[str, Guide], changelog: Guide) -> Texts:
    """A function for the address of each page that is available as Markdown."""
    found: dict[str, Callable[[], str]] = {
        f"/docs/guides/{name}": partial(_guide, guide, list(guides)) for name, guide in guides.items()
    }
    for group in document.groups:
        for each in group.entries:
            found[group.address_of(each)] = partial(_operation, each, group, document)
    for event in document.events:
        found[event.address] = partial(_event, event, document)
    found[_CHANGELOG] = partial(_guide, changelog, list(guides))
    return found


def llms_text(document: Document, guides: Mapping[str, Guide], origin: str) -> str:
    """The table of contents for language models; addresses are complete if the origin is known."""

    def line(title: str, address: str, text: str) -> str:
        return f"- [{title}]({origin}{address}): {text}"

    lines = [f"# {document.info.title}", "", f"> {document.info.summary}", "", document.info.description]
    lines += ["", "## Guides", ""]
    lines += [line(guide.title, f"/docs/guides/{name}.md", guide.summary) for name, guide in guides.items()]
    for group in document.groups:
        lines += ["", f"## {group.name}", ""]
        lines += [
            line(each.summary, f"{group.address_of(each)}.md", f"{each.method} {each.path}") for each in group.entries
        ]
    lines += ["", "## Events", ""]
    lines += [line(event.name, f"{event.address}.md", event.summary) for event in document.events]
    lines += [
        "",
        "## Optional",
        "",
        line("All of this in one file", "/llms-full.txt", "every guide, operation and event"),
        line("OpenAPI 3.1 document", "/openapi.json", "every operation, schema and event"),
        line("OpenAPI 3.2 document", "/openapi-3.2.json", "the same, with the lines of the streams"),
        line("Postman collection", "/postman.json", "an example of every request"),
        line("API changelog", f"{_CHANGELOG}.md", "what each version added"),
    ]
    return "\n".join(lines) + "\n"


def full_text(document: Document, pages: Texts) -> str:
    """Every page that is available as Markdown in one text, each with its address."""
    opening = f"# {document.info.title}\n\n> {document.info.summary}\n"
    return "\n".join([opening, *(f"<!-- {address}.md -->\n\n{text()}" for address, text in pages.items())])


def _guide(guide: Guide, names: list[str]) -> str:
    """The guide with links to the Markdown of other pages; a link to a page that is not served becomes text."""

    def linked(found: re.Match[str]) -> str:
        address = served_address(found[2], names)
        if address is None:
            return found[1]
        path, mark, anchor = address.partition("#")
        suffix = ".md" if path.startswith(("/docs/guides/", _CHANGELOG)) else ""
        return f"[{found[1]}]({path}{suffix}{mark}{anchor})"

    return _LINK.sub(linked, guide.text)


def _operation(operation: Operation, group: Group, document: Document) -> str:
    view = operation_view(operation, group, document)
    return "\n".join([*_head(view), *_input(view), *_output(view, document), *_objects(view.schemas)]).rstrip() + "\n"


def _head(view: OperationView) -> Iterator[str]:
    operation = view.operation
    yield f"# {operation.summary}\n"
    yield f"`{operation.method} {operation.path}`\n"
    yield f"{operation.description}\n"
    if operation.scopes:
        yield f"Scope: {', '.join(f'`{scope}`' for scope in operation.scopes)}\n"


def _input(view: OperationView) -> Iterator[str]:
    for group in view.path:
        yield from _rows(f"{group.title} parameters", group.rows)
    if view.body:
        media = " or ".join(f"`{name}`" for name in view.body.media)
        yield from _rows("Body", view.body.rows, f"{media}{'' if view.body.required else ', optional'}\n")
    for group in view.parameters:
        yield from _rows(group.title, group.rows)


def _output(view: OperationView, document: Document) -> Iterator[str]:
    for response in view.responses:
        yield from _rows(f"Response {response.status}", response.rows, f"{response.description}\n")
    yield "## Errors\n"
    for code, status in view.operation.codes.items():
        title = document.titles.get(code, "")
        yield f"- {status} `{code}`{': ' + title if title else ''}"
    yield "\n## Example\n"
    for sample in view.operation.code_samples[:1]:
        yield f"```bash\n{sample.source}\n```\n"
    if view.response_sample:
        status, text = view.response_sample
        yield f"Response {status}{':' if text else ' without a body.'}\n"
        if text:
            yield f"```json\n{text}\n```\n"


def _event(event: Event, document: Document) -> str:
    headers = [row for group in parameter_groups(event.headers, document) for row in group.rows]
    lines = [
        f"# {event.name}\n",
        f"{event.description}\n",
        f"{event.delivery}\n",
        f"Scope: `{event.scope}`. JSON Schema: `{event.schema_address}`\n",
        *_rows("Headers", headers),
        *_rows("Body", schema_rows(event.schema, document)),
        f"## Sample\n\n```json\n{pretty(event.sample)}\n```\n",
        *_objects(schema_views(document.named_by([event.schema]), document)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _objects(schemas: Iterable[SchemaView]) -> Iterator[str]:
    for schema in schemas:
        if schema.fields_of:
            continue
        yield from _rows(f"Object {schema.name}", schema.rows, f"{schema.description}\n" if schema.description else "")


def _rows(title: str, rows: Iterable[Row], opening: str = "") -> Iterator[str]:
    yield f"\n## {title}\n"
    if opening:
        yield opening
    yield from map(_row, rows)
    yield ""


def _row(row: Row) -> str:
    kind = ", ".join(part for part in (_text(row.type), row.flag) if part)
    limits = "; ".join([*map(_text, row.constraints.notes), *_choices(row)])
    sentence = " ".join(part for part in (row.description, f"({limits})" if limits else "") if part)
    return f"- `{row.name}` ({kind}){': ' + sentence if sentence else ''}"


def _choices(row: Row) -> list[str]:
    given = row.constraints
    if given.fields_of:
        return [f"fields of {given.fields_of}"]
    ending = ", each also with `-` for descending order" if given.signed else ""
    return ["one of " + ", ".join(f"`{each}`" for each in given.choices) + ending] if given.choices else []


def _text(words: Words) -> str:
    return "".join(f"`{word.text}`" if word.look == "code" else word.text for word in words)
