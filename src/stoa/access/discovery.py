"""OAuth discovery: authorization server metadata (RFC 8414) and protected resource metadata (RFC 9728)."""

from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from stoa.access.addresses import ServiceUrls
from stoa.access.contract import SCOPES
from stoa.access.public_keys import ALGORITHMS
from stoa.rest.dispatch import PREFIX
from stoa.rest.request import Access
from stoa.settings import Settings

_AUTH_METHODS = ["client_secret_basic", "client_secret_post", "private_key_jwt"]
_SIGNATURES = list(ALGORITHMS)
# RFC 8414 requires the member, and forbids an empty list; `none` is the registered type that returns no credentials.
_RESPONSE_TYPES = ["none"]
_NOSNIFF = {"X-Content-Type-Options": "nosniff"}
_SAME_FOR_ALL = {**_NOSNIFF, "Cache-Control": "public, max-age=300"}
# Names the host of the request: from a shared cache, another caller would get the address that someone chose.
_BY_HOST = {**_NOSNIFF, "Cache-Control": "no-store", "Vary": "Host"}
METADATA_PATH = "/.well-known/oauth-authorization-server"  # of the authorization server (RFC 8414)


class Discovery:
    """Serves the metadata of the token endpoints and of the resources that their tokens are for."""

    def __init__(self, access: Access, settings: Settings) -> None:
        self._access = access
        self._public_url = settings.public_url

    async def authorization_server(self, request: Request) -> Response:
        issuer = self._urls(request).service
        return _json(
            {
                "issuer": issuer,
                "token_endpoint": f"{issuer}/oauth/token",
                "token_endpoint_auth_methods_supported": _AUTH_METHODS,
                "token_endpoint_auth_signing_alg_values_supported": _SIGNATURES,
                "revocation_endpoint": f"{issuer}/oauth/revoke",
                "revocation_endpoint_auth_methods_supported": _AUTH_METHODS,
                "revocation_endpoint_auth_signing_alg_values_supported": _SIGNATURES,
                "introspection_endpoint": f"{issuer}/oauth/introspect",
                "introspection_endpoint_auth_methods_supported": _AUTH_METHODS,
                "introspection_endpoint_auth_signing_alg_values_supported": _SIGNATURES,
                "grant_types_supported": ["client_credentials"],
                "response_types_supported": _RESPONSE_TYPES,
                "scopes_supported": list(SCOPES),
                "service_documentation": f"{issuer}/docs",
            },
            by_host=not self._public_url,
        )

    async def protected_resource(self, request: Request) -> Response:
        """One store's API if the URL names a store, else the service as a whole."""
        urls = self._urls(request)
        handle: str | None = request.path_params.get("handle")
        store = await (self._access.store(handle=handle) if handle else self._access.store(host=urls.host))
        if store is None and (handle or request.url.path.endswith(PREFIX)):
            raise HTTPException(404)
        return _json(
            {
                "resource": urls.resource(handle) if store else urls.service,
                "resource_name": store.name if store else "Stoa",
                "authorization_servers": [urls.service],
                "scopes_supported": list(SCOPES),
                "bearer_methods_supported": ["header"],
                "resource_documentation": f"{urls.service}/docs",
            },
            by_host=not (self._public_url and handle),
        )

    def _urls(self, request: Request) -> ServiceUrls:
        return ServiceUrls(request.url.scheme, request.headers.get("host", ""), self._public_url)


def _json(document: dict[str, Any], *, by_host: bool) -> Response:
    headers = _BY_HOST if by_host else _SAME_FOR_ALL
    return Response(msgspec.json.encode(document), headers=headers, media_type="application/json")
