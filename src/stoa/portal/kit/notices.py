"""Notices: a message that the next page shows once, carried in a signed cookie."""

import base64
import binascii
import hmac
from hashlib import sha256

import msgspec

from stoa.secret_keys import Keys

_MAC_BYTES = 20
_MAX_BYTES = 300
LIFETIME_S = 60


class Notice(msgspec.Struct, frozen=True):
    """A message with a tone: `good` for success, `warn` if nothing was changed, empty for information."""

    message: str
    tone: str = "good"


def pack_notice(keys: Keys, session: str, notice: Notice) -> str:
    """Sign a notice for this session, so that no other site can make the portal show a message."""
    raw = f"{notice.tone} {notice.message}".encode()[:_MAX_BYTES]
    return base64.urlsafe_b64encode(_mac(keys.current, session, raw) + raw).decode()


def unpack_notice(keys: Keys, session: str, packed: str) -> Notice | None:
    try:
        decoded = base64.urlsafe_b64decode(packed.encode("ascii"))
    except (binascii.Error, ValueError):
        return None
    mac, raw = decoded[:_MAC_BYTES], decoded[_MAC_BYTES:]
    if not any(hmac.compare_digest(mac, _mac(key, session, raw)) for key in keys.all):
        return None
    tone, _, message = raw.decode("utf-8", "ignore").partition(" ")
    return Notice(message, tone)


def _mac(key: bytes, session: str, raw: bytes) -> bytes:
    message = b"stoa notice\0" + session.encode("utf-8", "surrogatepass") + b"\0" + raw
    return hmac.digest(key, message, sha256)[:_MAC_BYTES]
