"""The message of a delivery: the payload of an event, its signature by the Standard Webhooks specification, and what is hidden of
its secrets in the response."""

import base64
import hmac
import html
import re
import secrets
import string
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from urllib.parse import quote, quote_plus

import msgspec
from msgspec import UNSET, UnsetType

_BASE_PATH = "/api/v3/app"
_COLLECTIONS = {"product": "products", "order": "orders", "customer": "customers", "webhook": "webhooks"}
_PRODUCT_ID = re.compile(r'"product_id":(\d+)')
_ORDER_ID = re.compile(r'"order_id":(\d+)')
_IMPORT = re.compile(r'"id":"(imp_\w+)"')
# A secret is the prefix and 44 characters, which encode 33 bytes, without padding and alike in both base64 alphabets.
_PREFIX = "whsec_"
_LENGTH = 44
_LETTERS = string.ascii_letters + string.digits
HIDDEN = "********"
_MIN_LENGTH = 4  # shorter values, such as a region or a flag, occur in every text


# --- payload ----------------------------------------------------------------------------------------------------------


class Event(msgspec.Struct):
    """A stored event."""

    store_id: int
    id: str
    type: str
    resource_type: str
    resource_id: int
    resource_version: int
    actor: str
    changes: str
    data: str
    created_at: datetime
    parent_version: int | None  # of the product, if the resource is a variant
    app_views: str | None  # what single apps see instead, by app id

    @property
    def size(self) -> int:
        return len(self.data) + len(self.app_views or "")


class AddressedEvent(Event):
    """A stored event with its audience: the only app that may receive it, or None for every app with its scope."""

    audience: int | None


class EventStore(msgspec.Struct, frozen=True):
    """The store of an event, as the envelope shows it. The events of an app's own endpoint have all of its details."""

    id: int
    handle: str
    base_url: str
    name: str | UnsetType = UNSET
    currency: str | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    locale: str | UnsetType = UNSET


def body(event: Event, sequence: int, store: EventStore, *, payload: str = "full", fields: Sequence[str] = ()) -> bytes:
    """The bytes to sign and send: the envelope around the stored document, which is not encoded again.

    `fields` narrows `data` to these members; a thin payload omits it.
    """
    path = _path(event)
    url = f'"{_BASE_PATH}/{path}"' if path else "null"
    head = (
        f'{{"id":"{event.id}","type":"{event.type}","timestamp":"{_rfc3339(event.created_at)}","api_version":"v3",'
        f'"store":{msgspec.json.encode(store).decode()},"sequence":{sequence},'
        f'"resource":{{"type":"{event.resource_type}","id":{event.resource_id},"version":{event.resource_version},'
        f'"url":{url}}},"parent":{_parent(event)},"actor":{event.actor},"changes":{event.changes}'
    )
    if payload == "thin":
        return f"{head}}}".encode()
    return f'{head},"data":{select(event.data, fields) if fields else event.data}}}'.encode()


def _parent(event: Event) -> str:
    """The product of a variant, with its version after the change; null for other resources."""
    found = _PRODUCT_ID.search(event.data) if event.parent_version is not None else None
    return f'{{"type":"product","id":{found[1]},"version":{event.parent_version}}}' if found else "null"


def select(document: str, fields: Container[str]) -> str:
    """Keep only these members, in the order and the bytes of the document."""
    members = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    selected = (f'"{name}":{bytes(members[name]).decode()}' for name in members if name in fields)
    return f"{{{','.join(selected)}}}"


def replaced(document: str, members: Mapping[str, msgspec.Raw]) -> str:
    """The document with these members instead of its own, in the same order; others keep their bytes."""
    if not members:
        return document
    return msgspec.json.encode({**msgspec.json.decode(document, type=dict[str, msgspec.Raw]), **members}).decode()


def _path(event: Event) -> str | None:
    """The path of the resource below the store's base URL."""
    collection = _COLLECTIONS.get(event.resource_type)
    if collection is not None:
        return f"{collection}/{event.resource_id}"
    if event.resource_type == "variant" and (found := _PRODUCT_ID.search(event.data)):
        return f"products/{found[1]}/variants/{event.resource_id}"
    if event.resource_type == "comment" and (found := _ORDER_ID.search(event.data)):
        return f"orders/{found[1]}/comments"  # a thin event names the order nowhere else
    if event.resource_type == "import" and (found := _IMPORT.search(event.data)):
        return f"{event.type.partition('.')[0]}s/imports/{found[1]}"
    return None


def _rfc3339(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


# --- signature --------------------------------------------------------------------------------------------------------


def new_secret() -> str:
    return _PREFIX + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def base_string(event_id: str, timestamp: int, body: bytes) -> bytes:
    """The signed bytes."""
    return b"%s.%d.%s" % (event_id.encode(), timestamp, body)


def key_of(secret: str) -> bytes:
    """The key bytes of a secret."""
    return base64.b64decode(secret.removeprefix(_PREFIX))


def store_string(event_id: str, timestamp: int, store_id: int) -> bytes:
    """The signed bytes of the header that names the store; no body begins like this, because events have other ids."""
    return b"store.%s.%d.%d" % (event_id.encode(), timestamp, store_id)


def signed_headers(
    keys: Sequence[bytes], event_id: str, timestamp: int, body: bytes, store_id: int | None = None
) -> dict[str, str]:
    """The headers of a delivery, with one signature for each key, newest first, separated by spaces.

    If the keys serve all stores of an app, a header names the store, and further signatures (`v1s`) cover it. Other verifiers
    of Standard Webhooks ignore these.
    """
    contents = {"v1": base_string(event_id, timestamp, body)}
    headers = {"webhook-id": event_id, "webhook-timestamp": str(timestamp)}
    if store_id is not None:
        contents["v1s"] = store_string(event_id, timestamp, store_id)
        headers["webhook-store"] = str(store_id)
    signatures = (
        f"{version},{base64.b64encode(hmac.digest(key, content, 'sha256')).decode()}"
        for version, content in contents.items()
        for key in keys
    )
    return {**headers, "webhook-signature": " ".join(signatures)}


def sign(
    secrets: Sequence[str], event_id: str, timestamp: int, body: bytes, store_id: int | None = None
) -> dict[str, str]:
    """The headers of a delivery, from the secrets as text."""
    return signed_headers([key_of(secret) for secret in secrets], event_id, timestamp, body, store_id)


# --- redaction --------------------------------------------------------------------------------------------------------
# A receiver may echo what it was sent, and the delivery log keeps the response.


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
