"""`stoa mcp --http --oauth`: admits callers with their own token of the store that the path names, as OAuth describes it."""

import re
from typing import Any, cast

import httpx
import msgspec
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stoa.access.addresses import base_url, is_handle
from stoa.access.credentials import is_access_token
from stoa.mcp.store import Caller

_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_PATH = re.compile(rf"(?P<metadata>{_WELL_KNOWN})?/stores/(?P<handle>[^/]+)/mcp")
_TIMEOUT_S = 10.0
_MOST_BYTES = 4 * 1024 * 1024  # of a message; an import of 1,000 items fits
_CALLER = "stoa.caller"  # in the scope of a request


class _Introspected(msgspec.Struct):
    active: bool
    scope: str = ""
    aud: str = ""


def caller_of(context: Any) -> Caller:
    """The caller of the request that a handler serves."""
    return cast("Caller", context.request.scope[_CALLER])


async def issuer_of(http: httpx.AsyncClient, service: str) -> str:
    """The issuer of the service's tokens, as its metadata name it."""
    answer = await http.get(f"{service}/.well-known/oauth-authorization-server", timeout=_TIMEOUT_S)
    answer.raise_for_status()
    return str(answer.json()["issuer"])


class Callers:
    """Serves the metadata of each store's resource, and passes on requests with a valid token of that store.

    The token is limited to the store, so that it is useless elsewhere; the API checks it again at each call.
    """

    def __init__(
        self, app: ASGIApp, http: httpx.AsyncClient, *, service: str, issuer: str, url: str, path: str
    ) -> None:
        self._app = app
        self._http = http
        self._service = service
        self._issuer = issuer
        self._url = url.rstrip("/")
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found = _PATH.fullmatch(scope["path"])
        if found is None or not is_handle(found["handle"]):
            await Response("There is no MCP server here; its path is /stores/{handle}/mcp.", 404)(scope, receive, send)
        elif found["metadata"]:
            await JSONResponse(self._metadata(found["handle"]))(scope, receive, send)
        else:
            await self._serve(found["handle"], scope, receive, send)

    async def _serve(self, handle: str, scope: Scope, receive: Receive, send: Send) -> None:
        token = _bearer(scope)
        try:
            scopes = await self._scopes(handle, token) if is_access_token(token) else None
        except (httpx.HTTPError, msgspec.MsgspecError):
            busy = Response("The service does not answer. Retry in a second.", 503, {"Retry-After": "1"})
            await busy(scope, receive, send)
            return
        if scopes is None:
            await self._refuse(handle, scope, receive, send, wrong=bool(token))
            return
        body = await _body(receive)
        if body is None:
            await Response(f"A message may have at most {_MOST_BYTES:,} bytes.", 413)(scope, receive, send)
            return
        caller = Caller(self._http, base_url(self._service, handle), token, scopes)
        inner = {**scope, "path": self._path, "raw_path": self._path.encode(), _CALLER: caller}
        await self._app(inner, _replayed(body, receive), send)

    async def _scopes(self, handle: str, token: str) -> frozenset[str] | None:
        """The scopes of the token on this store; None if it is not valid there."""
        answer = await self._http.post(
            f"{self._service}/oauth/introspect",
            data={"token": token},
            headers={"authorization": f"Bearer {token}"},
            timeout=_TIMEOUT_S,
        )
        if answer.status_code in (400, 401):
            return None
        answer.raise_for_status()
        described = msgspec.json.decode(answer.content, type=_Introspected)
        suits = described.active and described.aud.endswith(f"/stores/{handle}/api/v3/app")
        return frozenset(described.scope.split()) if suits else None

    async def _refuse(self, handle: str, scope: Scope, receive: Receive, send: Send, *, wrong: bool) -> None:
        challenge = f'Bearer resource_metadata="{self._url}{_WELL_KNOWN}/stores/{handle}/mcp"'
        error, detail = "", f"Get a token with resource={self._resource(handle)} from {self._issuer}/oauth/token."
        if wrong:
            error = ', error="invalid_token", error_description="The token is not valid for this store."'
        refused = JSONResponse(
            {"error": "invalid_token", "error_description": detail}, 401, {"WWW-Authenticate": challenge + error}
        )
        await refused(scope, receive, send)

    def _resource(self, handle: str) -> str:
        return f"{self._url}/stores/{handle}/mcp"

    def _metadata(self, handle: str) -> dict[str, Any]:
        """RFC 9728, without scopes: a client would request all of them, and which are granted depends on the store."""
        return {
            "resource": self._resource(handle),
            "resource_name": "Stoa MCP server",
            "authorization_servers": [self._issuer],
            "bearer_methods_supported": ["header"],
        }


async def _body(receive: Receive) -> bytes | None:
    """The whole body of an admitted request; None if it is too large, or the caller has left."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > _MOST_BYTES:
            return None
        more = message.get("more_body", False)
    return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, and then whatever follows."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return pending.pop() if pending else await receive()

    return next_message


def _bearer(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"authorization"), b"").decode("latin-1")
    return given[7:].strip() if given[:7].lower() == "bearer " else ""
