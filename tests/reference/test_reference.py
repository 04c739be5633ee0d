"""The page at `/docs`, made from the real document: complete, well-formed, small, and without inline anything."""

import pytest

from stoa.description import openapi
from stoa.reference import page
from stoa.reference.document import Operation
from stoa.reference.document import read as read_document
from tests.reference.reading import Element, read

OPERATIONS = read_document(openapi()).operations
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.operation_id)


@pytest.fixture(scope="module")
def reference() -> Element:
    return read(page.html())


@each_operation
def test_every_operation_has_its_section(reference: Element, operation: Operation) -> None:
    section = reference.by_id(operation.operation_id)
    assert operation.summary in section.text
    assert operation.method in section.text
    assert operation.path in section.text
    assert f"#{operation.operation_id}" in reference.by_id("contents").links()


@each_operation
def test_every_operation_names_its_scope(reference: Element, operation: Operation) -> None:
    (scope,) = reference.by_id(operation.operation_id).all("p", "scope")
    assert operation.scopes
    assert all(each in scope.text for each in operation.scopes)


@each_operation
def test_every_parameter_stands_in_its_section(reference: Element, operation: Operation) -> None:
    section = reference.by_id(operation.operation_id)
    rows = [row for rows in section.all("dl", "rows") if "data-in" in rows.attributes for row in rows.children]
    shown = {row.all("dt")[0].all("code")[0].text: row for row in rows}
    for parameter in operation.parameters:
        name, bracket, operator = parameter.name.partition("[")
        assert bracket + operator in shown[name].text


@each_operation
def test_every_body_field_stands_in_its_section(reference: Element, operation: Operation) -> None:
    if operation.request_body is None:
        return
    document = read_document(openapi())
    schema = document.resolved(next(iter(operation.request_body.content.values())).schema)
    section = reference.by_id(operation.operation_id)
    rows = [rows for rows in section.all("dl") if rows.attributes.get("data-in") == "body"]
    names = {row.all("code")[0].text for each in rows for row in each.children}
    assert set(schema.get("properties", {})) <= names


@each_operation
def test_every_error_code_of_an_operation_links_to_its_page(reference: Element, operation: Operation) -> None:
    links = reference.by_id(operation.operation_id).links()
    assert operation.codes
    assert {f"/problems/{code}" for code in operation.codes} <= set(links)


def test_the_errors_chapter_lists_every_code_with_its_title(reference: Element) -> None:
    document = read_document(openapi())
    text = reference.by_id("errors").text
    for code in document.codes:
        assert code in text
        assert document.titles[code] in text


def test_every_schema_has_its_section(reference: Element) -> None:
    for name, schema in openapi()["components"]["schemas"].items():
        section = reference.by_id(f"schema-{name}")
        assert all(field in section.text for field in schema.get("properties", {}))


def test_every_link_within_the_page_leads_somewhere(reference: Element) -> None:
    ids = [each.attributes["id"] for each in reference.all() if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    assert {link for link in reference.links() if link.startswith("#")} <= {f"#{each}" for each in ids}


def test_nothing_comes_from_another_address(reference: Element) -> None:
    for each in reference.all():
        for name in ("src", "href", "action"):
            address = each.attributes.get(name, "/")
            assert address.startswith(("/", "#", "data:image/svg+xml,")), address
            assert not address.startswith("//"), address
    for name in ("reference.css", "reference.js"):
        content, _ = page.asset(name) or (b"", "")
        assert content
        assert b"://" not in content
        assert b"@import" not in content


def refuses_inline(element: Element) -> None:
    for each in element.all():
        assert "style" not in each.attributes
        assert not [name for name in each.attributes if name.startswith("on")]
        assert each.name != "style"
        if each.name == "script":
            assert each.attributes["src"] == "/docs/reference.js"
            assert not each.text


def test_there_is_no_inline_script_or_style(reference: Element) -> None:
    refuses_inline(reference)
    script, _ = page.asset("reference.js") or (b"", "")
    for word in (b"innerHTML", b"eval(", b"new Function", b".style", b"localStorage", b"document.write"):
        assert word not in script


def test_the_page_weighs_little() -> None:
    parts = [len(page.html().encode())]
    parts += [len(found[0]) for name in ("reference.css", "reference.js") if (found := page.asset(name))]
    fixed = sum(parts[1:])
    assert fixed < 50_000
    # 150 kB with two operations; each further one may add what its own text needs.
    assert sum(parts) < 150_000 + 9_000 * max(0, len(OPERATIONS) - 2)


@pytest.mark.parametrize(
    "name",
    ["", "reference", "reference.css.map", "../page.py", "page.py", "code.js", "assets/code.js", "/etc/passwd", "."],
)
def test_no_other_file_can_be_had(name: str) -> None:
    assert page.asset(name) is None


def test_assets_come_with_their_media_types() -> None:
    types = {name: (page.asset(name) or (b"", ""))[1] for name in ("reference.css", "reference.js")}
    assert types == {"reference.css": "text/css", "reference.js": "text/javascript"}


def test_a_request_sample_is_there_without_script(reference: Element) -> None:
    for operation in OPERATIONS:
        (request,) = reference.by_id(operation.operation_id).all("figure", "request")
        assert request.all("pre")[0].text.startswith("curl ")
        assert "{" not in request.all("pre")[0].text.split("\n")[0]


def test_a_problem_page_says_what_to_do_and_who_answers_it() -> None:
    retried = read(
        page.problem("rate_limited", 429, "Too many requests", "Slow `down`.\n\nThen go on.", retryable=True)
    )
    assert "Yes." in retried.text
    assert "Retry-After" in retried.text
    assert [each.text for each in retried.all("p") if each.text.startswith(("Slow", "Then"))] == [
        "Slow down.",
        "Then go on.",
    ]
    assert {f"/docs#{each.operation_id}" for each in OPERATIONS} <= set(retried.links())
    assert '"code": "rate_limited"' in retried.text
    refuses_inline(retried)

    unknown = read(page.problem("nobody_answers_it", 409, "Odd", "Odd.", retryable=False))
    assert "No." in unknown.text
    assert not [link for link in unknown.links() if link.startswith("/docs#") and link != "/docs#error-codes"]


def test_a_sample_answer_shows_every_field_that_is_always_there(reference: Element) -> None:
    document = read_document(openapi())
    for operation in OPERATIONS:
        (answer,) = reference.by_id(operation.operation_id).all("figure", "answer")
        for media in (media for each in operation.successes.values() for media in each.content.values()):
            data = media.schema.get("properties", {}).get("data", {})
            schema = document.resolved(data.get("items", data))
            for name in schema.get("required", []):
                assert f'"{name}"' in answer.text, operation.operation_id
