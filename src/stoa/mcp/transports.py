"""How an agent reaches the server: standard input and output, or streamable HTTP."""

import hmac
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
PATH = "/mcp"
MOST_CONNECTIONS = 500  # more are refused with 503, so that callers cannot exhaust the memory


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def serve_http(
    server: Server[Any], host: str, port: int, names: tuple[str, ...], guard: Callable[[ASGIApp], ASGIApp]
) -> None:
    """Serve until interrupted; `names` are host names by which agents reach this server besides loopback."""
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True, transport_security=_allowed(names)
    )
    guarded = guard(app)
    config = uvicorn.Config(
        guarded,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
    )
    await uvicorn.Server(config).serve()


def _allowed(names: tuple[str, ...]) -> TransportSecuritySettings:
    """Refuse other Host and Origin headers, so that no web page reaches the server through DNS rebinding."""
    hosts = [*LOOPBACK, *names]
    return TransportSecuritySettings(
        allowed_hosts=[pattern for host in hosts for pattern in (host, f"{host}:*")],
        allowed_origins=[
            f"{scheme}://{host}{port}" for host in hosts for scheme in ("http", "https") for port in ("", ":*")
        ],
    )


class RequireToken:
    """Refuses requests without the bearer token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not hmac.compare_digest(given, self._expected):
                refused = PlainTextResponse(
                    "Send the token of STOA_MCP_TOKEN.", 401, headers={"WWW-Authenticate": "Bearer"}
                )
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)
