"""Derives slugs from names in any script."""

import re
import unicodedata

from anyascii import anyascii

_LONGEST = 255
_NUMBER = re.compile(r"-[0-9]+$")
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def slug_of(name: str, current: str = "") -> str:
    """A URL slug for a name; the current one, if it only adds a number. Emoji are named if there are no letters and digits."""
    plain = name if name.isascii() else "".join(map(_latin, unicodedata.normalize("NFKC", name)))
    slug = _hyphenated(plain) or _hyphenated(anyascii(name)) or "product"
    return current if _NUMBER.sub("", current) == slug else slug


def _hyphenated(text: str) -> str:
    return _SEPARATORS.sub("-", text.lower()).strip("-")[:_LONGEST].strip("-")


def _latin(character: str) -> str:
    """A character in Latin letters. An accent or a soft sign has none; punctuation and symbols separate words."""
    if character.isascii():
        return character
    if unicodedata.category(character)[0] not in "LMN":
        return " "
    latin = "".join(filter(str.isalnum, anyascii(character)))
    # A Chinese character is a syllable with a meaning of its own.
    return f" {latin} " if unicodedata.name(character, "").startswith("CJK") else latin
