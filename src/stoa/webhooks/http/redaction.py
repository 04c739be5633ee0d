"""Hides the secrets of a request in the response: a receiver may echo what it was sent, and the delivery log keeps that."""

import html
from collections.abc import Iterable, Sequence
from urllib.parse import quote, quote_plus

import msgspec

HIDDEN = "********"
_MIN_LENGTH = 4  # shorter values, such as a region or a flag, occur in every text


def spellings(secrets: Iterable[str]) -> list[str]:
    """Each secret as it is, and as JSON, URLs and HTML write it; the longest first, because one can contain another."""
    found: set[str] = set()
    for secret in secrets:
        # Receivers also echo a credential without its scheme, and the key of a signing secret without its prefix.
        for value in (secret, secret.rpartition(" ")[2], secret.removeprefix("whsec_")):
            escaped = msgspec.json.encode(value).decode()[1:-1]
            found |= {value, escaped, escaped.replace("/", "\\/"), quote(value, safe=""), quote_plus(value)}
            found.add(html.escape(value))
    return sorted((each for each in found if len(each) >= _MIN_LENGTH), key=len, reverse=True)


def redacted(text: str, hidden: Sequence[str]) -> str:
    """The text without these values, also without the beginning of one at its end, where a long response is cut."""
    for value in hidden:
        if value in text:
            text = text.replace(value, HIDDEN)
    for value in hidden:
        for length in range(min(len(value) - 1, len(text)), _MIN_LENGTH - 1, -1):
            if text.endswith(value[:length]):
                return text[:-length] + HIDDEN
    return text
