"""The stored form of customers: documents, metadata by app, and search terms, built without a database."""

import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

import msgspec

from stoa import terms
from stoa.customers.contract import Customer
from stoa.db.editions import Part, added_members, edition_of

PARTS = (Part("customer_head", "head", Customer),)
EDITION = edition_of(PARTS)

# The members of a document's head with their defaults, in the order that callers see.
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
    "consents": {},
    "tags": [],
    "note": None,
    "addresses": [],
    "default_shipping_address_id": None,
    "default_billing_address_id": None,
    **added_members(Customer),
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

# App id -> key -> value as JSON. Keys under None are shared by all apps.
Metadata = dict[int | None, dict[str, str]]
# Delimiters around the keys of one app. JSON text never contains either character unescaped.
_BEGIN, _END = "\x1e", "\x1f"
_OPENING = ',"metadata":{'
_BEGIN_BYTES, _END_BYTES = _BEGIN.encode(), _END.encode()
_section = re.compile(f"{_BEGIN}(\\d+):([^{_END}]*){_END}")
_any_section = re.compile(b"%b[^%b]*%b" % (_BEGIN_BYTES, _END_BYTES, _END_BYTES))
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def shown_of(metadata: Metadata) -> str:
    """Metadata as stored between head and tail: the shared keys, then a section for each app, of which a caller sees one.

    A section begins with a comma if there are shared keys.
    """
    shared = _members_of(metadata.get(None, {}))
    comma = "," if shared else ""
    sections = [
        f"{section_start(app_id)}{comma}{_members_of(entries)}{_END}"
        for app_id, entries in sorted((owner, entries) for owner, entries in metadata.items() if owner is not None)
        if entries
    ]
    return f"{_OPENING}{shared}{''.join(sections)}}}"


def _members_of(entries: Mapping[str, str]) -> str:
    return ",".join(f"{_json(key)}:{entries[key]}" for key in sorted(entries))


def metadata_of(shown: str) -> Metadata:
    """Stored metadata by owner."""
    members = shown[len(_OPENING) : -1]
    found: dict[int | None, str] = {None: _section.sub("", members)}
    found |= {int(section[1]): section[2] for section in _section.finditer(members)}
    return {
        app_id: {key: bytes(raw).decode() for key, raw in _members.decode(f"{{{text.lstrip(',')}}}").items()}
        for app_id, text in found.items()
        if text
    }


def section_start(app_id: int | None) -> str:
    """The start of an app's section. Without it, the keys of the section are visible. An operator has no section."""
    return f"{_BEGIN}{app_id}:"


def only_shared(text: bytes) -> bytes:
    """Stored documents, one or many, without the sections that still have their start."""
    # Most documents have no section: searching for one byte is faster than the pattern.
    if _BEGIN_BYTES in text:
        text = _any_section.sub(b"", text)
    return text.replace(_END_BYTES, b"")


def seen_by(text: bytes, app_id: int | None) -> bytes:
    """A stored document as one app may see it: its own metadata and the shared keys, never another app's. A person sees the
    shared keys.
    """
    return only_shared(text.replace(section_start(app_id).encode(), b""))


# Says that the app has no metadata of its own, which a tag with the version alone does not say. Workers of 0.3.0 ignore it.
NO_DIGEST = "0"


def own_digest(entries: Mapping[str, str]) -> str:
    """A digest of an app's own metadata, as a part of the ETag."""
    return f"{crc32(_members_of(entries).encode()):08x}" if entries else NO_DIGEST


def own_digest_in(text: bytes, app_id: int | None) -> str:
    """The same digest, from the app's section in a stored document."""
    _, start, rest = text.partition(section_start(app_id).encode())
    return f"{crc32(rest.partition(_END_BYTES)[0].removeprefix(b',')):08x}" if start else NO_DIGEST


def value_of(text: str) -> Any:
    """A metadata value as callers see it."""
    return msgspec.json.decode(text)


def terms_of(fields: Mapping[str, Any], metadata: Metadata, store_id: int) -> str:
    """The search terms of a customer, as a tsvector."""
    names = terms.words(" ".join(fields[name] or "" for name in ("first_name", "last_name", "company")))
    text = [fields["email"] or "", *fields["tags"]]
    found = {terms.lexeme(store_id, "name", word) for word in names}
    found |= {terms.lexeme(store_id, "word", word) for word in [*names, *terms.words(" ".join(text))]}
    if fields["phone"]:
        digits = fields["phone"][1:]
        # Also without its country code of one to three digits, because people dial it that way.
        found |= {terms.lexeme(store_id, "word", digits[cut:]) for cut in range(4)}
    found |= {terms.lexeme(store_id, "tag", tag) for tag in fields["tags"]}
    for app_id, entries in metadata.items():
        owned = {owned_key(key, app_id): _plain(text) for key, text in entries.items()}
        found |= {terms.lexeme(store_id, "meta", terms.entry(key, text)) for key, text in owned.items()}
    return terms.vector(found)


def owned_key(key: str, app_id: int | None) -> str:
    """A metadata key with its owner, as search terms have it; without an app it is shared."""
    return f"{'shared' if app_id is None else app_id}:{key}"


def _plain(text: str) -> str:
    """A metadata value as a query string writes it."""
    return str(msgspec.json.decode(text)) if text.startswith('"') else text


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
