"""The clients: who calls, which store, and how patiently."""

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypedDict, Unpack

import httpx
import msgspec

from stoa.client.async_resources import AsyncResources
from stoa.client.calling import Patience
from stoa.client.connection import AsyncConnection, Connection
from stoa.client.requests import PREFIX
from stoa.client.resources import Resources
from stoa.client.tokens import AsyncKeeper, Credentials, Keeper, asking

_ADDRESS = re.compile(r"https?://[^/\s]", re.IGNORECASE)


class Options(TypedDict, total=False):
    """Who calls and how patiently; `client_id` and `client_secret`, or a `token`."""

    client_id: str
    client_secret: str
    auth_url: str
    """The service's token endpoint, whose tokens serve every store; without it the store's own is asked."""
    token: str | Callable[[str | None], Any]
    """A token that you have already, or a function that gives one; it is told the token that was refused, if any."""
    scopes: Sequence[str]
    """What the token is to allow; everything that is granted unless given."""
    retries: int
    """How often a request is tried again after a fault on the way; 4 unless given."""
    longest_pause_s: float
    """How long to wait at most when the service says when to come back; 60 unless given."""


class _Account(msgspec.Struct, frozen=True):
    """The options, put in order for one store."""

    base_url: str
    credentials: Credentials | None
    patience: Patience
    given: Options

    @property
    def root(self) -> str:
        return self.base_url + PREFIX

    def __repr__(self) -> str:  # what was given holds secrets
        return f"_Account({self.base_url!r})"

    def elsewhere(self, token: Callable[[str | None], Any]) -> Options:
        """The options for another store; a token of the service's own endpoint serves there too."""
        if self.credentials is None or not self.given.get("auth_url"):
            return self.given
        patience = self.patience
        return {"token": token, "retries": patience.retries, "longest_pause_s": patience.longest_pause_s}


def _account(base_url: str, given: Options) -> _Account:
    base = base_url.strip().rstrip("/").removesuffix(PREFIX)
    for name, address in (("base_url", base), ("auth_url", given.get("auth_url") or base)):
        if not _ADDRESS.match(address):
            raise ValueError(f"{name} must begin with https:// or http://, as in https://shop.example.com: {address!r}")
    client_id, client_secret = given.get("client_id", ""), given.get("client_secret", "")
    if bool(given.get("token")) == bool(client_id and client_secret):
        raise ValueError("give client_id and client_secret, or a token")
    usual = Patience()
    patience = Patience(given.get("retries", usual.retries), given.get("longest_pause_s", usual.longest_pause_s))
    auth_url = given.get("auth_url") or f"{base}/oauth/token"
    credentials = Credentials(auth_url, client_id, client_secret, tuple(given.get("scopes", ())))
    return _Account(base, None if given.get("token") else credentials, patience, given)


def _from_environment(variables: Mapping[str, str], given: Options) -> tuple[str, Options]:
    needed = ("STOA_BASE_URL", "STOA_CLIENT_ID", "STOA_CLIENT_SECRET")
    missing = [name for name in needed if not variables.get(name)]
    if missing:
        raise ValueError(f"these variables are not set: {', '.join(missing)}")
    found: Options = {
        "client_id": variables["STOA_CLIENT_ID"],
        "client_secret": variables["STOA_CLIENT_SECRET"],
        "auth_url": variables.get("STOA_AUTH_URL", ""),
    }
    return variables["STOA_BASE_URL"], {**found, **given}


class Client(Resources):
    """A store as your app reaches it. Threads may share one; close it, or use it in a `with`.

    An `http` client of your own brings proxies, certificates and transports; you close it yourself.
    """

    def __init__(
        self, base_url: str, *, timeout_s: float = 30.0, http: httpx.Client | None = None, **options: Unpack[Options]
    ) -> None:
        self._account = _account(base_url, options)
        self._own = http is None
        self._http = http or httpx.Client(timeout=timeout_s)
        self._token = self._keeper()
        self._connection = Connection(self._http, self._account.root, self._account.patience, self._token)
        super().__init__(self._connection)

    @classmethod
    def from_environment(cls, **options: Unpack[Options]) -> Self:
        """A client from STOA_BASE_URL, STOA_CLIENT_ID, STOA_CLIENT_SECRET and, if set, STOA_AUTH_URL."""
        base_url, found = _from_environment(os.environ, options)
        return cls(base_url, **found)

    def at(self, base_url: str) -> "Client":
        """The same app at another store, on the same connections, and with the same token where it serves both."""
        return Client(base_url, http=self._http, **self._account.elsewhere(self._token))

    def _keeper(self) -> Callable[[str | None], str]:
        token, credentials, patience = (
            self._account.given.get("token"),
            self._account.credentials,
            self._account.patience,
        )
        if credentials is None:
            return token if callable(token) else lambda _stale: token or ""
        return Keeper(lambda: self._connection.run(asking(credentials, patience))).token

    def request(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        """Any call below `/api/v3/app`, with the same token, key and patience; answers the JSON that came."""
        response = self._connection.call(method, path, query=query, body=body)
        return msgspec.json.decode(response.content) if response.content else None

    def close(self) -> None:
        if self._own:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._account.base_url!r})"


class AsyncClient(AsyncResources):
    """The same for an event loop: calls are awaited, lists are read with `async for`."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float = 30.0,
        http: httpx.AsyncClient | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._account = _account(base_url, options)
        self._own = http is None
        self._http = http or httpx.AsyncClient(timeout=timeout_s)
        self._token = self._keeper()
        self._connection = AsyncConnection(self._http, self._account.root, self._account.patience, self._token)
        super().__init__(self._connection)

    @classmethod
    def from_environment(cls, **options: Unpack[Options]) -> Self:
        base_url, found = _from_environment(os.environ, options)
        return cls(base_url, **found)

    def at(self, base_url: str) -> "AsyncClient":
        return AsyncClient(base_url, http=self._http, **self._account.elsewhere(self._token))

    def _keeper(self) -> Callable[[str | None], Awaitable[str]]:
        token, credentials, patience = (
            self._account.given.get("token"),
            self._account.credentials,
            self._account.patience,
        )
        if credentials is None:
            return token if callable(token) else _fixed(token or "")
        return AsyncKeeper(lambda: self._connection.run(asking(credentials, patience))).token

    async def request(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None) -> Any:
        response = await self._connection.call(method, path, query=query, body=body)
        return msgspec.json.decode(response.content) if response.content else None

    async def aclose(self) -> None:
        if self._own:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._account.base_url!r})"


def _fixed(token: str) -> Callable[[str | None], Awaitable[str]]:
    async def keep(_stale: str | None) -> str:
        return token

    return keep
