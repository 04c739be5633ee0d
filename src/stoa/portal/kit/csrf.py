"""Protection against cross-site request forgery: form tokens, and a check of the request's origin."""

import base64
import binascii
import hmac
import os
from hashlib import sha256
from urllib.parse import urlsplit

from starlette.requests import Request

from stoa.secret_keys import Keys

_NONCE_BYTES, _MAC_BYTES = 8, 20


def form_token(keys: Keys, session: str) -> str:
    """Return a token bound to this session. Its nonce differs each time, so compressed pages do not reveal it (BREACH)."""
    nonce = os.urandom(_NONCE_BYTES)
    return base64.urlsafe_b64encode(nonce + _mac(keys.current, session, nonce)).decode()


def is_form_token(keys: Keys, session: str, token: str) -> bool:
    try:
        raw = base64.urlsafe_b64decode(token.encode("ascii"))
    except (binascii.Error, ValueError):
        return False
    nonce, mac = raw[:_NONCE_BYTES], raw[_NONCE_BYTES:]
    matches = [hmac.compare_digest(mac, _mac(key, session, nonce)) for key in keys.all]
    return bool(session) and any(matches)


def _mac(key: bytes, session: str, nonce: bytes) -> bytes:
    message = b"stoa form\0" + nonce + session.encode("utf-8", "surrogatepass")
    return hmac.digest(key, message, sha256)[:_MAC_BYTES]


def is_same_origin(request: Request, public_url: str = "") -> bool:
    """Whether `Sec-Fetch-Site` and `Origin` allow the form. Missing headers pass, because the form token is always
    checked; the public URL counts as our origin, because a proxy may change the `Host` header."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    try:
        host = urlsplit(origin).netloc.lower()
        return host != "" and host in (request.headers.get("host", "").lower(), urlsplit(public_url).netloc.lower())
    except ValueError:
        return False
