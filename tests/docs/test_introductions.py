"""A guide begins with at most 60 words, then structure: a heading, a list, a table or code."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import GUIDES

MOST_WORDS = 60
_STRUCTURE = re.compile(r"#|[-*] |\d+\. |\||```|!\[|>|<")


@pytest.mark.parametrize("page", sorted(GUIDES.glob("*.md")), ids=lambda page: page.stem)
def test_an_introduction_is_short(page: Path) -> None:
    _, _, text = page.read_text(encoding="utf-8").partition("\n")
    words = 0
    for block in re.split(r"\n\s*\n", text.strip()):
        if _STRUCTURE.match(block):
            break
        words += len(block.split())
    assert 0 < words <= MOST_WORDS
