"""Finds phrases of translated or archaic English in every text of the repository and in commit messages; `make check` fails on one.

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
FIRST_COMMIT = (
    "04beaaa8634ecc8daf389b5b717b41357a1e32f7"  # the messages after it are read; a shallow clone may not have it
)
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


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607


def messages() -> list[tuple[str, str]]:
    """The commits of this branch with their messages, newest first."""
    logged = _git("log", "-z", "--format=%h %B", f"{FIRST_COMMIT}..HEAD")
    return [(each.partition(" ")[0], each.partition(" ")[2]) for each in logged.stdout.split("\0") if each]


def main() -> None:
    listed = _git("ls-files").stdout.split()
    count = 0
    for commit, message in messages():
        for _, words, better in findings(message):
            count += 1
            sys.stdout.write(f"commit {commit}: write {better!r} instead of {words!r}\n")
    for name in listed:
        path = Path(name)
        if (path.suffix in SUFFIXES or path.name == "Makefile") and not name.startswith(SKIPPED):
            for line, words, better in findings(path.read_text(encoding="utf-8")):
                count += 1
                sys.stdout.write(f"{name}:{line}: write {better!r} instead of {words!r}\n")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
