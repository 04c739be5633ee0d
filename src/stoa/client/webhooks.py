"""Verifying a webhook: whether it comes from the service, is meant for you and is of now (Standard Webhooks)."""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import msgspec

from stoa.client.answers import Model
from stoa.client.errors import StoaError

T = TypeVar("T")
Kind: TypeAlias = type[T]
TOLERANCE_S = 300


class SignatureRefused(StoaError):
    """The message is not one that the holder of the secret has sent just now; answer it with 400."""


class EventResource(Model):
    """What an event is about; its version lets you drop stale news."""

    type: str
    id: int | str
    version: int | None = None
    url: str | None = None


class Event(Model):
    """What happened. `id` is the same over retries and redeliveries: remember it to act once."""

    id: str
    type: str
    timestamp: datetime
    data: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    changes: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    resource: EventResource | None = None
    actor: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    store: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    sequence: int | None = None
    api_version: str = "v3"

    def read(self, kind: Kind[T]) -> T:
        """`data` as the resource that it is, such as `models.Product`."""
        return msgspec.convert(self.data, kind)


def verify(
    payload: bytes | str,
    headers: Mapping[str, str],
    secret: str | Iterable[str],
    *,
    tolerance_s: float = TOLERANCE_S,
    now: float | None = None,
) -> Event:
    """The event in a message, or SignatureRefused. Give the body's very bytes; several secrets while they rotate."""
    body = payload.encode() if isinstance(payload, str) else payload
    check(body, headers, secret, tolerance_s=tolerance_s, now=now)
    try:
        return msgspec.json.decode(body, type=Event)
    except msgspec.DecodeError as error:
        raise SignatureRefused(f"signed, but no event: {error}") from error


def check(
    body: bytes,
    headers: Mapping[str, str],
    secret: str | Iterable[str],
    *,
    tolerance_s: float = TOLERANCE_S,
    now: float | None = None,
) -> None:
    """Refuse a message that no secret has signed, or that was signed at another time."""
    given = {name.lower(): value for name, value in headers.items()}
    message_id, stamp, signatures = (
        given.get(f"webhook-{name}", "").strip() for name in ("id", "timestamp", "signature")
    )
    if not (message_id and stamp and signatures):
        raise SignatureRefused("webhook-id, webhook-timestamp and webhook-signature are needed")
    if not (stamp.isascii() and stamp.isdecimal() and len(stamp) <= 15):
        raise SignatureRefused("webhook-timestamp is no number of seconds")
    if abs((time.time() if now is None else now) - int(stamp)) > tolerance_s:
        raise SignatureRefused("the message is too old or from the future; is the clock right?")
    signed = f"{message_id}.{stamp}.".encode() + body
    keys = [_key(each) for each in ([secret] if isinstance(secret, str) else secret)]
    if not keys:
        raise ValueError("a secret is needed")
    expected = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)) for key in keys]
    offered = [part[3:].encode() for part in signatures.split(" ") if part.startswith("v1,")]
    matches = [hmac.compare_digest(ours, theirs) for ours in expected for theirs in offered]
    if not any(matches):
        raise SignatureRefused("no signature is right; is this the subscription's secret and the body unchanged?")


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise ValueError("a secret is whsec_ and base64") from None
