"""Templates stay readable: no line of them is longer than a line of code may be."""

from pathlib import Path

import stoa

LONGEST = 120  # as for ruff in pyproject.toml


def test_no_line_of_a_template_is_too_long() -> None:
    source = Path(stoa.__file__).parent
    templates = sorted(source.rglob("templates/**/*.html"))
    assert {path.relative_to(source).parts[0] for path in templates} == {"mail", "portal", "reference"}
    found = [
        f"{path.relative_to(source)}:{number} has {len(line)} characters"
        for path in templates
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LONGEST
    ]
    assert found == []
