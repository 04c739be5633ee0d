"""The stored form of customers: the document, its metadata by namespace, and search terms, made without a database."""

from collections.abc import Mapping
from typing import Any

import msgspec

from stoa import terms

# The members of a document's head with their values when nothing is said; this order is the order callers see.
CUSTOMER_DEFAULTS: dict[str, Any] = {
    "external_id": None,
    "email": None,
    "phone": None,
    "first_name": None,
    "last_name": None,
    "company": None,
    "locale": None,
    "status": "active",
    "accepts_marketing": False,
    "tags": [],
    "note": None,
    "addresses": [],
    "default_shipping_address_id": None,
    "default_billing_address_id": None,
}
ADDRESS_DEFAULTS: dict[str, Any] = {
    "id": None,
    "customer_id": None,
    "label": None,
    "first_name": None,
    "last_name": None,
    "company": None,
    "phone": None,
    "address1": "",
    "address2": None,
    "city": None,
    "district": None,
    "province": None,
    "province_code": None,
    "postal_code": None,
    "country_code": "",
    "latitude": None,
    "longitude": None,
    "is_default_shipping": False,
    "is_default_billing": False,
    "created_at": None,
    "updated_at": None,
    "version": 1,
}

SHARED_SPACE = 0
Spaces = dict[int, dict[str, str]]  # namespace -> key -> value as JSON
# JSON text never holds it bare, so it parts namespaces without a doubt.
_MARK = "\x1e"
_MARK_BYTES = _MARK.encode()
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def shown_of(spaces: Spaces) -> str:
    """Metadata as it stands between head and tail: each namespace's members, fit to be put into an object."""
    parts = [
        f"{space}:{','.join(f'{_json(key)}:{entries[key]}' for key in sorted(entries))}{_MARK}"
        for space, entries in sorted(spaces.items())
        if entries
    ]
    return _MARK + "".join(parts)


def spaces_of(shown: str) -> Spaces:
    """The namespaces of stored metadata."""
    found: Spaces = {}
    for part in shown.strip(_MARK).split(_MARK):
        space, _, members = part.partition(":")
        if space:
            decoded = _members.decode("{" + members + "}")
            found[int(space)] = {key: bytes(raw).decode() for key, raw in decoded.items()}
    return found


def seen_by(text: bytes, app_id: int) -> bytes:
    """Stored documents as one app may see them: with its own metadata and the shared, never another app's.

    It may be one, or many with commas between: a namespace begins with a figure, a tail with a comma; a tombstone has none.
    """
    first, *parts = text.split(_MARK_BYTES)
    visible = (b"%d:" % SHARED_SPACE, b"%d:" % app_id)
    built, seen = [first], list[bytes]()
    for part in parts:
        if part.startswith(b","):
            built += [b',"metadata":{', b",".join(seen), b"}", part]
            seen.clear()
        elif part.startswith(visible):
            seen.append(part.partition(b":")[2])
    return b"".join(built)


def value_of(text: str) -> Any:
    """A metadata value as callers see it."""
    return msgspec.json.decode(text)


def terms_of(fields: Mapping[str, Any], spaces: Spaces, store_id: int) -> str:
    """Everything a customer can be found by, as a tsvector."""
    names = terms.words(" ".join(fields[name] or "" for name in ("first_name", "last_name", "company")))
    text = [fields["email"] or "", *fields["tags"]]
    found = {terms.lexeme(store_id, "name", word) for word in names}
    found |= {terms.lexeme(store_id, "word", word) for word in [*names, *terms.words(" ".join(text))]}
    if fields["phone"]:
        digits = fields["phone"][1:]
        # Without its country code too, which is one to three digits: that is how people dial it.
        found |= {terms.lexeme(store_id, "word", digits[cut:]) for cut in range(4)}
    found |= {terms.lexeme(store_id, "tag", tag) for tag in fields["tags"]}
    for space, entries in spaces.items():
        found |= {entry_term(store_id, space, key, _plain(text)) for key, text in entries.items()}
    return terms.vector(found)


def entry_term(store_id: int, space: int, key: str, value: str) -> str:
    return terms.lexeme(store_id, "meta", f"{space}:{terms.entry(key, value)}")


def _plain(text: str) -> str:
    """A metadata value the way a query string writes it."""
    return str(msgspec.json.decode(text)) if text.startswith('"') else text


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
