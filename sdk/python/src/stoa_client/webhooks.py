"""Verifies webhook signatures and timestamps (Standard Webhooks), and signs deliveries for tests of a receiver."""

import base64
import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import msgspec

from stoa_client.answers import Model
from stoa_client.decoding import convert, decode
from stoa_client.errors import StoaError

T = TypeVar("T")
Kind: TypeAlias = type[T]
TOLERANCE_S = 300


class SignatureRefused(StoaError):
    """The signature or the timestamp of a message is invalid; respond with 400."""


class EventResource(Model):
    """The resource that an event is about; compare its version to ignore outdated events."""

    type: str
    id: int | str
    version: int | None = None
    url: str | None = None


class EventStore(Model):
    """The store of an event. Events of the app's own endpoint also have its name, currency, time zone and locale."""

    id: int
    handle: str = ""
    base_url: str = ""
    name: str | None = None
    currency: str | None = None
    timezone: str | None = None
    locale: str | None = None


class EventParent(Model):
    """The resource that the resource of an event belongs to: the product of a variant."""

    type: str
    id: int
    version: int


class Event(Model):
    """An event. Retries and redeliveries have the same `id`: use it to ignore repeats."""

    id: str
    type: str
    timestamp: datetime
    data: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    changes: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    resource: EventResource | None = None
    parent: EventParent | None = None
    actor: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    store: EventStore | None = None
    sequence: int | None = None
    api_version: str = "v3"

    def read(self, kind: Kind[T]) -> T:
        """`data` as a model, such as `models.Product`."""
        return convert(self.data, kind)


def verify(
    payload: bytes | str,
    headers: Mapping[str, str],
    secret: str | Iterable[str],
    *,
    tolerance_s: float = TOLERANCE_S,
    now: float | None = None,
) -> Event:
    """The event in a message; raises SignatureRefused. Pass the raw body, and several secrets during a rotation.

    Deliveries of app subscriptions, and those of the app's own endpoint, are signed with the app's signing secret on all stores:
    `event.store` is the store that the signed header names.
    """
    body = payload.encode() if isinstance(payload, str) else payload
    check(body, headers, secret, tolerance_s=tolerance_s, now=now)
    try:
        event = decode(body, Event)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SignatureRefused(f"the signed body is not an event: {error}") from error
    if _given(headers).get("webhook-store"):
        named = store_of(headers, secret, tolerance_s=tolerance_s, now=now)
        if event.store is None or event.store.id != named:
            raise SignatureRefused("webhook-store names another store than the event")
    return event


def store_of(
    headers: Mapping[str, str],
    secret: str | Iterable[str],
    *,
    tolerance_s: float = TOLERANCE_S,
    now: float | None = None,
) -> int:
    """The id of the store that a message of an app subscription names, verified without reading the body.

    Use it to choose a queue or a database for the message. Call `verify` with the body before you use its content.
    """
    given = _given(headers)
    store = given.get("webhook-store", "").strip()
    if not (store.isascii() and store.isdecimal() and len(store) <= 19):
        raise SignatureRefused("webhook-store is required: only deliveries with the app's signing secret have it")
    message_id, stamp, signatures = _signed(given, tolerance_s, now)
    _match(f"store.{message_id}.{stamp}.{store}".encode(), signatures, "v1s,", secret)
    return int(store)


def check(
    body: bytes,
    headers: Mapping[str, str],
    secret: str | Iterable[str],
    *,
    tolerance_s: float = TOLERANCE_S,
    now: float | None = None,
) -> None:
    """Refuse a message with a wrong signature, or with a timestamp outside the tolerance."""
    message_id, stamp, signatures = _signed(_given(headers), tolerance_s, now)
    _match(f"{message_id}.{stamp}.".encode() + body, signatures, "v1,", secret)


class SignedDelivery(msgspec.Struct, frozen=True):
    """A delivery as the service sends it: the raw body and the headers."""

    body: bytes
    headers: dict[str, str]


def sign(
    event: Event | Mapping[str, Any] | bytes | str,
    secret: str,
    *,
    app_secret: bool = False,
    now: float | None = None,
) -> SignedDelivery:
    """A signed delivery of an event, to test a receiver; pass a raw body to sign exactly these bytes.

    With `app_secret`, the delivery names its store in a signed header, as those with the app's signing secret do.
    """
    body = (
        event if isinstance(event, bytes) else event.encode() if isinstance(event, str) else msgspec.json.encode(event)
    )
    members = decode(body, dict[str, Any])
    stamp = int(time.time() if now is None else now)
    message = f"{members['id']}.{stamp}."
    signatures = [_signature("v1,", message.encode() + body, secret)]
    headers = {"content-type": "application/json", "webhook-id": members["id"], "webhook-timestamp": str(stamp)}
    if app_secret:
        headers["webhook-store"] = store = str(members["store"]["id"])
        signatures.append(_signature("v1s,", f"store.{message}{store}".encode(), secret))
    return SignedDelivery(body, {**headers, "webhook-signature": " ".join(signatures)})


def _signature(version: str, signed: bytes, secret: str) -> str:
    return version + base64.b64encode(hmac.digest(key_of(secret), signed, hashlib.sha256)).decode()


def _given(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _signed(given: Mapping[str, str], tolerance_s: float, now: float | None) -> tuple[str, str, str]:
    """The id, the timestamp and the signatures of a message; refuses a timestamp outside the tolerance."""
    message_id, stamp, signatures = (
        given.get(f"webhook-{name}", "").strip() for name in ("id", "timestamp", "signature")
    )
    if not (message_id and stamp and signatures):
        raise SignatureRefused("the headers webhook-id, webhook-timestamp and webhook-signature are required")
    if "." in message_id:  # a signed text that is no event, such as the return from an install link
        raise SignatureRefused("webhook-id must not contain a period")
    if not (stamp.isascii() and stamp.isdecimal() and len(stamp) <= 15):
        raise SignatureRefused("webhook-timestamp must be a number of seconds")
    if not abs((time.time() if now is None else now) - int(stamp)) <= tolerance_s:  # false for NaN
        raise SignatureRefused("webhook-timestamp is too far from the current time; check the clock")
    return message_id, stamp, signatures


def _match(signed: bytes, signatures: str, version: str, secret: str | Iterable[str]) -> None:
    keys = [key_of(each) for each in ([secret] if isinstance(secret, str) else secret)]
    if not keys:
        raise ValueError("pass at least one secret")
    expected = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)) for key in keys]
    offered = [part[len(version) :].encode() for part in signatures.split(" ") if part.startswith(version)]
    matches = [hmac.compare_digest(one, other) for one in expected for other in offered]
    if not any(matches):
        raise SignatureRefused(
            "no signature matches; check the secret of the subscription, and that the body is unchanged"
        )


def key_of(secret: str) -> bytes:
    """The key bytes of a signing secret."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not key:  # anyone can sign with an empty key
        raise ValueError("a secret must be whsec_ followed by base64")
    return key
