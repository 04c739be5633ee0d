"""Nothing is kept that nobody uses: statements, stored functions, templates, settings and error codes."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import stoa
from stoa.db.migrate import functions, known
from stoa.db.query import Query
from stoa.db.schema_files import previous_release
from stoa.rest.problems import Refusal
from stoa.settings import Settings

SOURCE = Path(stoa.__file__).parent
FILES = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
FOR_THE_PREVIOUS_RELEASE = {"order_head"}  # its workers call it during an upgrade
TEMPLATES = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.html")}


def uses(tree: ast.AST, *, declarations: bool = True) -> Iterator[str]:
    """The names that a module reads, as names or attributes; without `declarations`, not those in `errors=[...]`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.keyword) and node.arg == "errors" and not declarations:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        yield from uses(node, declarations=declarations)


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(text) for path, text in FILES.items()}


@cache
def used_in(path: Path) -> set[str]:
    return set(uses(trees()[path]))


def modules() -> Iterator[Any]:
    for module in pkgutil.walk_packages(stoa.__path__, "stoa."):
        if module.name != "stoa.__main__":
            yield importlib.import_module(module.name)


def refusals(parent: type[Refusal] = Refusal) -> Iterator[type[Refusal]]:
    for child in parent.__subclasses__():
        yield child
        yield from refusals(child)


def imported(tree: ast.AST) -> set[str]:
    """The modules that a module imports from, in full."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def called_in(text: str) -> set[str]:
    return set(re.findall(r"\b(\w+)\(", text))


def test_every_statement_is_used() -> None:
    reads = {path: (imported(tree), used_in(path)) for path, tree in trees().items()}
    unused: set[str] = set()
    for module in modules():
        own = Path(str(module.__file__))
        for node in trees()[own].body if own in trees() else []:
            names = [each.id for each in getattr(node, "targets", []) if isinstance(each, ast.Name)]
            for name in names:
                if isinstance(getattr(module, name, None), Query) and not any(
                    name in used and (path == own or module.__name__ in sources)
                    for path, (sources, used) in reads.items()
                ):
                    unused.add(f"{module.__name__}.{name}")
    assert unused == set()


def test_every_stored_function_is_called() -> None:
    bodies = {function.name: called_in(function.sql.partition("(")[2]) for function in functions()}
    called = set[str]().union(*map(called_in, FILES.values()), *(called_in(migration.sql) for migration in known()))
    called |= {name for caller, names in bodies.items() for name in names if name != caller}
    uncalled = set(bodies) - called
    assert uncalled == FOR_THE_PREVIOUS_RELEASE
    assert previous_release().version == "0.3.0", "delete the functions that only 0.3.0 calls"


def test_every_template_is_rendered() -> None:
    texts = [*FILES.values(), *TEMPLATES.values()]
    names = {str(path).rpartition("/templates/")[2] for path in TEMPLATES}
    assert {
        name for name in names if not any(name in text or name.removesuffix(".html") in text for text in texts)
    } == set()


def test_every_setting_is_read() -> None:
    fields = {field.name for field in msgspec.structs.fields(Settings)}
    assert fields - set[str]().union(*map(used_in, trees())) == set()


def test_every_error_is_raised() -> None:
    for _ in modules():
        pass
    names = {each.__name__ for each in refusals() if each.__module__.startswith("stoa.") and not each.reserved}
    assert names - {name for tree in trees().values() for name in uses(tree, declarations=False)} == set()
