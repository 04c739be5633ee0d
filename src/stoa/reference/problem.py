"""The page of one error code: what it means, whether to try again, how it looks and who answers it."""

from typing import Any

from stoa.reference import shell
from stoa.reference.document import Document
from stoa.reference.markup import Html, join, link, prose, tag
from stoa.reference.markup import code as code_
from stoa.reference.operation import address, card, method, status_mark
from stoa.reference.samples import pretty, sample_path

_WAITING = (429, 503)


def problem_page(document: Document, code: str, status: int, title: str, text: str, *, retryable: bool) -> Html:
    sample = _sample(document, code, status, title, retryable=retryable)
    main = tag(
        "main",
        tag("p", link("/docs#error-codes", "Error codes"), class_="crumb"),
        tag("h1", title),
        tag("p", status_mark(str(status)), " ", code_(code), class_="address"),
        tag("div", prose(text), class_="lead"),
        tag("h2", "Should I send it again?"),
        _advice(status, retryable=retryable),
        tag("h2", "How it looks"),
        card(join([status_mark(str(status)), " application/problem+json"]), pretty(sample), "answer", "Example"),
        _operations(document, code),
        id="main",
        class_="problem",
    )
    top = tag("header", shell.brand("/docs", "Developers"), link("/portal", "Portal", class_="door"), class_="top")
    return shell.page(f"{code}: {title}", text.partition("\n\n")[0], top, main)


def _advice(status: int, *, retryable: bool) -> Html:
    if not retryable:
        words = "No. The same request gets the same answer: change what is wrong, then send it."
        return tag("p", tag("strong", words[:3]), words[3:], class_="advice stop")
    when = (
        join(["Wait as many seconds as ", code_("Retry-After"), " says."])
        if status in _WAITING
        else Html("Pause a little, and longer each time.")
    )
    safely = join(["A write with the same ", code_("Idempotency-Key"), " has one effect, however often it is sent."])
    return tag("p", tag("strong", "Yes."), " ", when, " ", safely, class_="advice go")


def _sample(document: Document, code: str, status: int, title: str, *, retryable: bool) -> dict[str, Any]:
    declared = document.example_of("Problem")
    if declared.get("code") == code:
        return declared
    first = next((each for each in document.operations if code in each.codes), None)
    return {
        **{name: value for name, value in declared.items() if name != "errors"},
        "type": f"{document.origin}/problems/{code}",
        "title": title,
        "status": status,
        "detail": f"{title}.",
        "instance": sample_path(first) if first else "/",
        "code": code,
        "retryable": retryable,
    }


def _operations(document: Document, code: str) -> Html | None:
    groups = [(group.name, [each for each in group.operations if code in each.codes]) for group in document.groups]
    listed = [
        join([
            tag("h3", name),
            tag("ul", join(
                tag("li", link(document.addresses[each.operation_id], method(each.method), " ", each.summary, address(each.path)))
                for each in found
            ), class_="answered"),
        ])
        for name, found in groups if found
    ]  # fmt: skip
    if not listed:
        return None
    everywhere = code in document.common_codes
    heading = tag("h2", "Any request may meet it" if everywhere else "Operations that answer it")
    return join([heading, *listed])
