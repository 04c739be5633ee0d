"""Every field of a log line passes the allowlist, so that no line loses what it was written for."""

import ast
from collections.abc import Iterator
from pathlib import Path

import stoa
from stoa.operations.telemetry import LOGGED

LEVELS = {"debug", "info", "warning", "error"}


def fields_of(source: str) -> Iterator[tuple[int, str]]:
    """The lines and names of the fields that a module gives to a logger."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Attribute(attr="get_logger")), attr=level)):
                if level in LEVELS:
                    yield from ((node.lineno, each.arg) for each in node.keywords if each.arg)
            case _:
                pass


def test_no_log_line_has_a_field_that_the_allowlist_drops() -> None:
    modules = sorted(Path(stoa.__file__).parent.rglob("*.py"))
    found = [(path, *field) for path in modules for field in fields_of(path.read_text(encoding="utf-8"))]
    assert {name for _, _, name in found} >= {"duty", "reason", "tries"}
    assert [f"{path.name}:{line}: {name}" for path, line, name in found if name not in LOGGED] == []
