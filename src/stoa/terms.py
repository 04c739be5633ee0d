"""Search terms: the words, tags and metadata of a row as lexemes that start with their store.

One index over them serves text search, tags and metadata, and a lookup never visits another store's rows.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

Kind = Literal["word", "tag", "meta", "brand", "category", "name"]
_PREFIX = {"word": "w", "tag": "t", "meta": "m", "brand": "b", "category": "c", "name": "n"}
_CASELESS = frozenset({"tag", "brand", "category"})
_WORD = re.compile(r"\w+")
_LONGEST = 200


def words(text: str) -> list[str]:
    """The words of a text without case and accents, as people type them to search."""
    if text.isascii():
        return _WORD.findall(text.lower())  # the same result at a tenth of the cost
    # Compatibility characters, such as a bold A, decompose into capitals: fold the case after that.
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)))


def caseless(text: str) -> str:
    """A text in the form in which tags, brands and categories are compared: without case, in one Unicode form."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def lexeme(store_id: int, kind: Kind, value: str) -> str:
    """One term of one store; a long value is replaced by its digest, which still supports exact matches."""
    if kind in _CASELESS:
        value = caseless(value)
    if len(value) > _LONGEST:
        value = hashlib.sha256(value.encode()).hexdigest()
    return f"{store_id}/{_PREFIX[kind]}/{value}"


def entry(key: str, value: object) -> str:
    """A metadata entry as one value, in the form of a query string."""
    return f"{key}={str(value).lower() if isinstance(value, bool) else value}"


def exactly(lexemes: Iterable[str]) -> str:
    """A tsquery for rows that contain all of these terms."""
    return " & ".join(_quoted(each) for each in lexemes)


def beginning(store_id: int, text: str, kind: Kind = "word") -> str:
    """A tsquery for rows in which each word of the text is a prefix of some word; empty if the text has no words."""
    return " & ".join(_quoted(lexeme(store_id, kind, word)) + ":*" for word in words(text)[:20])


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def vector(lexemes: Iterable[str]) -> str:
    """These terms as a tsvector literal."""
    ordered = sorted(lexemes)
    # NUL cannot occur in a term, so joining with it and quoting once is safe and fast.
    return _quoted("\x00".join(ordered)).replace("\x00", "' '") if ordered else ""
