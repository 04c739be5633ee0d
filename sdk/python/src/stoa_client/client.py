"""The clients: credentials, store and retry options."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Self, TypedDict, Unpack, cast

import httpx
import msgspec

from stoa_client.answers import read_any
from stoa_client.async_resources import AsyncResources
from stoa_client.connection import AsyncConnection, Connection
from stoa_client.flows import RetryPolicy
from stoa_client.hooks import Hooks, RequestInfo, ResponseInfo
from stoa_client.private_keys import PrivateKey
from stoa_client.requests import PREFIX, address, path_of
from stoa_client.resources import Resources
from stoa_client.tokens import AsyncTokenCache, Credentials, TokenCache, request_token


class Options(TypedDict, total=False):
    """Credentials and retry options: `client_id` with `client_secret` or `private_key`, or a `token`."""

    client_id: str
    client_secret: str
    private_key: PrivateKey | str
    """A private key, as PEM or as a JWK in JSON, whose public key the app has registered; needs `stoa-client[keys]`."""
    auth_url: str
    """The service's token endpoint, whose tokens are valid on every store; by default the store's own endpoint."""
    token: str | Callable[[str | None], Any]
    """An existing token, or a function that returns one; it receives the token that was refused, if any."""
    scopes: Sequence[str]
    """The scopes of the token; by default all that are granted."""
    retries: int
    """How often a request is retried after a transient error; 4 by default."""
    deadline_s: float
    """How long a call may take with all its attempts and waits; 60 seconds by default.

    Time that a call asks the service to wait, and the time of an upload, are added to it and to `timeout_s`.
    """
    timeout_s: float
    """How long one attempt may take until its response is complete; 30 seconds by default."""
    on_request: Callable[[RequestInfo], Any]
    """Called before each attempt, for logs and metrics. It must not block, and an error that it raises is only logged."""
    on_response: Callable[[ResponseInfo], Any]
    """Called after each attempt, with its status and duration."""


class _Account(msgspec.Struct, frozen=True):
    """The validated options for one store."""

    base_url: str
    credentials: Credentials | None
    policy: RetryPolicy
    hooks: Hooks
    options: Options

    @property
    def root(self) -> str:
        return self.base_url + PREFIX

    def __repr__(self) -> str:  # the options contain secrets
        return f"_Account({self.base_url!r})"

    def for_other_store(self, token: Any) -> Options:
        """The options for another store, where a token of the service's token endpoint is valid too."""
        if self.credentials is None or not self.options.get("auth_url"):
            return self.options
        kept: Options = {**self.options, "token": token}
        for name in ("client_id", "client_secret", "private_key", "auth_url", "scopes"):
            kept.pop(name, None)
        return kept


_LONGEST_S = 1e6  # 11 days: timers and sockets accept no infinite time


def _policy(options: Options) -> RetryPolicy:
    default = RetryPolicy()
    policy = RetryPolicy(
        retries=options.get("retries", default.retries),
        deadline_s=min(options.get("deadline_s", default.deadline_s), _LONGEST_S),
        timeout_s=min(options.get("timeout_s", default.timeout_s), _LONGEST_S),
    )
    if policy.retries < 0 or not policy.deadline_s > 0 or not policy.timeout_s > 0:  # false for NaN
        raise ValueError("retries must be at least 0, and deadline_s and timeout_s more than 0")
    return policy


def _refuse_unknown(options: Options) -> None:
    """Refuse a misspelled option, which only a type checker would find otherwise."""
    for name in options:
        if name not in Options.__annotations__:
            similar = get_close_matches(name, Options.__annotations__, 1)
            hint = f"; did you mean {similar[0]!r}?" if similar else ""
            raise TypeError(f"unknown option {name!r}{hint}")


def _account(base_url: str, options: Options) -> _Account:
    _refuse_unknown(options)
    base = address("base_url", base_url).removesuffix(PREFIX)
    auth_url = address("auth_url", options.get("auth_url") or f"{base}/oauth/token")
    client_id, client_secret = options.get("client_id", ""), options.get("client_secret", "")
    private_key = options.get("private_key")
    complete = bool(client_id and (client_secret or private_key))
    if bool(options.get("token")) == complete or (client_secret and private_key):
        raise ValueError("pass either client_id and client_secret, client_id and private_key, or a token")
    policy = _policy(options)
    key = PrivateKey(private_key) if isinstance(private_key, str) and private_key else private_key or None
    credentials = Credentials(auth_url, client_id, client_secret, tuple(options.get("scopes", ())), key)
    hooks = Hooks(options.get("on_request"), options.get("on_response"))
    return _Account(base, None if options.get("token") else credentials, policy, hooks, options)


def _from_environment(variables: Mapping[str, str], options: Options) -> tuple[str, Options]:
    key = variables.get("STOA_PRIVATE_KEY", "")
    needed = ["STOA_BASE_URL", "STOA_CLIENT_ID", *([] if key else ["STOA_CLIENT_SECRET"])]
    missing = [name for name in needed if not variables.get(name)]
    if missing:
        raise ValueError(f"set the environment variables {', '.join(missing)}")
    found: Options = {"client_id": variables["STOA_CLIENT_ID"], "auth_url": variables.get("STOA_AUTH_URL", "")}
    if key:
        found["private_key"] = key
    else:
        found["client_secret"] = variables["STOA_CLIENT_SECRET"]
    found.update(options)
    return variables["STOA_BASE_URL"], found


class Client(Resources):
    """A client for one store. It is thread-safe; close it, or use it as a context manager.

    Pass your own `http` client to use proxies, certificates or transports; you then close it yourself.
    """

    def __init__(self, base_url: str, *, http: httpx.Client | None = None, **options: Unpack[Options]) -> None:
        self._account = _account(base_url, options)
        self._owns_http = http is None
        self._http = http or httpx.Client(timeout=self._account.policy.timeout_s)
        self._token = self._token_source()
        account = self._account
        self._connection = Connection(self._http, account.root, account.policy, self._token, account.hooks)
        super().__init__(self._connection)

    @classmethod
    def from_environment(cls, **options: Unpack[Options]) -> Self:
        """A client from STOA_BASE_URL, STOA_CLIENT_ID, STOA_CLIENT_SECRET or STOA_PRIVATE_KEY and, if set, STOA_AUTH_URL."""
        base_url, found = _from_environment(os.environ, options)
        return cls(base_url, **found)

    def at(self, base_url: str) -> "Client":
        """A client of the same app for another store, on the same connections and with the same token if it is valid there."""
        return Client(base_url, http=self._http, **self._account.for_other_store(self._token))

    def _token_source(self) -> Callable[[str | None, float], str]:
        token, credentials, policy = (
            self._account.options.get("token"),
            self._account.credentials,
            self._account.policy,
        )
        if credentials is None:
            return token if isinstance(token, TokenCache) else _given(token)
        return TokenCache(lambda deadline: self._connection.run(request_token(credentials, policy, deadline)))

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Send any request under `/api/v3/app`, with token, idempotency key and retries; returns the decoded JSON."""
        return self._connection.call(
            method, path_of(path), read_any, query=query, body=body, idempotency_key=idempotency_key
        )

    def close(self) -> None:
        if self._owns_http:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._account.base_url!r})"


class AsyncClient(AsyncResources):
    """The client for an event loop: await calls, and read lists with `async for`."""

    def __init__(self, base_url: str, *, http: httpx.AsyncClient | None = None, **options: Unpack[Options]) -> None:
        self._account = _account(base_url, options)
        self._owns_http = http is None
        self._http = http or httpx.AsyncClient(timeout=self._account.policy.timeout_s)
        self._token = self._token_source()
        account = self._account
        self._connection = AsyncConnection(self._http, account.root, account.policy, self._token, account.hooks)
        super().__init__(self._connection)

    @classmethod
    def from_environment(cls, **options: Unpack[Options]) -> Self:
        base_url, found = _from_environment(os.environ, options)
        return cls(base_url, **found)

    def at(self, base_url: str) -> "AsyncClient":
        return AsyncClient(base_url, http=self._http, **self._account.for_other_store(self._token))

    def _token_source(self) -> Callable[[str | None, float], Awaitable[str]]:
        token, credentials, policy = (
            self._account.options.get("token"),
            self._account.credentials,
            self._account.policy,
        )
        if credentials is None:
            return token if isinstance(token, AsyncTokenCache) else _given_async(token)
        return AsyncTokenCache(lambda deadline: self._connection.run(request_token(credentials, policy, deadline)))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        idempotency_key: str | None = None,
    ) -> Any:
        return await self._connection.call(
            method, path_of(path), read_any, query=query, body=body, idempotency_key=idempotency_key
        )

    async def aclose(self) -> None:
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._account.base_url!r})"


def _given(token: Any) -> Callable[[str | None, float], str]:
    """A token, or the caller's function that returns one, as a token source."""
    return lambda stale, _deadline: cast("str", token(stale)) if callable(token) else token


def _given_async(token: Any) -> Callable[[str | None, float], Awaitable[str]]:
    async def given(stale: str | None, _deadline: float) -> str:
        return await cast("Awaitable[str]", token(stale)) if callable(token) else token

    return given
