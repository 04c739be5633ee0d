"""Installations of an app: verifies the return from an install link, and lists the stores that installed the app."""

import hashlib
import hmac
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import httpx
import msgspec

from stoa_client.answers import Model, decoded
from stoa_client.connection import Connection
from stoa_client.errors import ApiError, StoaError, TokenRefused
from stoa_client.flows import RetryPolicy
from stoa_client.pages import Cursors
from stoa_client.private_keys import PrivateKey
from stoa_client.requests import address
from stoa_client.tokens import Credentials, TokenCache, request_token
from stoa_client.webhooks import TOLERANCE_S, EventStore, SignatureRefused, key_of


class InstallRefused(StoaError):
    """The merchant refused to install the app."""


class CompletedInstall(msgspec.Struct, frozen=True):
    """A verified return: the store that installed the app, by its handle, and the `state` of your link."""

    store: str
    state: str
    timestamp: int


class Installation(Model):
    """A store that installed the app, or with the status `uninstalled`, one that did before."""

    store: EventStore
    scopes: list[str]
    status: str
    installed_at: datetime
    updated_at: datetime


def verify_install(
    returned: str | Mapping[str, str],
    client_id: str,
    secret: str | Iterable[str],
    *,
    state: str = "",
    tolerance_s: float = TOLERANCE_S,
    now: float | None = None,
) -> CompletedInstall:
    """Check a return from an install link; pass its URL or its query, the signing secret, and the `state` of your link.

    Raises InstallRefused if the merchant refused, and SignatureRefused if the return is forged or too old.
    """
    query = _query(returned)
    if not hmac.compare_digest(query.get("state", "").encode(), state.encode()):
        raise SignatureRefused("state differs from the state of the install link")
    if "error" in query:
        raise InstallRefused(query["error"])
    store, stamp, signatures = (query.get(name, "") for name in ("store", "timestamp", "signature"))
    if not (store and stamp.isascii() and stamp.isdecimal() and len(stamp) <= 15):
        raise SignatureRefused("store, timestamp and signature are required")
    if not abs((time.time() if now is None else now) - int(stamp)) <= tolerance_s:  # false for NaN
        raise SignatureRefused("timestamp is too far from the current time; check the clock")
    signed = f"install.{client_id}.{store}.{stamp}.{state}".encode()
    keys = [key_of(each) for each in ([secret] if isinstance(secret, str) else secret)]
    if not keys:
        raise ValueError("pass at least one secret")
    expected = [hmac.digest(key, signed, hashlib.sha256).hex().encode() for key in keys]
    offered = [each.encode() for each in signatures.split(",")]
    matches = [hmac.compare_digest(one, other) for one in expected for other in offered]
    if not any(matches):
        raise SignatureRefused("no signature matches; check the signing secret of the app")
    return CompletedInstall(store, state, int(stamp))


def _query(returned: str | Mapping[str, str]) -> dict[str, str]:
    if not isinstance(returned, str):
        return {name: returned[name] for name in returned}  # a copy of Django's QueryDict would contain lists
    return dict(parse_qsl(returned.partition("?")[2] or returned, keep_blank_values=True))


def installations(
    auth_url: str,
    client_id: str,
    client_secret: str = "",
    *,
    private_key: PrivateKey | None = None,
    updated_since: datetime | None = None,
    transport: httpx.BaseTransport | None = None,
) -> Iterator[Installation]:
    """Every installation of the app, also removed ones, page by page; `auth_url` is the URL of the token endpoint."""
    credentials = Credentials(address("auth_url", auth_url), client_id, client_secret, private_key=private_key)
    policy, cursors = RetryPolicy(), Cursors()
    with httpx.Client(transport=transport, timeout=policy.timeout_s) as http:
        token = TokenCache(lambda deadline: connection.run(request_token(credentials, policy, deadline)))
        root = credentials.auth_url.removesuffix("/token")
        connection = Connection(http, root, policy, token if private_key else _no_token)
        query: dict[str, Any] = {"limit": 250, "updated_since": updated_since}
        while True:
            page = _page(connection, query=query, auth=None if private_key else credentials.basic)
            yield from page.data
            cursor = cursors.follow(page.meta.next_cursor)
            if not cursor:
                return
            query = {"limit": 250, "cursor": cursor}


def _page(connection: Connection, **given: Any) -> "_Page":
    try:
        return connection.call("GET", "/installations", partial(decoded, kind=_Page), **given)
    except ApiError as error:
        if "error" not in error.more:
            raise
        description = error.more.get("error_description", "")
        raise TokenRefused(
            error.status, str(error.more["error"]), str(description)
        ) from error  # the endpoint speaks OAuth


def _no_token(_stale: str | None, _deadline: float) -> str:
    """The token source of a connection that sends a secret instead."""
    return ""


class _Meta(msgspec.Struct):
    next_cursor: str | None


class _Page(msgspec.Struct):
    data: list[Installation]
    meta: _Meta
