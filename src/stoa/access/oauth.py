"""Where apps get a token, give it back and ask about it (RFC 6749, 7009 and 7662)."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stoa.access.addresses import NOWHERE, Front, Place, named_by_host, named_by_path, named_by_resource
from stoa.access.authentication import authenticate, read_credentials
from stoa.access.contract import (
    InvalidRequest,
    InvalidScope,
    InvalidTarget,
    OAuthError,
    TemporarilyUnavailable,
    UnauthorizedClient,
    UnsupportedGrantType,
)
from stoa.access.credentials import is_access_token, keyed_hash, new_access_token
from stoa.access.discovery import Signpost
from stoa.access.queries import INTROSPECT, KEEP_TOKEN, REVOKE_OWN_TOKEN, Client
from stoa.access.rules import as_listed, expanded, ordered
from stoa.db.errors import Unavailable
from stoa.db.pool import Database
from stoa.ids import new_id
from stoa.rest.body import read_body
from stoa.rest.dispatch import PREFIX
from stoa.rest.endpoint import Access
from stoa.rest.problems import Refusal
from stoa.rest.request import ClientGone
from stoa.settings import Settings, secret_key

_MOST_BYTES = 16 * 1024
_MOST_FIELDS = 50
_FORM = "application/x-www-form-urlencoded"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_SAFE = {
    "Cache-Control": "no-store",
    "Pragma": "no-cache",
    "Content-Security-Policy": "default-src 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Answer = Callable[["TokenDesk", Request, Mapping[str, str], str], Awaitable[dict[str, Any] | None]]


def routes(database: Database, access: Access, settings: Settings) -> list[Route]:
    """The routes of the service; below `/stores/{handle}` and on a store's host they imply that store."""
    desk = TokenDesk(database, settings)
    signpost = Signpost(access, settings)
    resource = "/.well-known/oauth-protected-resource"
    return [
        Route("/oauth/token", desk.answering(TokenDesk.issue), methods=["POST"]),
        Route("/oauth/revoke", desk.answering(TokenDesk.revoke), methods=["POST"]),
        Route("/oauth/introspect", desk.answering(TokenDesk.introspect), methods=["POST"]),
        Route("/.well-known/oauth-authorization-server", signpost.authorization_server),
        Route(resource, signpost.protected_resource),
        Route(f"{resource}{PREFIX}", signpost.protected_resource),
        Route(f"{resource}/stores/{{handle}}{PREFIX}", signpost.protected_resource),
    ]


class TokenDesk:
    """Issues, takes back and explains tokens, for apps that prove who they are."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._db = database
        self._settings = settings
        self._key = secret_key(settings)

    def answering(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """What all three have in common: a form in, JSON out, and refusals as RFC 6749 writes them."""

        async def respond(request: Request) -> Response:
            given_id = request.headers.get("x-request-id", "")
            request_id = given_id if _REQUEST_ID.fullmatch(given_id) else new_id("req")
            headers = {**_SAFE, "X-Request-Id": request_id}
            try:
                body = await answer(self, request, await _read_form(request), request_id)
            except ClientGone:
                return Response(status_code=400)  # nobody is left to read it
            except Unavailable:
                return _refused(TemporarilyUnavailable(), headers)
            except OAuthError as error:
                return _refused(error, headers)
            return Response(
                b"" if body is None else msgspec.json.encode(body),
                headers=headers,
                media_type=None if body is None else "application/json",
            )

        return respond

    async def issue(self, request: Request, form: Mapping[str, str], request_id: str) -> dict[str, Any]:
        """An access token for the app whose credentials these are."""
        if "grant_type" not in form:
            raise InvalidRequest("grant_type is missing; send grant_type=client_credentials.")
        if form["grant_type"] != "client_credentials":
            raise UnsupportedGrantType("Send grant_type=client_credentials.")
        here, there = self._places(request, form)
        app_id, client = await authenticate(
            self._db,
            self._key,
            read_credentials(request.headers.get("authorization"), form),
            peer=_peer(request),
            request_id=request_id,
            here=here,
            there=there,
        )
        if client.app_status != "active":
            raise UnauthorizedClient("The app is suspended.")
        store_id, resource = self._target(request, form, client)
        granted = (client.granted if store_id else client.scopes) or []
        asked = _asked(form, granted)
        token = new_access_token()
        lifetime = self._settings.token_seconds
        await KEEP_TOKEN.one(self._db, keyed_hash(self._key, token), app_id, store_id, asked, lifetime)
        answer: dict[str, Any] = {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": lifetime,
            "scope": " ".join(as_listed(asked, granted)),
        }
        return {**answer, "resource": resource} if store_id else answer

    def _places(self, request: Request, form: Mapping[str, str]) -> tuple[Place, Place]:
        """The store that the request's own address names, and the one that its `resource` names."""
        domain, host = self._settings.store_domain, request.headers.get("host", "")
        handle: str | None = request.path_params.get("handle")
        here = named_by_host(host, domain) if handle is None else named_by_path(handle)
        services = [service for service in (self._settings.public_url, host) if service]
        there = named_by_resource(form["resource"], domain, services) if "resource" in form else NOWHERE
        return here, there

    def _target(self, request: Request, form: Mapping[str, str], client: Client) -> tuple[int | None, str]:
        """The one store that the token shall serve, with the resource that names it; or none in particular."""
        handle: str | None = request.path_params.get("handle")
        if "resource" in form and client.there is None:
            raise InvalidTarget(f"resource must be one store's base URL followed by {PREFIX}.")
        if handle is not None and client.here is None:
            raise InvalidTarget("There is no store at this address.")
        if client.there is not None and client.here not in (None, client.there):
            raise InvalidTarget("resource names another store than this address.")
        store_id = client.there if client.there is not None else client.here
        if store_id is None:
            return None, ""
        if client.granted is None:
            raise UnauthorizedClient("The app is not installed on this store.")
        if client.store_status != "active":
            raise UnauthorizedClient("The store is suspended.")
        return store_id, form.get("resource") or self._front(request).resource(handle)

    async def revoke(self, request: Request, form: Mapping[str, str], request_id: str) -> None:
        """End one of the app's own tokens; any other is as unknown, which is no error (RFC 7009)."""
        app_id, digest = await self._own_token(request, form, request_id)
        if digest is not None:
            await REVOKE_OWN_TOKEN.run(self._db, digest, app_id)

    async def introspect(self, request: Request, form: Mapping[str, str], request_id: str) -> dict[str, Any]:
        """What a token of the app's own may do now; of every other, only that it is not active (RFC 7662)."""
        app_id, digest = await self._own_token(request, form, request_id)
        token = None if digest is None else await INTROSPECT.maybe(self._db, digest, app_id)
        if token is None:
            return {"active": False}
        answer: dict[str, Any] = {
            "active": True,
            "token_type": "Bearer",
            "client_id": token.client_id,
            "sub": token.client_id,
            "scope": " ".join(as_listed(token.asked, token.granted)),
            "iat": int(token.created_at.timestamp()),
            "exp": int(token.expires_at.timestamp()),
            "iss": self._front(request).service,
        }
        return answer if token.store is None else {**answer, "aud": self._front(request).resource(token.store)}

    def _front(self, request: Request) -> Front:
        return Front(request.url.scheme, request.headers.get("host", ""), self._settings.public_url)

    async def _own_token(self, request: Request, form: Mapping[str, str], request_id: str) -> tuple[int, bytes | None]:
        if "token" not in form:
            raise InvalidRequest("token is missing.")
        given = read_credentials(request.headers.get("authorization"), form)
        app_id, _ = await authenticate(self._db, self._key, given, peer=_peer(request), request_id=request_id)
        token = form["token"]
        return app_id, keyed_hash(self._key, token) if is_access_token(token) else None


async def _read_form(request: Request) -> dict[str, str]:
    """The request's parameters, each at most once; one without a value counts as left out (RFC 6749, 3.2)."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise InvalidRequest(f"Send the parameters as {_FORM}.")
    if request.url.query:
        raise InvalidRequest("Send the parameters in the body: an address ends up in logs.")
    try:
        raw = await read_body(request.receive, dict(request.headers.raw), most=_MOST_BYTES)
        pairs = _pairs(raw.decode())
    except Refusal as refusal:
        raise InvalidRequest(refusal.detail, status=refusal.status) from refusal
    except ValueError as error:
        raise InvalidRequest(f"The body is not well-formed {_FORM}.") from error
    form = {name: value for name, value in pairs if value}
    names = [name for name, _ in pairs]
    twice = next((name for name in form if names.count(name) > 1), None)
    if twice == "resource":  # RFC 8707 allows several; a token of ours has one, or serves every store
        raise InvalidTarget("Name one resource, or none for every store.")
    if twice is not None:
        raise InvalidRequest("A parameter may be sent once; one of these was sent twice.")
    return form


def _pairs(text: str) -> list[tuple[str, str]]:
    if not text:
        return []
    return parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_MOST_FIELDS)


def _asked(form: Mapping[str, str], granted: list[str]) -> list[str] | None:
    """The scopes that the token shall be narrowed to; None leaves it all that is granted, now and later."""
    if "scope" not in form:
        return None
    asked = form["scope"].split(" ")
    if not expanded(granted).issuperset(asked):
        raise InvalidScope(f"The app may have: {' '.join(ordered(granted))}.")
    return ordered(asked)


def _peer(request: Request) -> str:
    return request.client.host if request.client else ""


def _refused(error: OAuthError, headers: Mapping[str, str]) -> Response:
    more: dict[str, str] = {}
    if error.http_status == 401:
        more["WWW-Authenticate"] = 'Basic realm="stoa", charset="UTF-8"'
    if error.retry_in_s:
        more["Retry-After"] = str(error.retry_in_s)
    return Response(error.body(), error.http_status, {**headers, **more}, media_type="application/json")
