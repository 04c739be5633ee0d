"""The endpoint kit knows no resource of the API: no name and no text of its source contains one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import stoa.rest

KIT = Path(stoa.rest.__file__).parent
NAMED = re.compile(r"(?:\A|_)(?:product|order|customer|variant|location|webhook)s?(?:\Z|_)")
# In the singular, these are also words of HTTP and of plain English: the header Location, the order of a list.
WRITTEN = re.compile(r"\b(?:products|orders|customers|variants|locations|webhooks)\b")


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def names_in(node: ast.AST) -> Iterator[str]:
    """The names that a node defines or uses."""
    for field in ("id", "attr", "arg", "name", "asname"):
        if isinstance(name := getattr(node, field, None), str):
            yield from name.split(".")


def docstrings_in(tree: ast.Module) -> set[ast.AST]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node) and isinstance(node.body[0], ast.Expr)
    }


def resources_in(source: str) -> list[str]:
    """The names and texts that contain a resource, except docstrings, which may give examples."""
    tree = ast.parse(source)
    docstrings = docstrings_in(tree)
    found = [name for node in ast.walk(tree) for name in names_in(node) if NAMED.search(snake_case(name))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in docstrings and isinstance(node.value, str | bytes):
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            found += [text] if WRITTEN.search(text) else []
    return found


@pytest.mark.parametrize("path", sorted(KIT.rglob("*.py")), ids=lambda path: path.relative_to(KIT).as_posix())
def test_the_kit_names_no_resource(path: Path) -> None:
    assert resources_in(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "DEFAULT_LOCATION = 1",
        "store.active_locations",
        "class OrderState: ...",
        "def f(customer_id): ...",
        "import stoa.products",
        "f(variant=1)",
        'SUMMARY = "One API for the products of many stores."',
        'PATH = b"/webhooks"',
    ],
)
def test_a_resource_in_the_kit_is_noticed(source: str) -> None:
    assert resources_in(source)


@pytest.mark.parametrize("source", ['"""Such as products."""', 'HEADER = b"location"', "in_border = reordered"])
def test_other_words_are_accepted(source: str) -> None:
    assert resources_in(source) == []
