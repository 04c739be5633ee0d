"""The pages below `/docs`, rendered from the real document: complete, well-formed, small, without inline scripts or styles."""

import gzip
import html
import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any, cast

import pytest

from stoa.api import ENDPOINTS, EVENTS
from stoa.description import openapi
from stoa.guides.library import changelog, guides
from stoa.reference import page
from stoa.reference.document import Event
from stoa.reference.markdown import texts
from stoa.reference.openapi_types import Operation
from stoa.rest.openapi.envelopes import SPARSE
from stoa.rest.problems import Refusal
from stoa.webhooks.api.schemas import schema
from tests.reference.reading import Element, read

DOCUMENT = page.document()
OPERATIONS = DOCUMENT.operations
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.operation_id)
each_page = pytest.mark.parametrize("address", page.addresses())
ASSETS = ("reference.css", "reference.js", "operation.js", "search.css", "search.js")
LARGEST_PAGE = 215_000
REGULAR_EXPRESSION = re.compile(
    r"\\[dswDSWbAZ]\b|\[\^?\w-\w|\(\?[:=!<]|[\])][*+?]|\]\{\d|(?i:regular expression|regex)"
)


@cache
def rendered(address: str) -> str:
    return page.addresses()[address]()


@cache
def at(address: str) -> Element:
    return read(rendered(address))


def section_of(operation: Operation) -> Element:
    return at(DOCUMENT.addresses[operation.operation_id]).by_id(operation.operation_id)


def test_every_endpoint_has_a_page() -> None:
    pages = {address.rpartition("/")[2] for address in page.addresses()}
    assert {endpoint.name for endpoint in ENDPOINTS} <= pages


@each_operation
def test_the_page_of_an_operation_shows_its_summary_and_path(operation: Operation) -> None:
    section = section_of(operation)
    assert section.all("h1")[0].text == operation.summary
    assert operation.method in section.text
    assert operation.path in section.text


@each_operation
def test_every_operation_is_linked_in_the_contents_and_in_its_group(operation: Operation) -> None:
    address = DOCUMENT.addresses[operation.operation_id]
    assert address in at("/docs").by_id("contents").links()
    assert address in at(address.rpartition("/")[0]).by_id("main").links()


@each_operation
def test_every_operation_shows_its_scope(operation: Operation) -> None:
    (scope,) = section_of(operation).all("p", "scope")
    assert operation.scopes
    assert all(each in scope.text for each in operation.scopes)


@each_operation
def test_every_parameter_has_a_row(operation: Operation) -> None:
    section = section_of(operation)
    rows = [row for rows in section.all("dl", "rows") if "data-in" in rows.attributes for row in rows.children]
    shown = {row.all("dt")[0].all("code")[0].text: row for row in rows}
    for parameter in operation.parameters:
        name, bracket, operator = parameter.name.partition("[")
        assert bracket + operator in shown[name].text


@each_operation
def test_every_body_field_has_a_row(operation: Operation) -> None:
    if operation.request_body is None:
        return
    schema = DOCUMENT.resolved(next(iter(operation.request_body.content.values())).schema)
    rows = [rows for rows in section_of(operation).all("dl") if rows.attributes.get("data-in") == "body"]
    names = {row.all("code")[0].text for each in rows for row in each.children}
    assert set(schema.get("properties", {})) <= names


@each_operation
def test_every_error_code_of_an_operation_links_to_its_page(operation: Operation) -> None:
    assert operation.codes
    assert {f"/problems/{code}" for code in operation.codes} <= set(section_of(operation).links())


@each_operation
def test_a_request_is_shown_in_four_languages_without_script(operation: Operation) -> None:
    section = section_of(operation)
    (request,) = section.all("figure", "request")
    assert request.all("pre")[0].text.startswith("curl ")
    assert "{" not in request.all("pre")[0].text.split("\n")[0]
    assert [each.all("summary")[0].text for each in section.all("details", "alternative")] == [
        "Python",
        "TypeScript",
        "PHP",
    ]


@each_operation
def test_a_sample_response_shows_every_required_field(operation: Operation) -> None:
    (response,) = section_of(operation).all("figure", "response")
    shown = [each for status, each in operation.successes.items() if f"{status} Response" in response.text]
    assert shown
    for media in (media for each in shown for media in each.content.values()):
        data = media.schema.get("properties", {}).get("data", {})
        schema = DOCUMENT.resolved(data.get("items", data))
        for name in schema.get("required", []):
            assert f'"{name}"' in response.text


@each_operation
def test_the_page_of_an_operation_links_to_every_object_and_can_unfold_it(operation: Operation) -> None:
    address = DOCUMENT.addresses[operation.operation_id]
    group = address.rpartition("/")[0]
    named = DOCUMENT.named_by(operation.schemas)
    if not named:
        return
    unfolded = {each.attributes["data-object"]: each.text for each in at(address).by_id("objects").all("dl", "rows")}
    for name in named:
        assert at(address).by_id(f"schema-{name}").links() == [f"{group}#schema-{name}"]
        section = at(group).by_id(f"schema-{name}")
        if name.startswith(SPARSE):
            assert section.links() == [f"#schema-{name}", f"#schema-{name.removeprefix(SPARSE)}"]
            continue
        for text in (section.text, unfolded[name]):
            assert all(field in text for field in DOCUMENT.components.schemas[name].get("properties", {}))
    for button in at(address).all("button", "unfold"):
        assert button.attributes["data-of"].removeprefix(SPARSE) in unfolded


@each_operation
def test_an_introduction_is_short_and_the_rest_has_structure(operation: Operation) -> None:
    for each in (operation, *operation.by_task):
        introduction, *points = re.split(r"\n\s*\n|\n(?=- )", each.description)
        assert len(introduction.split()) <= 60, introduction
        assert all(point.startswith("- ") for point in points)
        assert all(len(point.split()) <= 85 for point in points), points


def test_what_callers_do_with_the_status_of_an_order_has_pages_of_its_own() -> None:
    orders = next(group for group in DOCUMENT.groups if group.name == "Orders")
    assert len(orders.operations) == 11
    menu = [each.summary for each in orders.entries]
    at_ = menu.index("Change the status of an order")
    assert menu[at_ + 1 : at_ + 4] == ["Take a payment", "Ship an order", "Refund an order"]
    for task, field in (("take_payment", "payment"), ("ship_order", "tracking"), ("refund_order", "refund")):
        root = at(f"/docs/orders/{task}")
        section = root.by_id(task)
        assert section.attributes["data-method"] == "PUT"
        assert section.attributes["data-path"].endswith("/orders/{order_id}/status")
        assert field in json.loads(section.attributes["data-body"])
        shown = [each.all("code")[0].text for each in section.all("dl") if each.attributes.get("data-in") == "body"]
        assert shown, "the body shows the fields of the task"
        assert "/docs/orders/update_order_status" in root.links()
        for language in ("curl", "Python", "TypeScript", "PHP"):
            assert language in section.text
        for address in ("/docs", f"/docs/orders/{task}", "/docs/orders"):
            assert f"/docs/orders/{task}" in at(address).links()


def test_no_pattern_is_shown_to_people() -> None:
    patterns = {str(each) for each in patterns_in(openapi()) if len(str(each)) > 4}
    assert patterns
    shown = {address: rendered(address) for address in page.addresses()}
    shown |= {f"{name}.md": text() for name, text in texts(DOCUMENT, guides(), changelog()).items()}
    for address, text in shown.items():
        if "/guides/" not in address:  # a guide may contain a command with a regular expression
            whole = html.unescape(text)  # with titles and other attributes
            assert not [pattern for pattern in patterns if pattern in whole], address
            assert not REGULAR_EXPRESSION.search(whole), address


def patterns_in(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        members = cast("dict[str, Any]", node)
        yield from (value for name, value in members.items() if name == "pattern" and isinstance(value, str))
        node = list(members.values())
    if isinstance(node, list):
        for each in cast("list[Any]", node):
            yield from patterns_in(each)


@pytest.mark.parametrize("event", DOCUMENT.events, ids=lambda each: each.name)
def test_the_page_of_an_event_shows_when_it_is_sent_its_scope_fields_and_sample(event: Event) -> None:
    root = at(event.address).by_id("main")
    kind = EVENTS[event.name]
    assert root.all("h1")[0].text == event.name
    assert (kind.__doc__ or "?").replace("`", "") in root.text
    assert root.all("p", "scope")[0].all("code")[0].text == kind.scope
    names = {row.all("code")[0].text for rows in root.all("dl", "rows") for row in rows.children}
    assert {"id", "type", "sequence", "resource.version", "actor.type", "changes", "data", "webhook-signature"} <= names
    assert json.loads(root.all("figure", "response")[0].all("code")[0].text) == schema(kind)["examples"][0]
    assert f"/schemas/events/{event.name}" in root.links()
    assert kind.resource is not None
    root.by_id(f"schema-{kind.resource.__name__}")


def test_every_event_is_listed_in_the_catalog_with_its_scope() -> None:
    assert {event.name for event in DOCUMENT.events} == {n for n, kind in EVENTS.items() if shipped(kind)}
    rows = {row.all("a")[0].text: row.text for dl in at("/docs/events").all("dl", "events") for row in dl.children}
    for event in DOCUMENT.events:
        assert event.scope in rows[event.name]


def shipped(kind: type) -> bool:
    return kind.__module__.startswith("stoa.")


def test_the_introduction_lists_every_error_code_with_its_title() -> None:
    text = at("/docs").by_id("errors").text
    for code in DOCUMENT.codes:
        assert code in text
        assert DOCUMENT.titles[code] == Refusal.known[code].title
        assert DOCUMENT.titles[code].replace("`", "") in text


@each_page
def test_a_page_has_one_title_and_unique_ids(address: str) -> None:
    ids = [each.attributes["id"] for each in at(address).all() if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    assert len(at(address).by_id("main").all("h1")) == 1


@each_page
def test_headings_skip_no_level(address: str) -> None:
    levels = [int(each.name[1]) for each in at(address).by_id("main").all() if each.name in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


@each_page
def test_a_page_is_marked_as_current_in_the_contents(address: str) -> None:
    (current,) = [each for each in at(address).by_id("contents").all("a") if "aria-current" in each.attributes]
    assert current.attributes["href"] == address


@each_page
def test_a_page_loads_nothing_from_another_origin(address: str) -> None:
    for each in at(address).all():
        for name in ("src", "action"):
            given = each.attributes.get(name, "/")
            assert given.startswith("/"), given
            assert not given.startswith("//"), given
        if each.name == "link":
            assert each.attributes["href"].startswith(("/docs/assets/", "data:image/svg+xml,"))


def refuses_inline(element: Element) -> None:
    for each in element.all():
        assert "style" not in each.attributes
        assert not [name for name in each.attributes if name.startswith("on")]
        assert each.name != "style"
        if each.name == "script":
            assert each.attributes["src"].startswith("/docs/assets/")
            assert not each.text


@each_page
def test_there_is_no_inline_script_or_style(address: str) -> None:
    refuses_inline(at(address))


@pytest.mark.parametrize("name", ASSETS)
def test_an_asset_loads_nothing_external_and_writes_no_markup(name: str) -> None:
    content, _ = page.asset(name) or (b"", "")
    assert content
    for word in (
        b"://",
        b"@import",
        b"innerHTML",
        b"eval(",
        b"new Function",
        b".style",
        b"localStorage",
        b"document.write",
    ):
        assert word not in content


@each_page
def test_a_page_is_small(address: str) -> None:
    parts = [len(rendered(address).encode())]
    assets = [found[0] for name in ASSETS if name != "reference.js" and (found := page.asset(name))]
    parts += map(len, assets)
    assert sum(parts[1:]) < 79_000
    assert sum(len(gzip.compress(each)) for each in assets) < 23_500
    assert sum(parts) < LARGEST_PAGE


@pytest.mark.parametrize(
    "name",
    ["", "reference", "reference.css.map", "../page.py", "page.py", "code.js", "assets/code.js", "/etc/passwd", "."],
)
def test_no_other_file_is_served(name: str) -> None:
    assert page.asset(name) is None


def test_assets_have_their_media_types() -> None:
    types = {name: (page.asset(name) or (b"", ""))[1] for name in ASSETS}
    assert set(types.values()) == {"text/css", "text/javascript"}


def test_the_page_of_an_error_gives_advice_and_lists_its_operations() -> None:
    retried = read(
        page.problem("rate_limited", 429, "Too many requests", "Slow `down`.\n\nThen go on.", retryable=True)
    )
    assert "Yes." in retried.text
    assert "Retry-After" in retried.text
    assert [each.text for each in retried.all("p") if each.text.startswith(("Slow", "Then"))] == [
        "Slow down.",
        "Then go on.",
    ]
    assert set(DOCUMENT.addresses.values()) <= set(retried.links())
    assert '"code": "rate_limited"' in retried.text
    refuses_inline(retried)

    unknown = read(page.problem("nobody_answers_it", 409, "Odd", "Odd.", retryable=False))
    assert "No." in unknown.text
    assert not set(DOCUMENT.addresses.values()) & set(unknown.links())
