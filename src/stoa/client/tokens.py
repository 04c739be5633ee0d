"""A bearer token: asked for with the app's credentials, kept while it lives, renewed before it ends."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from urllib.parse import quote_plus, urlencode

import httpx
import msgspec

from stoa.client.calling import Flow, Patience, Send, failure
from stoa.client.errors import TokenRefused
from stoa.client.requests import JSON, Request

_EARLY_S = 60.0  # renewed so long before its end, or a tenth of its life where that is less


class Credentials(msgspec.Struct, frozen=True):
    """Who the app is and where it gets its tokens."""

    auth_url: str
    client_id: str
    client_secret: str
    scopes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Credentials({self.client_id!r} at {self.auth_url})"


class Token(msgspec.Struct, frozen=True):
    """A token and when to renew it, by this process's own clock."""

    text: str
    renew_at: float

    @property
    def fresh(self) -> bool:
        return time.monotonic() < self.renew_at

    def __repr__(self) -> str:
        return "Token(...)"


class _Given(msgspec.Struct):
    access_token: str
    expires_in: float = 3600.0


class _Refused(msgspec.Struct):
    error: str = "invalid_response"
    error_description: str = ""


def asking(credentials: Credentials, patience: Patience) -> Flow[Token]:
    """Ask for a token, patiently."""
    form = {"grant_type": "client_credentials"}
    if credentials.scopes:
        form["scope"] = " ".join(credentials.scopes)
    ask = Request(
        method="POST",
        url=credentials.auth_url,
        headers={"accept": JSON, "content-type": "application/x-www-form-urlencoded"},
        content=urlencode(form).encode(),
        # RFC 6749 wants both encoded before they are joined.
        auth=(quote_plus(credentials.client_id), quote_plus(credentials.client_secret)),
    )
    tries = 0
    while True:
        asked_at = time.monotonic()
        outcome = yield Send(ask)
        if isinstance(outcome, httpx.Response) and outcome.status_code == 200:
            return _read(outcome.content, asked_at)
        tries += 1
        if not (yield from patience.waits(outcome, tries)):
            if isinstance(outcome, httpx.Response):
                raise _refused(outcome)
            raise failure(outcome, tries)


def _read(body: bytes, asked_at: float) -> Token:
    try:
        given = msgspec.json.decode(body, type=_Given)
    except msgspec.DecodeError as error:
        raise TokenRefused(200, "invalid_response", "this is no token endpoint") from error
    return Token(given.access_token, asked_at + given.expires_in - min(_EARLY_S, given.expires_in / 10))


def _refused(response: httpx.Response) -> TokenRefused:
    try:
        told = msgspec.json.decode(response.content, type=_Refused)
    except msgspec.DecodeError:
        told = _Refused()
    return TokenRefused(response.status_code, told.error, told.error_description)


class Keeper:
    """Keeps the token of one app for all threads; only one of them asks for a new one."""

    def __init__(self, ask: Callable[[], Token]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._token: Token | None = None

    def token(self, stale: str | None) -> str:
        """A token that is not the stale one."""
        with self._lock:
            if self._token is None or not self._token.fresh or self._token.text == stale:
                self._token = self._ask()
            return self._token.text


class AsyncKeeper:
    """The same for all tasks of an event loop."""

    def __init__(self, ask: Callable[[], Awaitable[Token]]) -> None:
        self._ask = ask
        self._lock = asyncio.Lock()
        self._token: Token | None = None

    async def token(self, stale: str | None) -> str:
        async with self._lock:
            if self._token is None or not self._token.fresh or self._token.text == stale:
                self._token = await self._ask()
            return self._token.text
