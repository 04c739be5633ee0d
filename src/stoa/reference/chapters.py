"""The chapters around the operations: the introduction, access, errors, a group's overview, and the schemas."""

from collections.abc import Iterable

from stoa.reference.document import Document, Group
from stoa.reference.fields import row, rows, schema_rows
from stoa.reference.markup import Html, code, inline, join, link, prose, tag
from stoa.reference.operation import address, card, error_rows, method, status_mark
from stoa.reference.samples import CONTINUED, pretty

_BEARER = (
    "Send it with every request as `Authorization: Bearer …`. "
    "The scopes in force are those that the store has granted to the app."
)
_ANSWERS = (
    "A success holds `data` and `meta`. Anything else is a problem as RFC 9457 describes it: `code` says what happened, "
    "`detail` says it of this request, `retryable` whether the same request may succeed later, and `errors` names every "
    "fault at once with a pointer to its place."
)


def introduction(document: Document) -> Html:
    info = document.info
    text = tag(
        "div",
        tag("p", f"Version {info.version}", class_="version"),
        tag("h1", info.title),
        tag("p", inline(info.summary), class_="lead"),
        prose(info.description),
        tag(
            "p",
            "Every address begins with the base URL of a store, by its path or by its host: ",
            tag("code", document.base_url, class_="base"),
            ". The reference comes from ",
            link("/openapi.json", "openapi.json"),
            ", which tells a machine the same.",
        ),
        class_="text",
    )
    return tag("section", text, _colonnade(document), id="introduction", class_="opening")


def _colonnade(document: Document) -> Html:
    """The groups as the bays of a stoa, each a shop to walk into."""
    bays = (
        tag(
            "li",
            link(
                group.address,
                tag("b", group.name),
                tag("span", inline(group.description)),
                tag("small", _counted(len(group.operations), "operation")),
            ),
        )
        for group in document.groups
    )
    return tag("ul", join(bays), class_="colonnade")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def access(document: Document) -> Html:
    flow = document.flow
    text = tag(
        "div",
        tag("h2", link("#authentication", "Authentication", class_="self")),
        *(prose(scheme.description) for scheme in document.components.security_schemes.values()),
        prose(_BEARER),
        tag("h3", "Scopes", id="scopes"),
        rows(row(code(scope), None, inline(meaning)) for scope, meaning in flow.scopes.items()),
        class_="text",
    )
    request = [
        f'curl "{document.origin}{flow.token_url}"',
        "-d grant_type=client_credentials",
        '-d client_id="$STOA_CLIENT_ID"',
        '-d client_secret="$STOA_CLIENT_SECRET"',
    ]
    answer = {"access_token": "…", "token_type": "Bearer", "expires_in": 3600, "scope": " ".join(flow.scopes)}
    examples = tag(
        "div",
        card("A token", CONTINUED.join(request), "token", "Request: a token"),
        card(join([status_mark("200"), " Answer"]), pretty(answer), "answer", "Answer: a token"),
        class_="examples",
    )
    return tag("section", text, examples, id="authentication", class_="pair")


def errors(document: Document) -> Html:
    carried = ", ".join(f"`{name}`" for name in document.common_headers)
    text = tag(
        "div",
        tag("h2", link("#errors", "Answers and errors", class_="self")),
        prose(_ANSWERS),
        prose(f"Every success carries {carried}.") if carried else None,
        tag("h3", "Error codes", id="error-codes"),
        error_rows(document.codes, document),
        class_="text",
    )
    sample = document.example_of("Problem")
    title = join([status_mark("422"), " application/problem+json"])
    examples = tag("div", card(title, pretty(sample), "answer", "A problem"), class_="examples")
    return tag("section", text, examples, id="errors", class_="pair")


def group_chapter(group: Group, document: Document) -> Html:
    """What a group is for, each of its operations in a line, and what they take and answer."""
    lines = (
        tag("li", link(group.address_of(each), method(each.method), tag("b", each.summary), address(each.path)))
        for each in group.operations
    )
    shapes = document.named_by(schema for each in group.operations for schema in each.schemas)
    opening = tag(
        "section",
        tag("p", link("/docs", "API reference"), class_="crumb"),
        tag("h1", group.name),
        tag("p", inline(group.description), class_="lead"),
        tag("ul", join(lines, "\n"), class_="answered operations"),
        class_="opening",
    )
    return join([opening, schemas(shapes, document)], "\n")


def schemas(names: Iterable[str], document: Document) -> Html | None:
    """The named schemas, to which the rows above them lead."""
    parts = [
        tag(
            "section",
            tag("h3", link(f"#schema-{name}", name, class_="self")),
            prose(document.components.schemas[name].get("description", "")),
            rows(schema_rows(document.components.schemas[name], document)),
            id=f"schema-{name}",
            class_="schema",
        )
        for name in names
    ]
    heading = tag("h2", link("#schemas", "Objects", class_="self"))
    return tag("section", heading, join(parts, "\n"), id="schemas", class_="schemas") if parts else None
