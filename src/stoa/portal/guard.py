"""What keeps a browser's session its own: cookies, form tokens, and where a request came from."""

import base64
import binascii
import hmac
import os
from hashlib import sha256
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from stoa.settings import Settings

THEMES = ("system", "light", "dark")
_NONCE_BYTES, _PROOF_BYTES = 8, 20
_NOTICE_S = 60
_YEAR_S = 365 * 24 * 60 * 60
_LONGEST_NOTICE = 300


class Cookies:
    """The portal's cookies on one request. Over TLS their names carry `__Host-`, which no other host can plant."""

    def __init__(self, request: Request, settings: Settings) -> None:
        self._given = request.cookies
        self.secure = request.scope["scheme"] == "https" or settings.public_url.startswith("https://")
        self._prefix = "__Host-" if self.secure else ""

    def read(self, name: str) -> str:
        return self._given.get(f"{self._prefix}stoa_{name}", "")

    def write(self, answer: Response, name: str, value: str, *, seconds: int | None = None) -> None:
        """Set a cookie for this session of the browser, or for some seconds; an empty one is taken away."""
        answer.set_cookie(
            f"{self._prefix}stoa_{name}",
            value,
            max_age=seconds if value else 0,
            path="/",
            secure=self.secure,
            httponly=True,
            samesite="lax",
        )


def form_token(key: bytes, session: str) -> str:
    """A token that only a page of this session can hold; it differs each time, so that packing tells nothing of it."""
    nonce = os.urandom(_NONCE_BYTES)
    return base64.urlsafe_b64encode(nonce + _proof(key, session, nonce)).decode()


def is_form_token(key: bytes, session: str, token: str) -> bool:
    try:
        raw = base64.urlsafe_b64decode(token.encode("ascii"))
    except (binascii.Error, ValueError):
        return False
    nonce, proof = raw[:_NONCE_BYTES], raw[_NONCE_BYTES:]
    return bool(session) and hmac.compare_digest(proof, _proof(key, session, nonce))


def _proof(key: bytes, session: str, nonce: bytes) -> bytes:
    words = b"stoa form\0" + nonce + session.encode("utf-8", "surrogatepass")
    return hmac.digest(key, words, sha256)[:_PROOF_BYTES]


def from_here(request: Request, public_url: str = "") -> bool:
    """Whether the browser says that a page of this very host sent the form; a browser that says nothing is believed,
    because the form's token is asked for in any case. Behind a proxy the host may be ours only by the public address."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    try:
        given = urlsplit(origin).netloc.lower()
        return given != "" and given in (request.headers.get("host", "").lower(), urlsplit(public_url).netloc.lower())
    except ValueError:
        return False


class Notice(msgspec.Struct, frozen=True):
    """A sentence that the next page says once: `good` is done, `warn` is not done, without a tone it is only told."""

    words: str
    tone: str = "good"


def pack_notice(key: bytes, session: str, notice: Notice) -> str:
    """A notice for the next page of this session, sealed so that nobody else can put words into our mouth."""
    raw = f"{notice.tone} {notice.words}".encode()[:_LONGEST_NOTICE]
    return base64.urlsafe_b64encode(_notice_proof(key, session, raw) + raw).decode()


def _notice_proof(key: bytes, session: str, raw: bytes) -> bytes:
    words = b"stoa notice\0" + session.encode("utf-8", "surrogatepass") + b"\0" + raw
    return hmac.digest(key, words, sha256)[:_PROOF_BYTES]


def unpack_notice(key: bytes, session: str, packed: str) -> Notice | None:
    try:
        raw = base64.urlsafe_b64decode(packed.encode("ascii"))
    except (binascii.Error, ValueError):
        return None
    proof, said = raw[:_PROOF_BYTES], raw[_PROOF_BYTES:]
    if not hmac.compare_digest(proof, _notice_proof(key, session, said)):
        return None
    tone, _, words = said.decode("utf-8", "ignore").partition(" ")
    return Notice(words, tone)


def keep_notice(cookies: Cookies, answer: Response, packed: str) -> None:
    cookies.write(answer, "notice", packed, seconds=_NOTICE_S)


def keep_theme(cookies: Cookies, answer: Response, theme: str) -> None:
    cookies.write(answer, "theme", theme, seconds=_YEAR_S)


def local_path(text: str) -> str:
    """An address inside the portal, as somebody's `next`; anything else leads to the front page."""
    inside = text == "/portal" or text.startswith(("/portal/", "/portal?"))
    return text if inside and text.isascii() and text.isprintable() and "\\" not in text else "/portal"
