"""Signatures of the Standard Webhooks specification, which common libraries verify."""

import base64
import hmac
import secrets
import string
from collections.abc import Sequence

PREFIX = "whsec_"
# 44 characters encode 33 bytes, without padding and alike in both base64 alphabets.
_LENGTH = 44
_LETTERS = string.ascii_letters + string.digits


def new_secret() -> str:
    return PREFIX + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def base_string(event_id: str, timestamp: int, body: bytes) -> bytes:
    """The signed bytes."""
    return b"%s.%d.%s" % (event_id.encode(), timestamp, body)


def key_of(secret: str) -> bytes:
    """The key bytes of a secret."""
    return base64.b64decode(secret.removeprefix(PREFIX))


def signatures(keys: Sequence[bytes], event_id: str, timestamp: int, body: bytes) -> str:
    """One signature for each key, newest first, separated by spaces."""
    signed = base_string(event_id, timestamp, body)
    digests = (hmac.digest(key, signed, "sha256") for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def sign(secrets: Sequence[str], event_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a delivery."""
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signatures([key_of(secret) for secret in secrets], event_id, timestamp, body),
    }
