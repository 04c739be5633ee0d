"""The OAuth endpoints: issue (RFC 6749), revoke (RFC 7009) and introspect (RFC 7662) access tokens."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stoa.access.addresses import (
    NO_STORE,
    ServiceUrls,
    StoreAddress,
    named_by_host,
    named_by_mcp_resource,
    named_by_path,
    named_by_resource,
)
from stoa.access.authentication import NOBODY, Audiences, authenticate, read_credentials
from stoa.access.contract import (
    InvalidRequest,
    InvalidScope,
    InvalidTarget,
    OAuthError,
    TemporarilyUnavailable,
    UnauthorizedClient,
    UnsupportedGrantType,
)
from stoa.access.credentials import is_access_token, keyed_hash, keyed_hashes, new_access_token, same
from stoa.access.discovery import METADATA_PATH, Discovery
from stoa.access.queries import (
    INTROSPECT,
    REVOKE_OWN_TOKEN,
    STORE_GRANT,
    STORE_TOKEN,
    TOKEN_OWNER,
    Client,
    StoreGrant,
)
from stoa.access.rules import expanded, listed, ordered
from stoa.db.errors import Unavailable, cause
from stoa.db.pool import Database
from stoa.db.shards import Shards
from stoa.ids import new_id
from stoa.rest.body import read_body
from stoa.rest.dispatch import PREFIX
from stoa.rest.problems import Refusal
from stoa.rest.request import Access, Headers
from stoa.settings import Settings, secret_key

TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path
_MOST_BYTES = 16 * 1024
_MOST_FIELDS = 50
_FORM = "application/x-www-form-urlencoded"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
SAFE = {
    "Cache-Control": "no-store",
    "Pragma": "no-cache",
    "Content-Security-Policy": "default-src 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_SAFE: Headers = [(name.lower().encode(), value.encode()) for name, value in SAFE.items()]
T = TypeVar("T")

Handler = Callable[["TokenEndpoints", Request, Mapping[str, str], str], Awaitable[dict[str, Any] | None]]


def routes(database: Database, access: Access, settings: Settings, shards: Shards | None = None) -> list[Route]:
    """The routes of the token endpoints; under `/stores/{handle}` and on a store's host they imply that store."""
    endpoints = TokenEndpoints(database, settings, shards)
    discovery = Discovery(access, settings)
    resource = "/.well-known/oauth-protected-resource"
    return [
        Route(TOKEN_PATH, endpoints.responding(TokenEndpoints.issue), methods=["POST"]),
        Route("/oauth/revoke", endpoints.responding(TokenEndpoints.revoke), methods=["POST"]),
        Route("/oauth/introspect", endpoints.responding(TokenEndpoints.introspect), methods=["POST"]),
        Route(METADATA_PATH, discovery.authorization_server),
        Route(resource, discovery.protected_resource),
        Route(f"{resource}{PREFIX}", discovery.protected_resource),
        Route(f"{resource}/stores/{{handle}}{PREFIX}", discovery.protected_resource),
    ]


class _Json(Response):
    """A response of JSON, without the conversions of the framework, which are a tenth of the work for a token."""

    def __init__(self, request_id: str, body: bytes) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.status_code, self.body, self.background = 200, body, None
        self.raw_headers = [
            *_SAFE,
            (b"x-request-id", request_id.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"content-type", b"application/json"),
        ]


class TokenEndpoints:
    """Issues, revokes and introspects tokens for authenticated apps."""

    def __init__(self, database: Database, settings: Settings, shards: Shards | None = None) -> None:
        self._db = database
        self._shards = shards
        self._settings = settings
        self._key = secret_key(settings)

    def responding(self, handle: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Wrap a handler: it gets a form and returns JSON, and its refusals become the errors of RFC 6749."""

        async def respond(request: Request) -> Response:
            request_id = request_id_of(request)
            headers = {**SAFE, "X-Request-Id": request_id}
            try:
                body = await handle(self, request, await _read_form(request), request_id)
            except Unavailable as error:
                structlog.get_logger().error("the database is unavailable", request_id=request_id, **cause(error))
                return oauth_refused(TemporarilyUnavailable(), headers)
            except OAuthError as error:
                return oauth_refused(error, headers)
            return Response(headers=headers) if body is None else _Json(request_id, msgspec.json.encode(body))

        return respond

    async def issue(self, request: Request, form: Mapping[str, str], request_id: str) -> dict[str, Any]:
        """Issue an access token to the authenticated app."""
        if "grant_type" not in form:
            raise InvalidRequest("grant_type is missing; send grant_type=client_credentials.")
        if form["grant_type"] != "client_credentials":
            raise UnsupportedGrantType("Send grant_type=client_credentials.")
        url_store, resource_store = self._stores(request, form)
        token, lifetime = new_access_token(), self._settings.token_seconds
        digest = keyed_hash(self._key, token)
        limited = "scope" in form or "resource" in form or "handle" in request.path_params
        app_id, client = await authenticate(
            self._db,
            self._key,
            read_credentials(_field(request, b"authorization", None), form),
            peer=peer_of(request),
            request_id=request_id,
            audiences=self._audiences(request, form),
            url_store=url_store,
            resource_store=resource_store,
            token_hash=None if limited else digest,
            token_seconds=lifetime,
        )
        if client.app_status != "active":
            raise UnauthorizedClient("The app is suspended.")
        store_id, resource = self._target(request, form, client)
        granted = await self._granted(client, app_id, store_id)
        requested = _requested(form, granted)
        if client.token_expires_at is None:
            await STORE_TOKEN.one(self._db, digest, app_id, store_id, requested, lifetime)
        response: dict[str, Any] = {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": lifetime,
            "scope": " ".join(listed(requested, granted)),
        }
        return {**response, "resource": resource} if store_id else response

    def _stores(self, request: Request, form: Mapping[str, str]) -> tuple[StoreAddress, StoreAddress]:
        """The store that the request's URL names, and the one that its `resource` names."""
        domain, host = self._settings.store_domain, _field(request, b"host", "")
        handle: str | None = request.path_params.get("handle")
        url_store = named_by_host(host, domain) if handle is None else named_by_path(handle)
        services = [service for service in (self._settings.public_url, host) if service]
        if "resource" not in form:
            return url_store, NO_STORE
        for_agents = named_by_mcp_resource(form["resource"], self._settings.mcp_url)
        return url_store, for_agents or named_by_resource(form["resource"], domain, services)

    def _target(self, request: Request, form: Mapping[str, str], client: Client) -> tuple[int | None, str]:
        """The store that the token is limited to, with its resource; (None, "") if it is valid on every store."""
        handle: str | None = request.path_params.get("handle")
        if "resource" in form and client.resource_store_id is None:
            raise InvalidTarget(f"resource must be the base URL of a store followed by {PREFIX}.")
        if handle is not None and client.url_store_id is None:
            raise InvalidTarget("This URL names no store.")
        if client.resource_store_id is not None and client.url_store_id not in (None, client.resource_store_id):
            raise InvalidTarget("resource names a different store than this URL.")
        store_id = client.resource_store_id if client.resource_store_id is not None else client.url_store_id
        if store_id is None:
            return None, ""
        return store_id, form.get("resource") or self._urls(request).resource(handle)

    async def _granted(self, client: Client, app_id: int, store_id: int | None) -> list[str]:
        """The scopes that the token may have: those that the store granted, or without a store all that the app requests."""
        if store_id is None:
            return client.scopes or []
        # Only an authenticated app gets here, so failed attempts cost the same, whether the client is known or not.
        grant = await self._grant(store_id, app_id)
        if grant is None:
            raise UnauthorizedClient("The app is not installed on this store.")
        if client.store_status != "active":
            raise UnauthorizedClient("The store is suspended.")
        return grant.scopes

    async def _grant(self, store_id: int, app_id: int) -> StoreGrant | None:
        """What a store grants to the app, which the shard of the store knows."""
        db = self._db if self._shards is None else await self._shards.of_store(store_id)
        return await STORE_GRANT.maybe(db, store_id, app_id)

    async def revoke(self, request: Request, form: Mapping[str, str], request_id: str) -> None:
        """Revoke one of the app's own tokens; any other token is ignored without an error (RFC 7009)."""
        app_id, digests = await self._own_token(request, form, request_id)
        if digests is not None:
            await REVOKE_OWN_TOKEN.run(self._db, digests, app_id)

    async def introspect(self, request: Request, form: Mapping[str, str], request_id: str) -> dict[str, Any]:
        """Describe one of the app's own tokens; any other is reported as not active (RFC 7662).

        A token may also describe itself: a server that receives it, such as `stoa mcp`, has no credentials of its own.
        """
        if _describes_itself(request, form):
            digests = keyed_hashes(self._key, form["token"])
            owner = await TOKEN_OWNER.maybe(self._db, digests)
            app_id = owner.app_id if owner else 0
        else:
            app_id, digests = await self._own_token(request, form, request_id)
        token = None if digests is None else await INTROSPECT.maybe(self._db, digests, app_id)
        if token is None:
            return {"active": False}
        granted = token.app_scopes
        if token.store_id is not None:
            grant = await self._grant(token.store_id, app_id)
            if grant is None or not grant.covers(token.created_at):
                return {"active": False}
            granted = grant.scopes
        response: dict[str, Any] = {
            "active": True,
            "token_type": "Bearer",
            "client_id": token.client_id,
            "sub": token.client_id,
            "scope": " ".join(listed(token.requested, granted)),
            "iat": int(token.created_at.timestamp()),
            "exp": int(token.expires_at.timestamp()),
            "iss": self._urls(request).service,
        }
        return response if token.store is None else {**response, "aud": self._urls(request).resource(token.store)}

    def _urls(self, request: Request) -> ServiceUrls:
        return ServiceUrls(request.url.scheme, _field(request, b"host", ""), self._settings.public_url)

    def _audiences(self, request: Request, form: Mapping[str, str]) -> Audiences:
        if "client_assertion" not in form:  # only an assertion names one
            return NOBODY
        urls = self._urls(request)
        store = urls.resource(request.path_params.get("handle")).removesuffix(PREFIX)
        return Audiences((urls.service, f"{urls.service}/oauth/token"), f"{store}/oauth/token")

    async def _own_token(
        self, request: Request, form: Mapping[str, str], request_id: str
    ) -> tuple[int, list[bytes] | None]:
        if "token" not in form:
            raise InvalidRequest("token is missing.")
        given = read_credentials(_field(request, b"authorization", None), form)
        app_id, _ = await authenticate(
            self._db,
            self._key,
            given,
            peer=peer_of(request),
            request_id=request_id,
            audiences=self._audiences(request, form),
        )
        token = form["token"]
        return app_id, keyed_hashes(self._key, token) if is_access_token(token) else None


def _describes_itself(request: Request, form: Mapping[str, str]) -> bool:
    kind, _, given = _field(request, b"authorization", "").partition(" ")
    token = form.get("token", "")
    return kind.lower() == "bearer" and is_access_token(token) and same(given.strip().encode(), token.encode())


async def _read_form(request: Request) -> dict[str, str]:
    """The request's parameters, each at most once; an empty one counts as absent (RFC 6749, 3.2)."""
    if _field(request, b"content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise InvalidRequest(f"Send the parameters as {_FORM}.")
    if request.scope["query_string"]:
        raise InvalidRequest("Send the parameters in the body, not in the URL: URLs end up in logs.")
    try:
        raw = await read_body(request.receive, dict(request.scope["headers"]), most=_MOST_BYTES)
        pairs = _pairs(raw.decode())
    except Refusal as refusal:
        raise InvalidRequest(refusal.detail, status=refusal.status) from refusal
    except ValueError as error:
        raise InvalidRequest(f"The body is not well-formed {_FORM}.") from error
    form = {name: value for name, value in pairs if value}
    names = [name for name, _ in pairs]
    repeated = next((name for name in form if names.count(name) > 1), None)
    if repeated == "resource":  # RFC 8707 allows several; our tokens have one, or are valid on every store
        raise InvalidTarget("Send resource at most once; without it, the token is valid on every store.")
    if repeated is not None:
        raise InvalidRequest("Send each parameter at most once.")
    return form


def _pairs(text: str) -> list[tuple[str, str]]:
    if not text:
        return []
    if "%" in text or "+" in text:
        return parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    # Nothing is encoded: most tokens are requested like this, and parse_qsl takes eight times as long.
    halves = [pair.partition("=") for pair in text.split("&", _MOST_FIELDS)]
    if len(halves) > _MOST_FIELDS or not all(equals for _, equals, _ in halves):
        raise ValueError("too many parameters, or one without a value")
    return [(name, value) for name, _, value in halves]


def _requested(form: Mapping[str, str], granted: list[str]) -> list[str] | None:
    """The scopes that the token is limited to; None gives it every granted scope, including later grants."""
    if "scope" not in form:
        return None
    requested = form["scope"].split(" ")
    if not expanded(granted).issuperset(requested):
        raise InvalidScope(f"scope may contain: {' '.join(ordered(granted))}.")
    return ordered(requested)


def request_id_of(request: Request) -> str:
    """The id that the caller gave its request, or a new one."""
    given = _field(request, b"x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else new_id("req")


def peer_of(request: Request) -> str:
    client: tuple[str, int] | None = request.scope.get("client")
    return client[0] if client else ""


def _field(request: Request, wanted: bytes, absent: T) -> str | T:
    """A header field. The mapping of the framework takes many times as long."""
    for name, value in request.scope["headers"]:
        if name == wanted:
            return value.decode("latin-1")
    return absent


def oauth_refused(error: OAuthError, headers: Mapping[str, str]) -> Response:
    """The response to a refused request, as in RFC 6749."""
    extra: dict[str, str] = {}
    if error.http_status == 401:
        extra["WWW-Authenticate"] = 'Basic realm="stoa", charset="UTF-8"'
    if error.retry_in_s:
        extra["Retry-After"] = str(error.retry_in_s)
    return Response(error.body(), error.http_status, {**headers, **extra}, media_type="application/json")
