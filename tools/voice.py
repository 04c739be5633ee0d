"""Finds phrases of translated or archaic English in every text of the repository; `make check` fails on one.

The list is short on purpose: it holds the phrases that once made our texts hard to read, each with its replacement.
"""

import re
import subprocess
import sys
from pathlib import Path

PHRASES = {
    r"lies? apart": "is separate",
    r"(is|are|was|were|be) told of": "receives, is notified of",
    r"hears? of": "receives",
    r"(to|can|cannot|could) be had": "is available",
    r"let in\b": "admitted",
    r"(is|are|was) said of": "is also set on, applies to",
    r"so long as": "while, if",
    r"whoever": "the caller, the worker, the owner",
    r"whatever (is|was|comes|became)": "anything that, what",
    r"the very": "the same, exactly",
    r"gives? back": "returns",
    r"pass(es)? over": "skips",
    r"as if it had": "as though it",
    r"stands? (in its way|word for word|twice|for itself|besides?|above|below it)": "blocks, equals, is repeated",
    r"\banew\b": "again",
    r"goes? alone": "runs by itself, in its own transaction",
    r"in (the|its|his|our|whose) hands?\b": "leased, owned",
    r"whose it is": "its owner",
    r"(un)?packed (with|body|file|answer)": "compressed",
    r"turned away": "refused, rejected",
    r"a word to\b": "a notification to",
    r"(is|are) of (one|a|its|this|the) (store|app|customer)": "belongs to",
    r"\bthereby\b|\bwherein\b|\bwhereby\b|\bhence\b": "so",
    r"must be said": "specify",
    r"is to know nothing of": "must not depend on",
    r"(looked|looking) for doubles|\bdoubles (of|are|that)": "suspected duplicates",
}
SUFFIXES = {".py", ".sql", ".md", ".html", ".js", ".css", ".toml", ".yml", ".yaml", ".ts"}
SKIPPED = ("sdk/python/src/stoa_client/", "tests/generated/", "tools/voice.py", "tools/spectral/")
_FOUND = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES), re.IGNORECASE)


def findings(text: str) -> list[tuple[int, str, str]]:
    """Each phrase in a text: its line, its words, and what to write instead."""
    return [
        (
            text.count("\n", 0, found.start()) + 1,
            found[0],
            next(better for phrase, better in PHRASES.items() if re.fullmatch(phrase, found[0], re.IGNORECASE)),
        )
        for found in _FOUND.finditer(text)
    ]


def main() -> None:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()  # noqa: S607
    count = 0
    for name in listed:
        path = Path(name)
        if (path.suffix in SUFFIXES or path.name == "Makefile") and not name.startswith(SKIPPED):
            for line, words, better in findings(path.read_text(encoding="utf-8")):
                count += 1
                sys.stdout.write(f"{name}:{line}: write {better!r} instead of {words!r}\n")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
