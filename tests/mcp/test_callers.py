"""`stoa mcp --http --oauth` with the official client, which calls with its own token."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client.auth import TokenStorage
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken

from mcp import Client
from stoa_client import PrivateKey
from tests.client.test_private_keys import new_key, register
from tests.mcp.test_agent import call, failure, listens
from tests.support.service import Account, Service, free_port, migrated_database, until


class Memory(TokenStorage):
    """Keeps nothing from another run."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        raise AssertionError("the client is registered already")


@pytest.fixture(scope="module")
async def open_service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Service, str]]:
    """A service that issues tokens for an MCP server, and the URL of that server."""
    url = f"http://127.0.0.1:{free_port()}"
    database = await migrated_database(f"test_callers_{os.getpid()}")
    with Service(tmp_path_factory.mktemp("callers"), database_url=database, workers=1, mcp_url=url) as running:
        yield running, url


@pytest.fixture(scope="module")
def server(open_service: tuple[Service, str]) -> Iterator[str]:
    service, url = open_service
    port = int(url.rpartition(":")[2])
    command = [sys.executable, "-m", "stoa", "mcp", "--http", "--oauth", "--write", "--port", str(port)]
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "STOA_MCP_URL": url}
    given = [*command, "--base-url", service.url]
    with subprocess.Popen(given, env={**variables, "STOA_DATA_DIR": str(service.folder / "none")}) as process:
        try:
            until(lambda: listens(port), "the server listens")
            yield url
        finally:
            process.terminate()


@asynccontextmanager
async def connected(provider: Any, address: str, service: Service) -> AsyncGenerator[Client]:
    """The official client accepts no metadata without an authorization endpoint, so it gets those of this service, which
    issues tokens for client credentials alone (RFC 8414 then omits it)."""
    provider.context.oauth_metadata = OAuthMetadata.model_construct(
        issuer=service.url, token_endpoint=f"{service.url}/oauth/token"
    )
    async with (
        httpx2.AsyncClient(auth=provider, timeout=30) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        yield client


async def test_an_agent_calls_with_its_client_secret(open_service: tuple[Service, str], server: str) -> None:
    service, _ = open_service
    account = await service.account("callers-secret", scopes=["products:read", "products:write"])
    address = f"{server}/stores/{account.handle}/mcp"
    memory = Memory()
    provider = ClientCredentialsOAuthProvider(
        address, memory, account.client_id, account.client_secret, issuer=service.url
    )
    async with connected(provider, address, service) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"find_products", "create_product"} <= names
        assert not names & {"find_orders", "check_stock"}
        made = await call(client, "create_product", name="Mug", price=9, idempotency_key="k1")
        assert (await call(client, "find_products"))["data"][0]["id"] == made["data"]["id"]
    assert memory.tokens
    async with service.client() as other:  # the token belongs to this store alone
        elsewhere = await service.account("callers-elsewhere")
        headers = {"authorization": f"Bearer {memory.tokens.access_token}"}
        answer = await other.get(f"/stores/{elsewhere.handle}/api/v3/app/products", headers=headers)
        assert answer.status_code == 401


async def test_an_agent_calls_with_its_private_key(
    open_service: tuple[Service, str], server: str, tmp_path: Path
) -> None:
    service, _ = open_service
    account = await service.account("callers-key")
    pem = new_key()
    key = PrivateKey(pem)
    register(account, key, tmp_path)
    address = f"{server}/stores/{account.handle}/mcp"
    signed = SignedJWTParameters(
        issuer=account.client_id, subject=account.client_id, signing_key=pem, signing_algorithm="ES256"
    )
    provider = PrivateKeyJWTOAuthProvider(
        address,
        Memory(),
        account.client_id,
        assertion_provider=signed.create_assertion_provider(),
        issuer=service.url,
    )
    async with connected(provider, address, service) as client:
        assert (await call(client, "find_orders"))["meta"]["total"] == 0
        problem = await failure(client, "show_order", order_id=1)
        assert problem["code"] == "not_found"


async def test_a_request_without_a_valid_token_is_told_where_to_get_one(
    open_service: tuple[Service, str], server: str
) -> None:
    service, url = open_service
    account = await service.account("callers-challenge")
    other = await service.account("callers-other")
    path = f"/stores/{account.handle}/mcp"
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"accept": "application/json, text/event-stream"}

    async def token_for(resource: str) -> str:
        async with service.client() as client:
            form = {"grant_type": "client_credentials", "resource": resource}
            answer = await client.post("/oauth/token", data=form, auth=(account.client_id, account.client_secret))
            return answer.json().get("access_token", answer.text)

    bound = await token_for(f"{url}{path}")
    async with httpx.AsyncClient(base_url=server, headers=accept) as agent:
        for token, status in {
            "": 401,
            "stoa_at_wrong": 401,
            account.token: 401,  # of every store, so not made for this server
            bound: 200,
        }.items():
            headers = {"authorization": f"Bearer {token}"} if token else {}
            answer = await agent.post(path, json=body, headers=headers)
            assert answer.status_code == status, (token, answer.text)
            if status == 401:
                challenge = answer.headers["www-authenticate"]
                assert f'resource_metadata="{url}/.well-known/oauth-protected-resource{path}"' in challenge
                assert ('error="invalid_token"' in challenge) is bool(token)
        refused = await agent.post(
            f"/stores/{other.handle}/mcp", json=body, headers={"authorization": f"Bearer {bound}"}
        )
        assert refused.status_code == 401
        metadata = (await agent.get(f"/.well-known/oauth-protected-resource{path}")).json()
        assert metadata["resource"] == f"{url}{path}"
        assert metadata["authorization_servers"] == [service.url]
        large = b" " * (4 * 1024 * 1024 + 1)
        bearer = {"authorization": f"Bearer {bound}", "content-type": "application/json"}
        assert (await agent.post(path, content=large, headers=bearer)).status_code == 413
        for unknown in ("/mcp", "/stores/UPPER/mcp", "/stores/../mcp", "/"):
            assert (await agent.post(unknown, json=body)).status_code == 404
        evil = await agent.post(path, json=body, headers={"authorization": f"Bearer {bound}", "host": "evil.example"})
        assert evil.status_code == 421
        page = await agent.post(
            path, json=body, headers={"authorization": f"Bearer {bound}", "origin": "https://evil.example"}
        )
        assert page.status_code == 403
    async with service.client() as client:  # only what exists is advertised
        advertised = (await client.get("/.well-known/oauth-authorization-server")).json()
        assert "authorization_endpoint" not in advertised
        for name, address in advertised.items():
            if name.endswith("_endpoint"):
                assert (await client.post(address)).status_code != 404
    for wrong in (f"https://evil.example{path}", f"{url}/stores/{account.handle}/mcp/", f"{url}/mcp"):
        assert "invalid_target" in await token_for(wrong)


async def test_a_revoked_token_is_refused_at_the_next_request(open_service: tuple[Service, str], server: str) -> None:
    service, url = open_service
    account = await service.account("callers-revoked")
    path = f"/stores/{account.handle}/mcp"
    async with service.client() as client, httpx.AsyncClient(base_url=server) as agent:
        basic = (account.client_id, account.client_secret)
        form = {"grant_type": "client_credentials", "resource": f"{url}{path}", "scope": "products:read"}
        refused = await client.post("/oauth/token", data={**form, "scope": "products:read other:read"}, auth=basic)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_scope")
        issued = (await client.post("/oauth/token", data=form, auth=basic)).json()
        assert (issued["scope"], issued["resource"]) == ("products:read", f"{url}{path}")
        headers = {
            "authorization": f"Bearer {issued['access_token']}",
            "accept": "application/json, text/event-stream",
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await agent.post(path, json=body, headers=headers)).status_code == 200
        await client.post("/oauth/revoke", data={"token": issued["access_token"]}, auth=basic)
        assert (await agent.post(path, json=body, headers=headers)).status_code == 401


async def test_a_token_describes_only_itself(open_service: tuple[Service, str]) -> None:
    service, _ = open_service
    one, other = await service.account("callers-one"), await service.account("callers-two")
    async with service.client() as client:
        own = {"authorization": f"Bearer {one.token}"}
        described = (await client.post("/oauth/introspect", data={"token": one.token}, headers=own)).json()
        assert (described["active"], described["client_id"]) == (True, one.client_id)
        assert "aud" not in described
        refused = await client.post("/oauth/introspect", data={"token": other.token}, headers=own)
        assert (refused.status_code, json.loads(refused.content)["error"]) == (401, "invalid_client")


@pytest.mark.parametrize(
    "words",
    [["--oauth"], ["--http", "--oauth"], ["--http", "--oauth", "--scopes", "products:read"]],
    ids=["without http", "without its URL", "with scopes"],
)
def test_oauth_needs_http_and_the_urls(account: Account, words: list[str]) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "stoa", "mcp", *words],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "STOA_DATA_DIR": str(account.service.folder / "none"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert refused.returncode == 2
    assert "--oauth needs" in refused.stderr
