"""The receiver of the demo: verifies the signature of each webhook as an app does, with the code of the SDK, and says so.

It exists only in a demo on this machine, at an address for each app, and keeps nothing: the delivery log shows its response.
"""

import ipaddress

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stoa.access.encryption import Cipher
from stoa.access.operator_queries import GET_APP
from stoa.db.pool import Database
from stoa.rest.body import read_body
from stoa.settings import Settings, secret_key
from stoa.webhooks.app_callbacks import signing_secrets

PATH = "/demo/receiver/"
_MAX_BYTES = 1024 * 1024


def receiver_url(settings: Settings, client_id: str) -> str:
    return f"http://127.0.0.1:{settings.port}{PATH}{client_id}"


def routes(database: Database, settings: Settings) -> list[Route]:
    """The receiver, or nothing in a service that is no demo."""
    if not settings.demo:
        return []
    from stoa_client.webhooks import SignatureRefused, verify  # noqa: PLC0415 - only a demo loads the SDK

    cipher = Cipher(secret_key(settings))

    async def receive(request: Request) -> Response:
        if request.client is None or not ipaddress.ip_address(request.client.host).is_loopback:
            raise HTTPException(404)
        app = await GET_APP.maybe(database, request.path_params["client_id"], 0)
        secrets = await signing_secrets(database, cipher, app.id) if app is not None else []
        if not secrets:
            raise HTTPException(404)
        body = await read_body(request.receive, dict(request.headers.raw), most=_MAX_BYTES)
        try:
            event = verify(body, dict(request.headers), secrets)
        except SignatureRefused as refused:
            return JSONResponse({"verified": False, "reason": str(refused)}, 401)
        return JSONResponse({"verified": True, "event": event.type})

    return [Route(f"{PATH}{{client_id}}", receive, methods=["POST"])]
