"""Parse the Markdown pages of the repository into code blocks, tables, and prose."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
GUIDES, OPERATIONS, DECISIONS = ROOT / "docs/guides", ROOT / "docs/operations", ROOT / "docs/decisions"
TOP_LEVEL = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = [*(ROOT / name for name in TOP_LEVEL), *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    text: str


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the code blocks of a page in these languages, in order."""
    found = [Block(*match.groups()) for match in _FENCE.finditer(page.read_text())]
    return [block for block in found if block.language in languages]


def prose(page: Path) -> str:
    """Return a page without its code blocks."""
    return _FENCE.sub("", page.read_text())


def rows(page: Path) -> Iterator[list[str]]:
    """Yield the cells of every table row, without backticks."""
    for line in prose(page).splitlines():
        if line.startswith("| "):
            yield [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]
