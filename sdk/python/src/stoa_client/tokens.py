"""Access tokens: requested with the app's credentials, cached, and renewed before they expire."""

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable
from urllib.parse import quote_plus, urlencode

import httpx
import msgspec

from stoa_client.answers import decoded
from stoa_client.decoding import decode
from stoa_client.errors import DeadlineExceeded, StoaError, TokenRefused, UnexpectedAnswer
from stoa_client.flows import Attempts, Flow, RetryPolicy, failure
from stoa_client.private_keys import ASSERTION_TYPE, PrivateKey
from stoa_client.requests import JSON, Request

_EARLY_S = 60.0  # before expiry, or a tenth of the lifetime if that is less


class Credentials(msgspec.Struct, frozen=True):
    """The app's credentials, a secret or a private key, and its token endpoint."""

    auth_url: str
    client_id: str
    client_secret: str
    scopes: tuple[str, ...] = ()
    private_key: PrivateKey | None = None

    @property
    def basic(self) -> tuple[str, str]:
        """The user and the password of Basic authentication; RFC 6749 requires both to be form-encoded."""
        return quote_plus(self.client_id), quote_plus(self.client_secret)

    def __repr__(self) -> str:
        return f"Credentials({self.client_id!r} at {self.auth_url})"


class Token(msgspec.Struct, frozen=True):
    """A token with its scopes, and when to renew it by the monotonic clock of this process."""

    text: str
    renew_at: float
    scopes: tuple[str, ...] = ()

    @property
    def fresh(self) -> bool:
        return time.monotonic() < self.renew_at

    def __repr__(self) -> str:
        return "Token(...)"


class _Issued(msgspec.Struct):
    access_token: str
    expires_in: float = 3600.0
    scope: str = ""


class _Refused(msgspec.Struct):
    error: str
    error_description: str = ""


def token_request(credentials: Credentials) -> Request:
    """The request for a token; with a private key, each has an assertion of its own."""
    form = {"grant_type": "client_credentials"}
    if credentials.scopes:
        form["scope"] = " ".join(credentials.scopes)
    auth = None
    if credentials.private_key:
        form["client_assertion_type"] = ASSERTION_TYPE
        form["client_assertion"] = credentials.private_key.assertion(credentials.client_id, credentials.auth_url)
    else:
        auth = credentials.basic
    return Request(
        method="POST",
        url=credentials.auth_url,
        headers={"accept": JSON, "content-type": "application/x-www-form-urlencoded"},
        content=urlencode(form).encode(),
        auth=auth,
    )


def request_token(credentials: Credentials, policy: RetryPolicy, deadline: float) -> Flow[Token]:
    """Request a token, with retries until the deadline of the call that needs it."""
    request = token_request(credentials)
    attempts = Attempts(request, policy, min(deadline, policy.deadline(request)))
    while True:
        requested_at = time.monotonic()
        # The service accepts an assertion once, also if its response was lost.
        outcome = yield from attempts.send(request=token_request(credentials) if attempts.count else request)
        if isinstance(outcome, httpx.Response) and outcome.status_code < 400:
            return read_token(outcome, requested_at)
        if not (yield from attempts.pause(outcome)):
            if isinstance(outcome, httpx.Response):
                raise refused(outcome)
            raise failure(outcome, attempts.count)


def read_token(response: httpx.Response, requested_at: float) -> Token:
    try:
        issued: _Issued = decoded(response, _Issued)
    except UnexpectedAnswer as error:
        message = f"auth_url is not a token endpoint: {response.status_code}"
        raise UnexpectedAnswer(message, response.status_code, response.content) from error
    renew_at = requested_at + issued.expires_in - min(_EARLY_S, issued.expires_in / 10)
    return Token(issued.access_token, renew_at, tuple(issued.scope.split()))


def refused(response: httpx.Response) -> StoaError:
    """An OAuth error is TokenRefused; another refusal, such as that of an unknown store, is the error of its code."""
    try:
        body: _Refused = decode(response.content, _Refused)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return failure(response, 1)
    return TokenRefused(response.status_code, body.error, body.error_description)


class TokenCache:
    """The token of one app, shared by all threads; only one of them requests a new one."""

    def __init__(self, request: Callable[[float], Token]) -> None:
        self._request = request
        self._lock = threading.Lock()
        self._token: Token | None = None

    def __call__(self, stale: str | None, deadline: float = math.inf) -> str:
        """A token other than the stale one."""
        if not self._lock.acquire(timeout=min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)):
            raise DeadlineExceeded("another call of this client has requested a token since before the deadline")
        try:
            if self._token is None or not self._token.fresh or self._token.text == stale:
                self._token = self._request(deadline)
            return self._token.text
        finally:
            self._lock.release()


class AsyncTokenCache:
    """The token of one app, shared by all tasks of an event loop."""

    def __init__(self, request: Callable[[float], Awaitable[Token]]) -> None:
        self._request = request
        self._lock = asyncio.Lock()
        self._token: Token | None = None

    async def __call__(self, stale: str | None, deadline: float = math.inf) -> str:
        async with self._lock:
            if self._token is None or not self._token.fresh or self._token.text == stale:
                self._token = await self._request(deadline)
            return self._token.text
