"""Standard Webhooks signatures: what a receiver's stock library verifies without a word from us."""

import base64
import hmac
import secrets
import string
from collections.abc import Sequence

PREFIX = "whsec_"
# 44 letters are 33 bytes, the same in both alphabets of base64 and without padding.
_LENGTH = 44
_LETTERS = string.ascii_letters + string.digits


def new_secret() -> str:
    return PREFIX + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def base_string(event_id: str, timestamp: int, body: bytes) -> bytes:
    """The very bytes that are signed."""
    return b"%s.%d.%s" % (event_id.encode(), timestamp, body)


def key_of(secret: str) -> bytes:
    """The bytes that a secret stands for."""
    return base64.b64decode(secret.removeprefix(PREFIX))


def marks(keys: Sequence[bytes], event_id: str, timestamp: int, body: bytes) -> str:
    """A signature for each key, newest first, with one space between."""
    signed = base_string(event_id, timestamp, body)
    found = [base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys]
    return " ".join(f"v1,{mark}" for mark in found)


def sign(secrets: Sequence[str], event_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a delivery."""
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": marks([key_of(secret) for secret in secrets], event_id, timestamp, body),
    }
