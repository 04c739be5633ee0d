"""Rendering of guides: anchors, links and code blocks; and the guides that an installed package contains."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from stoa.guides.library import guides, pictures, read
from stoa.guides.rendering import anchor, render
from tests.docs.pages import GUIDES, ROOT
from tests.reference.reading import Element
from tests.reference.reading import read as read_html


def html(text: str, names: tuple[str, ...] = ("errors", "imports"), known: dict[str, str] | None = None) -> Element:
    return read_html(render(text, names, (known or {}).get).html)


def test_every_guide_in_the_repository_is_in_the_library() -> None:
    assert set(guides()) == {file.stem for file in GUIDES.glob("*.md")}


def test_the_first_guide_is_the_quickstart() -> None:
    assert next(iter(guides())) == "quickstart"


@pytest.mark.parametrize("name", guides())
def test_a_guide_has_a_title_and_a_summary_without_markup(name: str) -> None:
    guide = guides()[name]
    assert guide.title != guide.name
    assert guide.summary != guide.title
    assert not set("`*[]") & set(guide.title + guide.summary)


def test_a_guide_without_a_heading_uses_its_name_as_title() -> None:
    assert read("odd", "no heading").title == "odd"


def test_the_rendered_text_does_not_repeat_the_title() -> None:
    assert not html("# Title\n\ntext").all("h1")


def test_headings_have_distinct_anchors() -> None:
    rendered = render("# T\n\n## The `same` thing\n\n## The `same` thing\n\n### Deeper\n", ())
    assert [heading.anchor for heading in rendered.headings] == ["the-same-thing", "the-same-thing-1", "deeper"]
    assert [each.attributes["href"] for each in read_html(rendered.html).all("a")] == [
        "#the-same-thing",
        "#the-same-thing-1",
        "#deeper",
    ]


def test_an_anchor_has_the_format_of_code_forges() -> None:
    assert anchor("When it's refused: 409, or 422?") == "when-its-refused-409-or-422"


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("errors.md", "/docs/guides/errors"),
        ("errors.md#all-codes", "/docs/guides/errors#all-codes"),
        ("./imports.md", "/docs/guides/imports"),
        ("guides/imports.md", "/docs/guides/imports"),
        ("../api-changelog.md#31", "/docs/changelog#31"),
        ("#here", "#here"),
        ("/docs/products", "/docs/products"),
        ("https://example.com/x", "https://example.com/x"),
    ],
)
def test_links_point_to_pages_of_the_service(given: str, made: str) -> None:
    assert html(f"[words]({given})").links() == [made]


@pytest.mark.parametrize("given", ["../operations/running.md", "../../CHANGELOG.md", "nothing.md", "//x.example.com"])
def test_a_link_to_a_page_that_is_not_served_becomes_text(given: str) -> None:
    made = html(f"see [the *words*]({given}) here")
    assert made.links() == []
    assert "see the words here" in made.text


def test_a_link_that_could_run_code_becomes_text() -> None:
    assert html("[words](javascript:alert(1)) [words](data:text/html,x)").links() == []


def test_code_that_has_a_page_links_to_it() -> None:
    made = html("`no_luck` and `other`, [`no_luck`](errors.md)", known={"no_luck": "/problems/no_luck"})
    assert made.links() == ["/problems/no_luck", "/docs/guides/errors"]


def test_a_heading_contains_no_second_link() -> None:
    made = html("## On `no_luck` and [errors](errors.md)", known={"no_luck": "/problems/no_luck"})
    assert made.links() == ["#on-no_luck-and-errors"]


def test_markup_in_a_guide_is_escaped() -> None:
    made = html("<script>alert(1)</script> <b>x</b>\n\n<img src=x>\n\n```bash\n<i>\n```\n")
    assert not made.all("script") + made.all("b") + made.all("img") + made.all("i")


def test_an_empty_table_heading_is_a_plain_cell() -> None:
    made = html("| Code | |\n|---|---|\n| a | b |\n")
    assert [each.text for each in made.all("th")] == ["Code"]


def test_a_picture_is_shown_only_if_it_is_served() -> None:
    name = next(iter(pictures()))
    (shown,) = html(f"![What is seen]({name}.svg)").all("img")
    assert shown.attributes == {"src": f"/docs/guides/{name}.svg", "alt": "What is seen"}
    missing = html("See ![the words](https://example.com/x.svg) here")
    assert (missing.all("img"), missing.text.strip()) == ([], "See the words here")


def test_a_code_block_has_a_caption_and_can_be_focused() -> None:
    (card,) = html("```python\nprint(1)\n```\n").all("figure", "card")
    assert card.all("figcaption")[0].text == "Python"
    assert card.all("pre")[0].attributes["tabindex"] == "0"
    assert card.all("pre")[0].text == "print(1)\n"


def test_an_installed_package_contains_the_guides(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    run = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"stoa/guides/pages/{name}.md" for name in guides()} <= names
    assert "stoa/guides/api-changelog.md" in names
    assert {
        "stoa/reference/assets/guide.css",
        "stoa/reference/assets/search.js",
        "stoa/reference/templates/page.html",
        "stoa/schema/0001_initial.sql",
        "stoa/orders/functions/place_orders.sql",
    } <= names
    script = "from stoa.guides.library import guides; print(len(guides()), guides.__module__)"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    environment = {"PYTHONPATH": str(tmp_path / "installed")}
    shown = subprocess.run(
        [sys.executable, "-c", f"import stoa; assert stoa.__file__.startswith({str(tmp_path)!r}); {script}"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.stdout.split()[:1] == [str(len(guides()))], shown.stderr
