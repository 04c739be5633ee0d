"""How programs learn where tokens come from and what they are good for (RFC 8414 and 9728)."""

from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from stoa.access.addresses import Front
from stoa.access.contract import SCOPES
from stoa.rest.dispatch import PREFIX
from stoa.rest.endpoint import Access
from stoa.settings import Settings

_AUTH_METHODS = ["client_secret_basic", "client_secret_post"]
_HEADERS = {"Cache-Control": "public, max-age=300", "X-Content-Type-Options": "nosniff"}


class Signpost:
    """Points to the token endpoints and the resources that they serve."""

    def __init__(self, access: Access, settings: Settings) -> None:
        self._access = access
        self._public_url = settings.public_url

    async def authorization_server(self, request: Request) -> Response:
        issuer = self._front(request).service
        return _json(
            {
                "issuer": issuer,
                "token_endpoint": f"{issuer}/oauth/token",
                "token_endpoint_auth_methods_supported": _AUTH_METHODS,
                "revocation_endpoint": f"{issuer}/oauth/revoke",
                "revocation_endpoint_auth_methods_supported": _AUTH_METHODS,
                "introspection_endpoint": f"{issuer}/oauth/introspect",
                "introspection_endpoint_auth_methods_supported": _AUTH_METHODS,
                "grant_types_supported": ["client_credentials"],
                "response_types_supported": [],
                "scopes_supported": list(SCOPES),
                "service_documentation": f"{issuer}/docs",
            }
        )

    async def protected_resource(self, request: Request) -> Response:
        """One store's API where the address names a store, and the service as a whole where it names none."""
        front = self._front(request)
        handle: str | None = request.path_params.get("handle")
        store = await (self._access.store(handle=handle) if handle else self._access.store(host=front.host))
        if store is None and (handle or request.url.path.endswith(PREFIX)):
            raise HTTPException(404)
        return _json(
            {
                "resource": front.resource(handle) if store else front.service,
                "resource_name": store.name if store else "Stoa",
                "authorization_servers": [front.service],
                "scopes_supported": list(SCOPES),
                "bearer_methods_supported": ["header"],
                "resource_documentation": f"{front.service}/docs",
            }
        )

    def _front(self, request: Request) -> Front:
        return Front(request.url.scheme, request.headers.get("host", ""), self._public_url)


def _json(document: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(document), headers=_HEADERS, media_type="application/json")
