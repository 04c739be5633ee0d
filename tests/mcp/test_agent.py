"""An agent's view, with the official client: over standard input and output, and over HTTP."""

import asyncio
import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from mcp import Client
from stoa.mcp.operation_tools import operation_tools
from stoa.mcp.server import Agent
from stoa.mcp.store import Store
from stoa.mcp.task_tools import preset_tools, task_tools
from stoa.mcp.tools import Tool
from tests.docs.pages import GUIDES, blocks
from tests.mcp.conftest import base_url, environment
from tests.support.service import Account, Service, free_port, until

STOA = [sys.executable, "-m", "stoa"]
COMMAND = [*STOA, "mcp"]
GUIDE = GUIDES / "agents.md"


def over_stdio(account: Account) -> Client:
    """The client of a host that has the configuration of the guide, with other credentials."""
    (block,) = blocks(GUIDE, "json")
    entry = json.loads(block.text)["mcpServers"]["stoa"]
    given = environment(account)
    assert entry["command"] == "stoa"
    assert set(entry["env"]) <= set(given)
    return Client(
        StdioServerParameters(command=STOA[0], args=[*STOA[1:], *entry["args"]], env=given), read_timeout_seconds=60
    )


@asynccontextmanager
async def inside(
    account: Account,
    tools: Mapping[str, Tool] | None = None,
    *,
    write: bool = False,
    scopes: tuple[str, ...] = (),
) -> AsyncGenerator[Client]:
    """A client of a server in this process, which calls the running service."""
    async with (
        Store(base_url(account), account.client_id, account.client_secret, scopes) as store,
        Client(Agent(lambda _: store, tools or task_tools(), write=write).server()) as client,
    ):
        yield client


async def call(client: Client, name: str, /, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert content.type == "text"
    assert not result.is_error, content.text
    assert result.structured_content == json.loads(content.text)
    return result.structured_content


async def failure(client: Client, name: str, /, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    (content,) = result.content
    assert result.is_error
    assert content.type == "text"
    return json.loads(content.text)


async def refusal(client: Client, name: str, /, **arguments: Any) -> MCPError:
    with pytest.raises(MCPError) as refused:
        await client.call_tool(name, arguments)
    assert refused.value.code == INVALID_PARAMS
    return refused.value


async def filled(account: Account) -> int:
    async with account.client() as api:
        body = {"name": "Linen Shirt", "price": "59.00", "sku": "LS-1", "stock": {"on_hand": 4}}
        return (await api.post("/products", json=body)).json()["data"]["id"]


async def test_an_agent_reads_and_tries_but_does_not_write(account: Account) -> None:
    product_id = await filled(account)
    async with over_stdio(account) as client:
        offered = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"find_products", "show_order", "quote_order"} <= set(offered)
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in offered.values())
        found = await call(client, "find_products", q="linen", fields=["id", "name", "price"])
        assert found["data"] == [{"id": product_id, "name": "Linen Shirt", "price": "59.00"}]
        lines = [{"sku": "LS-1", "quantity": 2}]
        assert (await call(client, "quote_order", line_items=lines))["data"]["total"] == "118.00"
        assert (await call(client, "find_orders"))["meta"]["total"] == 0
        assert "--write" in (await refusal(client, "create_order", line_items=lines)).message
        assert (await refusal(client, "find_order")).message == "Unknown tool: find_order. Did you mean find_orders?"
        wrong = await failure(client, "find_products", limit="many", unknown=1)
        assert wrong["code"] == "invalid_arguments"
        assert [fault["pointer"] for fault in wrong["errors"]] == ["/unknown", "/limit"]
        problem = await failure(client, "show_product", product_id=999_999)
        assert (problem["code"], problem["status"]) == ("not_found", 404)
        problem = await failure(client, "quote_order", line_items={"sku": "NO", "quantity": 1})
        assert [fault["pointer"] for fault in problem["errors"]] == ["/line_items/0/sku"]
        guide = await client.read_resource("stoa://guides/order-lifecycle")
        assert guide.contents[0].mime_type == "text/markdown"
        with pytest.raises(MCPError, match="Unknown resource"):
            await client.read_resource("stoa://guides/../secrets")
        assert (await call(client, "find_products"))["meta"]["total"] == 1  # it still answers


async def test_an_agent_writes_over_http_if_it_is_allowed(account: Account) -> None:
    port = free_port()
    (block,) = blocks(GUIDE, "bash")
    words = shlex.split(block.text)
    scopes = "products:read,products:write"
    command = [*STOA, *words[1:], "--port", str(port), "--scopes", scopes]  # the last of two options counts
    with subprocess.Popen(command, env=environment(account), stderr=subprocess.PIPE, text=True) as process:
        try:
            address = f"http://127.0.0.1:{port}/mcp"
            until(lambda: listens(port), "the server listens")
            async with Client(address) as client:
                made = await call(client, "create_product", name="Mug", price="9.00", idempotency_key="k1")
                assert await call(client, "create_product", name="Mug", price="9.00", idempotency_key="k1") == made
                product_id = made["data"]["id"]
                changed = await call(client, "change_price", product_id=product_id, price=8)
                assert changed["data"]["price"] == "8.00"
                problem = await failure(client, "change_price", product_id=product_id, price="-1")
                assert [fault["pointer"] for fault in problem["errors"]] == ["/price"]
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            for headers, status in [({"origin": "https://evil.example"}, 403), ({"host": "evil.example"}, 421)]:
                assert httpx.post(address, json=body, headers=headers).status_code == status
            assert httpx.post(address, content=b"{", headers={"content-type": "application/json"}).status_code == 400
        finally:
            process.terminate()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_a_reachable_server_needs_a_token_of_its_own(account: Account) -> None:
    variables = environment(account)
    refused = subprocess.run(
        [*COMMAND, "--http", "--host", "192.0.2.1"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert refused.returncode == 2
    assert "STOA_MCP_TOKEN" in refused.stderr
    port = free_port()
    command = [*COMMAND, "--http", "--port", str(port), "--name", "agents.example.com"]
    with subprocess.Popen(command, env={**variables, "STOA_MCP_TOKEN": "let-me-in"}, stderr=subprocess.PIPE) as process:
        try:
            address = f"http://127.0.0.1:{port}/mcp"
            until(lambda: listens(port), "the server listens")
            body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            sent = {"accept": "application/json, text/event-stream", "host": "agents.example.com"}
            for token, status in [("", 401), ("Bearer wrong", 401), ("Bearer let-me-in", 200)]:
                assert httpx.post(address, json=body, headers={**sent, "authorization": token}).status_code == status
        finally:
            process.terminate()


async def test_every_operation_is_reachable(account: Account) -> None:
    async with inside(account, operation_tools(), write=True) as client:
        made = await call(client, "create_product", body={"name": "Mug", "price": "9.00"}, idempotency_key="k1")
        product_id = made["data"]["id"]
        await call(client, "update_product", product_id=product_id, body={"price": "8.00"}, if_match=1)
        problem = await failure(client, "update_product", product_id=product_id, body={"price": "7"}, if_match=1)
        assert (problem["code"], problem["current_version"]) == ("version_conflict", 2)
        problem = await failure(client, "update_product", product_id=product_id, body={"price": "-7"})
        assert [fault["pointer"] for fault in problem["errors"]] == ["/body/price"]
        await call(client, "delete_product", product_id=product_id)
        assert (await call(client, "list_products"))["meta"]["total"] == 0


def test_all_operations_exclude_presets(account: Account) -> None:
    refused = subprocess.run(
        [*COMMAND, "--all", "--tools", "orders"],
        env=environment(account),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert refused.returncode == 2
    assert "excludes --tools" in refused.stderr


async def test_presets_limit_the_tools(account: Account) -> None:
    parameters = StdioServerParameters(
        command=STOA[0], args=[*STOA[1:], "mcp", "--tools", "catalog", "--write"], env=environment(account)
    )
    async with Client(parameters, read_timeout_seconds=60) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == set(preset_tools(frozenset({"catalog"})))
        assert "Unknown tool" in (await refusal(client, "refund_order", order_id=1)).message


async def test_scopes_limit_the_tools(account: Account, service: Service) -> None:
    async with inside(account, operation_tools(), write=True, scopes=("products:read", "orders:write")) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"list_products", "create_order", "create_order_dry_run"} <= names
        assert not names & {"create_product", "list_orders", "list_customers", "erase_customer"}
        assert "needs the scope customers:read" in (await refusal(client, "list_customers")).message
    narrow = await service.account("agent-narrow", scopes=["inventory:read"])
    async with inside(narrow, write=True) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["check_stock"]


async def test_a_long_answer_is_cut_and_can_be_continued(account: Account) -> None:
    async with account.client() as api:
        for n in range(3):
            items = [{"op": "create", "data": _long_product(n * 20 + each)} for each in range(20)]
            answer = await api.post("/products/batch", json={"items": items})
            assert answer.json()["meta"]["failed"] == 0, answer.text
    async with inside(account, operation_tools()) as client:
        whole = await call(client, "list_products", limit=60, sort=["id"])
        rows = int(re.findall(r"`limit` (\d+)", whole["cut"])[0])
        assert rows == len(whole["data"])
        assert 0 < rows < 60
        first = await call(client, "list_products", limit=rows, sort=["id"])
        second = await call(client, "list_products", limit=rows, sort=["id"], cursor=first["meta"]["next_cursor"])
        assert "cut" not in first
        assert second["data"][0]["id"] > first["data"][-1]["id"]
        names = await call(client, "list_products", limit=60, fields=["name"])
        assert len(names["data"]) == 60


def _long_product(number: int) -> dict[str, Any]:
    return {"name": f"Product {number}", "price": "1.00", "description": "Long text. " * 90}


@pytest.mark.long
async def test_wrong_credentials_and_a_service_that_is_gone_are_reported(account: Account) -> None:
    variables = {**environment(account), "STOA_CLIENT_SECRET": "wrong"}
    refused = subprocess.run(COMMAND, env=variables, capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode == 1
    assert "error: the store issued no token" in refused.stderr
    assert not refused.stdout
    async with (
        Store(f"http://127.0.0.1:{free_port()}", "id", "secret") as store,
        Client(Agent(lambda _: store, task_tools(), write=False).server()) as client,
    ):
        with pytest.raises(MCPError, match="no response after"):
            await client.list_tools()


async def test_a_service_that_asks_to_wait_for_long_is_reported_at_once() -> None:
    """With the time to wait, and the key with which the agent repeats the write."""

    async def busy(scope: Any, _receive: Any, send: Any) -> None:
        status, body = 429, b'{"code": "rate_limited", "retryable": true}'
        if scope["path"] == "/oauth/token":
            status, body = 200, b'{"access_token": "t", "scope": "products:read products:write"}'
        headers = [(b"retry-after", b"3600"), (b"x-ratelimit-remaining", b"0")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    port = free_port()
    server = uvicorn.Server(uvicorn.Config(busy, port=port, log_level="warning", lifespan="off"))
    running = asyncio.create_task(server.serve())
    try:
        await asyncio.to_thread(until, lambda: listens(port), "the server listens")
        async with (
            Store(f"http://127.0.0.1:{port}", "id", "secret") as store,
            Client(Agent(lambda _: store, task_tools(), write=True).server()) as client,
        ):
            product = {"name": "Mug", "price": "1", "idempotency_key": "k-1"}
            first = await failure(client, "create_product", **product)
            second = await failure(client, "create_product", **product)
        assert (first["code"], first["retry_after_s"], first["idempotency_key"]) == ("rate_limited", 3600, "k-1")
        assert (second["code"], second["idempotency_key"]) == ("deadline_exceeded", "k-1")
        assert 20 < second["retry_after_s"] <= 61
    finally:
        server.should_exit = True
        await running


def test_without_the_library_the_command_says_what_to_install(account: Account) -> None:
    program = "import sys; sys.modules['mcp'] = None; from stoa.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "mcp"],
        env=environment(account),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "pip install 'stoa-commerce[mcp]'" in ended.stderr
