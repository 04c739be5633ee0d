"""The stored form of customers: the document, its metadata by namespace, and search terms, made without a database."""

import re
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
# Around what is one app's own; JSON text never holds either bare.
_BEGIN, _END = "\x1e", "\x1f"
_OPENING = ',"metadata":{'
_BEGIN_BYTES, _END_BYTES = _BEGIN.encode(), _END.encode()
_part = re.compile(f"{_BEGIN}(\\d+):([^{_END}]*){_END}")
_any_part = re.compile(b"%b[^%b]*%b" % (_BEGIN_BYTES, _END_BYTES, _END_BYTES))
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def shown_of(spaces: Spaces) -> str:
    """Metadata as it stands between head and tail: the shared members, then each app's own, of which a caller sees one.

    Whether a comma is needed before an app's own depends on the shared alone, so it is there already.
    """
    shared = _members_of(spaces.get(SHARED_SPACE, {}))
    comma = "," if shared else ""
    own = [
        f"{mark_of(space)}{comma}{_members_of(entries)}{_END}"
        for space, entries in sorted(spaces.items())
        if entries and space != SHARED_SPACE
    ]
    return f"{_OPENING}{shared}{''.join(own)}}}"


def _members_of(entries: Mapping[str, str]) -> str:
    return ",".join(f"{_json(key)}:{entries[key]}" for key in sorted(entries))


def spaces_of(shown: str) -> Spaces:
    """The namespaces of stored metadata."""
    members = shown[len(_OPENING) : -1]
    found = {SHARED_SPACE: _part.sub("", members)} | {int(part[1]): part[2] for part in _part.finditer(members)}
    return {
        space: {key: bytes(raw).decode() for key, raw in _members.decode(f"{{{text.lstrip(',')}}}").items()}
        for space, text in found.items()
        if text
    }


def mark_of(app_id: int) -> str:
    """What an app's own part begins with: once this is gone, the part is shown."""
    return f"{_BEGIN}{app_id}:"


def without_others(text: bytes) -> bytes:
    """Stored documents, one or many, without any part that is still marked."""
    # One byte is looked for quickly; most stores have no app whose metadata another must not see.
    if _BEGIN_BYTES in text:
        text = _any_part.sub(b"", text)
    return text.replace(_END_BYTES, b"")


def seen_by(text: bytes, app_id: int) -> bytes:
    """A stored document as one app may see it: with its own metadata and the shared, never another app's."""
    return without_others(text.replace(mark_of(app_id).encode(), b""))


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
