"""An app's access to a store over HTTP, with its credentials or with its token; the only module of this package that imports the Python SDK."""

from types import TracebackType
from typing import Any, Protocol, Self

import httpx
import msgspec

from stoa_client.connection import AsyncConnection
from stoa_client.errors import ApiError, ConnectionFailed, DeadlineExceeded, StoaError, TokenRefused, UnexpectedAnswer
from stoa_client.flows import RetryPolicy
from stoa_client.requests import PREFIX
from stoa_client.tokens import AsyncTokenCache, Credentials, Token, request_token

# A person waits for the agent: give up sooner than a background job would.
POLICY = RetryPolicy(retries=2, deadline_s=20.0, timeout_s=15.0)


class Failure(Exception):
    """Why a call failed, as a document for the agent."""

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__(document.get("detail", ""))
        self.document = document


class Access(Protocol):
    """What an agent calls the API with: the scopes, and a request."""

    async def scopes(self) -> frozenset[str]: ...

    async def call(self, method: str, path: str, **given: Any) -> Any: ...


class Store:
    """Calls the API of one store, with retries, rate limit and idempotency keys of the SDK."""

    def __init__(self, base_url: str, client_id: str, client_secret: str, scopes: tuple[str, ...] = ()) -> None:
        base = base_url.strip().rstrip("/").removesuffix(PREFIX)
        # A token of the store's own endpoint names the scopes that this store grants.
        self._credentials = Credentials(f"{base}/oauth/token", client_id, client_secret, scopes)
        self._http = httpx.AsyncClient(timeout=POLICY.timeout_s)
        self._tokens = AsyncTokenCache(self._request_token)
        self._connection = AsyncConnection(self._http, base + PREFIX, POLICY, self._tokens)
        self._scopes: frozenset[str] = frozenset()

    async def _request_token(self, deadline: float) -> Token:
        token = await self._connection.run(request_token(self._credentials, POLICY, deadline))
        self._scopes = frozenset(token.scopes)
        return token

    async def scopes(self) -> frozenset[str]:
        """The scopes of the current token."""
        try:
            await self._tokens(None)
        except StoaError as error:
            raise Failure(_document(error)) from error
        return self._scopes

    async def call(self, method: str, path: str, **given: Any) -> Any:
        """Send a request; returns the decoded response, or None if it has no body."""
        return await _call(self._connection, method, path, **given)

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Caller:
    """Calls the API of one store with the token of a caller, for as long as its request takes."""

    def __init__(self, http: httpx.AsyncClient, base_url: str, token: str, scopes: frozenset[str]) -> None:
        async def given(_stale: str | None, _deadline: float) -> str:
            return token

        self._connection = AsyncConnection(http, base_url + PREFIX, POLICY, given)
        self._scopes = scopes

    async def scopes(self) -> frozenset[str]:
        return self._scopes

    async def call(self, method: str, path: str, **given: Any) -> Any:
        return await _call(self._connection, method, path, **given)


async def _call(connection: AsyncConnection, method: str, path: str, **given: Any) -> Any:
    try:
        return await connection.call(method, path, _content, **given)
    except StoaError as error:
        raise Failure(_document(error)) from error


def _content(response: httpx.Response) -> Any:
    try:
        return msgspec.json.decode(response.content) if response.content else None
    except msgspec.DecodeError as error:
        text = "the response is not JSON; a proxy may have sent it"
        raise UnexpectedAnswer(text, response.status_code, response.content) from error


def _document(error: StoaError) -> dict[str, Any]:
    # With the key, the agent can repeat a write whose outcome it does not know.
    key = {} if error.idempotency_key is None else {"idempotency_key": error.idempotency_key}
    return {**_members(error), **key}


def _members(error: StoaError) -> dict[str, Any]:
    match error:
        case ApiError():
            named = {"code": error.code, "status": error.status, "detail": error.detail, "request_id": error.request_id}
            faults = {"errors": msgspec.to_builtins(error.errors)} if error.errors else {}
            wait = {} if error.retry_after_s is None else {"retry_after_s": error.retry_after_s}
            return {**named, "retryable": error.retryable, **faults, **wait, **error.more}
        case TokenRefused():
            return {"code": error.error, "status": error.status, "detail": error.description or str(error)}
        case ConnectionFailed():
            return {"code": "connection_failed", "detail": str(error), "retryable": True}
        case DeadlineExceeded():
            wait = {} if error.retry_after_s is None else {"retry_after_s": round(error.retry_after_s, 1)}
            return {"code": "deadline_exceeded", "detail": str(error), "retryable": True, **wait}
        case _:
            return {"code": "unexpected_answer", "detail": str(error)}
