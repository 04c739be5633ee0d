"""One operation of the API: its text, and beside it the request to send and the answer to expect."""

import re
from collections.abc import Iterable, Mapping

from stoa.reference.document import Answer, Document, Group, Operation, Schema, reference
from stoa.reference.fields import label, parameter_groups, row, rows, schema_rows
from stoa.reference.languages import javascript, python, sdk_calls
from stoa.reference.markup import Html, code, inline, join, link, prose, tag
from stoa.reference.samples import curl, sample_answer
from stoa.reference.wording import kind

_PREFIX = re.compile(r"/api/v\d+/app(?=/)")
_PLACEHOLDER = re.compile(r"({\w+})")


def operation_section(operation: Operation, group: Group, document: Document) -> Html:
    """The whole operation, as its page shows it."""
    call = sdk_calls().get(operation.summary)
    text = tag(
        "div",
        tag("p", link(group.address, group.name), class_="crumb"),
        tag("h1", operation.summary),
        tag("p", method(operation.method), " ", address(operation.path), class_="address"),
        tag("p", "Deprecated: it will go. Do not build on it.", class_="notice") if operation.deprecated else None,
        prose(operation.description) if operation.description.rstrip(".") != operation.summary else None,
        _scopes(operation),
        parameter_groups(operation.parameters, _body(operation, document), document),
        label("Answers"),
        rows(_answers(operation, document)),
        _errors(operation, document),
        class_="text",
    )
    return tag(
        "article",
        text,
        "\n",
        tag("div", _request(operation, document), _answer(operation, document), class_="examples"),
        class_="operation pair",
        id=operation.operation_id,
        data_method=operation.method,
        data_path=operation.path,
        data_call=call.name if call else None,
        data_spreads=bool(call and call.spreads),
    )


def method(name: str) -> Html:
    return tag("b", name, class_=f"method {name.lower()}")


def address(path: str) -> Html:
    """A path with its common beginning set back and its placeholders set off."""
    prefix = _PREFIX.match(path)
    rest = path[prefix.end() :] if prefix else path
    pieces = (tag("i", piece) if odd % 2 else piece for odd, piece in enumerate(_PLACEHOLDER.split(rest)))
    return tag("code", tag("span", prefix[0]) if prefix else None, *pieces)


def _scopes(operation: Operation) -> Html | None:
    scopes = operation.scopes
    if not scopes:
        return None
    named = join((link("/docs#scopes", code(scope)) for scope in scopes), " ")
    return tag("p", "Scope ", named, class_="scope")


def _body(operation: Operation, document: Document) -> Html | None:
    body = operation.request_body
    if body is None:
        return None
    media = next(iter(body.content.values()))
    named = [": ", kind(media.schema)] if reference(media.schema) else []
    found = list(schema_rows(document.resolved(media.schema), document))
    return join(
        [
            label("Body ", None if body.required else tag("span", "optional", class_="flag optional")),
            tag("p", join(map(code, body.content), " or "), *named, class_="media"),
            rows(found, data_in="body") if found else None,
        ]
    )


def _answers(operation: Operation, document: Document) -> Iterable[Html]:
    for status, answer in operation.successes.items():
        own = [name for name in answer.headers if name not in document.common_headers]
        carries = tag("small", "with ", join(map(code, own), " ")) if own else Html()
        yield row(status_mark(status), None, inline(answer.description), carries)
        for schema in _schemas(answer):
            yield from schema_rows(schema, document)


def _schemas(answer: Answer) -> Iterable[Schema]:
    return (media.schema for media in answer.content.values())


def status_mark(status: str) -> Html:
    family = {"2": "good", "3": "good", "4": "bad", "5": "worse"}.get(status[:1], "bad")
    return tag("b", status, class_=f"status {family}")


def _errors(operation: Operation, document: Document) -> Html | None:
    """Its own errors in the open, and those of most operations folded away."""
    own = {name: status for name, status in operation.codes.items() if name not in document.usual_codes}
    usual = [name for name in operation.codes if name in document.usual_codes]
    listed = error_rows(own, document)
    rest = tag(
        "details",
        tag("summary", f"{len(usual)} errors that most operations share"),
        tag("p", join((link(f"/problems/{name}", name) for name in usual), " "), class_="codes"),
    )
    return join([label("Errors") if operation.codes else None, listed if own else None, rest if usual else None])


def error_rows(codes: Mapping[str, str], document: Document) -> Html:
    """Error codes with their statuses, each a link to its page."""
    titles = document.titles
    return rows(
        (
            row(status_mark(status), None, link(f"/problems/{name}", code(name)), inline(titles.get(name, "")))
            for name, status in codes.items()
        ),
        look="rows errors",
    )


def card(title: Html | str, text: str, look: str, label: str) -> Html:
    """A titled block of code that scrolls by itself, also by keyboard."""
    return tag(
        "figure",
        tag("figcaption", title),
        tag("pre", code(text), tabindex="0", role="region", aria_label=label) if text else None,
        class_=f"card {look}",
    )


def _request(operation: Operation, document: Document) -> Html:
    """The command in the open and the programs folded; with script they become tabs of one card."""
    shown = card("curl", curl(operation, document), "request", f"Request: {operation.summary}")
    programs = {"Python": python(operation, document), "JavaScript": javascript(operation, document)}
    return join([shown, *(_program(name, text, operation) for name, text in programs.items())])


def _program(language: str, text: str, operation: Operation) -> Html:
    label_ = f"Request in {language}: {operation.summary}"
    return tag(
        "details",
        tag("summary", language),
        tag("pre", code(text), tabindex="0", role="region", aria_label=label_),
        class_="card request alternative",
    )


def _answer(operation: Operation, document: Document) -> Html | None:
    sample = sample_answer(operation, document)
    if sample is None:
        return None
    status, text = sample
    title = join([status_mark(status), " ", "Answer" if text else "Answer without a body"])
    return card(title, text, "answer", f"Answer: {operation.summary}")
