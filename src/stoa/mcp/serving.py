"""Runs the server: for one app with its credentials, or for callers that have their own tokens."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import click
import httpx
import msgspec
from starlette.types import ASGIApp

from stoa.access.console import Refused
from stoa.mcp.callers import Callers, caller_of, issuer_of
from stoa.mcp.server import Agent
from stoa.mcp.store import POLICY, Failure, Store
from stoa.mcp.tools import Tool
from stoa.mcp.transports import PATH, RequireToken, serve_http, serve_stdio


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What is served, and where."""

    tools: Mapping[str, Tool]
    host: str
    port: int
    names: tuple[str, ...]
    max_characters: int
    write: bool

    async def for_one_app(self, store: Store, token: str, *, over_http: bool) -> None:
        """Serve one store with the credentials of one app; over HTTP, callers send the token if there is one."""
        async with store:
            try:
                granted = await store.scopes()
            except Failure as failure:
                raise Refused(f"the store issued no token: {failure.document['detail']}") from failure
            server = Agent(lambda _: store, self.tools, write=self.write, most_characters=self.max_characters).server()
            where = f"http://{self.host}:{self.port}{PATH}" if over_http else "standard input and output"
            what = "reads and writes" if self.write else "reads"
            click.echo(f"An agent {what} with {', '.join(sorted(granted))} over {where}.", err=True)
            if over_http:

                def guard(app: ASGIApp) -> ASGIApp:
                    return RequireToken(app, token) if token else app

                await serve_http(server, self.host, self.port, self.names, guard)
            else:
                await serve_stdio(server)

    async def for_callers(self, service: str, url: str) -> None:
        """Serve every store of the service; each caller has a token of its own."""
        async with httpx.AsyncClient(timeout=POLICY.timeout_s) as http:
            try:
                issuer = await issuer_of(http, service)
            except (httpx.HTTPError, KeyError, ValueError) as error:
                raise Refused(f"{service} has no OAuth metadata: {error or type(error).__name__}") from error
            server = Agent(caller_of, self.tools, write=self.write, most_characters=self.max_characters).server()
            what = "read and write" if self.write else "read"
            click.echo(f"Callers {what} with their own tokens at {url}/stores/{{handle}}{PATH}.", err=True)
            names = (*self.names, urlsplit(url).hostname or "")

            def guard(app: ASGIApp) -> ASGIApp:
                return Callers(app, http, service=service, issuer=issuer, url=url, path=PATH)

            await serve_http(server, self.host, self.port, names, guard)
