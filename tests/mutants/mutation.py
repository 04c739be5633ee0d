"""A mutation: one small fault in the source that the tests must notice."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
SOURCES = ("src/stoa", "sdk/python/src/stoa_client")
_SCHEMA = ROOT / "src/stoa/schema"  # an applied migration is never edited


class NoLongerApplies(Exception):
    """The text of a mutation is not in the source exactly once, because the code has changed."""


class Mutation(msgspec.Struct, frozen=True):
    """A fault: the text, which occurs once in the whole source, and its replacement.

    The text has no path, so that a mutation survives when code moves to another file.
    """

    breaks: str  # what goes wrong then
    text: str
    replacement: str
    caught_by: str  # the test that must fail, or its file

    def apply(self, texts: Mapping[Path, str]) -> tuple[Path, str]:
        """The file that changes, relative to the root, and its new content."""
        found = [(path, text) for path, text in texts.items() if self.text in text]
        places = sum(text.count(self.text) for _, text in found)
        if places != 1:
            where = f"its text occurs {places} times" if places else "its text is gone"
            raise NoLongerApplies(f"mutation {self.breaks!r} no longer applies ({where}): update it")
        [(path, text)] = found
        return path, text.replace(self.text, self.replacement)


def read_sources() -> dict[Path, str]:
    """The source files that a mutation may change, by their path relative to the root."""
    paths = [path for folder in SOURCES for kind in ("*.py", "*.sql") for path in (ROOT / folder).rglob(kind)]
    return {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in paths if _SCHEMA not in path.parents}
