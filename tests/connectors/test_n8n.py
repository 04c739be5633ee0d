"""n8n's own tool builds and lints the nodes, and n8n's execution engine runs them; `make connectors` installs both."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import base_url
from tests.docs.pages import GUIDES, ROOT, blocks
from tests.generated.node import NODE, WHEEL
from tests.support.service import Account, Service

CONNECTOR = ROOT / "connectors/n8n"
HARNESS = ROOT / "tests/connectors/n8n.cjs"
PRODUCTS = 260  # more than the largest page
pytestmark = [
    pytest.mark.skipif(
        not (CONNECTOR / "node_modules/.done").exists(), reason="n8n is not installed; `make connectors` installs it"
    ),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The Node of the lock file, with npm, which n8n's tool calls."""
    tools, home = tmp_path_factory.mktemp("bin"), tmp_path_factory.mktemp("home")
    (tools / "node").symlink_to(NODE)
    npm = WHEEL / "lib/node_modules/npm/bin/npm-cli.js"
    (tools / "npm").write_text(f'#!/bin/sh\nexec "{NODE}" "{npm}" "$@"\n')
    (tools / "npm").chmod(0o755)
    return {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "HOME": str(home), "N8N_USER_FOLDER": str(home)}


def npm(environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        ["npm", *words], cwd=CONNECTOR, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(environment: dict[str, str]) -> Path:
    npm(environment, "run", "build")
    return CONNECTOR


def test_the_tool_of_n8n_finds_no_fault(environment: dict[str, str]) -> None:
    said = npm(environment, "run", "lint")
    assert "problem" not in said, said


def test_the_packed_files_are_those_that_n8n_loads(built: Path, environment: dict[str, str]) -> None:
    [packed] = json.loads(npm(environment, "pack", "--dry-run", "--json"))
    names = {each["path"] for each in packed["files"]}
    package = json.loads((built / "package.json").read_text())
    assert {*package["n8n"]["nodes"], *package["n8n"]["credentials"], "dist/icons/stoa.svg"} <= names
    assert not any(name.startswith(("node_modules", "nodes/")) for name in names)
    assert packed["filename"].startswith(f"{package['name']}-")


def test_the_guide_installs_what_the_folder_has() -> None:
    [install] = blocks(GUIDES / "n8n.md", "bash")
    assert install.text.splitlines() == [
        "cd connectors/n8n", "npm ci --ignore-scripts", "npm run build", "npm pack",
    ]  # fmt: skip
    text, fields = (GUIDES / "n8n.md").read_text(), (CONNECTOR / "nodes/Stoa/fields.ts").read_text()
    for operation in ("Create", "Delete", "Get", "Get Many", "Update"):
        assert operation in text
        assert f"name: '{operation}'" in fields


class Engine:
    """The process in which n8n's engine runs the built nodes."""

    def __init__(self, built: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [NODE, HARNESS, built],
            env={**environment, "N8N_ENCRYPTION_KEY": "test", "N8N_DIAGNOSTICS_ENABLED": "false"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **command: Any) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(command) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith("{"):  # the engine may log
                return json.loads(line)
        pytest.fail("the engine ended")

    def connect(self, account: Account, **more: Any) -> None:
        self.ask(
            credentials={
                "baseUrl": base_url(account) + "/",
                "clientId": account.client_id,
                "clientSecret": account.client_secret,
                **more,
            }
        )

    def run(self, resource: str, operation: str, **options: Any) -> list[dict[str, Any]]:
        parameters = {"resource": resource, "operation": operation, **options.pop("parameters", {})}
        answer = self.ask(node="stoa", parameters=parameters, **options)
        assert "items" in answer, answer
        return answer["items"]

    def refused(self, resource: str, operation: str, **parameters: Any) -> tuple[str, str]:
        answer = self.ask(node="stoa", parameters={"resource": resource, "operation": operation, **parameters})
        assert "error" in answer, answer
        return answer["error"], answer["description"]

    def poll(self, resource: str, state: dict[str, Any], **more: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """What the trigger starts a workflow with, and its state for the next poll."""
        answer = self.ask(node="stoaTrigger", parameters={"resource": resource}, state=state, **more)
        assert "items" in answer, answer
        return answer["items"] or [], answer["state"]

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture(scope="module")
def engine(built: Path, environment: dict[str, str]) -> Iterator[Engine]:
    started = Engine(built, environment)
    yield started
    started.close()


@pytest.fixture(scope="module")
async def account(service: Service) -> Account:
    return await service.account("n8n")


@pytest.fixture(scope="module")
async def products(account: Account) -> list[int]:
    """The ids of more products than a page has, each with stock."""
    made: list[int] = []
    async with account.client() as api:
        for first in range(0, PRODUCTS, 65):
            items = [
                {
                    "op": "create",
                    "data": {"name": f"Mug {n}", "sku": f"MUG-{n}", "price": "5.00", "stock": {"on_hand": 9}},
                }
                for n in range(first, first + 65)
            ]
            answer = await api.post("/products/batch", json={"items": items})
            assert answer.status_code == 200, answer.text
            made += [each["id"] for each in answer.json()["data"]]
    assert len(made) == PRODUCTS
    return made


async def test_many_rows_come_page_after_page(engine: Engine, account: Account, products: list[int]) -> None:
    engine.connect(account)
    found = engine.run("product", "getAll", parameters={"returnAll": True})
    assert sorted(each["id"] for each in found) == sorted(products)
    assert len(engine.run("variant", "getAll", parameters={"returnAll": True})) == PRODUCTS
    assert len(engine.run("inventory", "getAll", parameters={"limit": 255})) == 255
    assert len(engine.run("product", "getAll", parameters={"limit": 3})) == 3
    chosen = {"filters": {"filter": [{"name": "sku", "value": "MUG-7"}]}}
    assert [each["name"] for each in engine.run("product", "getAll", parameters={"options": chosen})] == ["Mug 7"]


async def test_only_what_changed_since_a_time_is_listed(engine: Engine, account: Account, products: list[int]) -> None:
    engine.connect(account)
    last = engine.run(
        "product", "getAll", parameters={"options": {"updatedSince": "2000-01-01T00:00:00"}, "limit": 260}
    )
    async with account.client() as api:
        assert (await api.delete(f"/products/{products[0]}")).status_code == 204
        assert (await api.patch(f"/products/{products[1]}", json={"name": "Cup"})).status_code == 200
    since = {"updatedSince": last[-1]["updated_at"], "includeDeleted": True}
    changed = engine.run("product", "getAll", parameters={"returnAll": True, "options": since})
    assert [(each["id"], each.get("name")) for each in changed][-2:] == [(products[0], None), (products[1], "Cup")]


async def test_the_trigger_starts_with_changes_once_and_not_with_the_past(
    engine: Engine, account: Account, products: list[int]
) -> None:
    engine.connect(account)
    shown, nothing = engine.poll("product", {}, mode="manual")
    assert (len(shown), nothing) == (1, {})
    states: dict[str, dict[str, Any]] = {}
    for resource in ("product", "inventory", "order"):
        found, states[resource] = engine.poll(resource, {})
        assert found == []
    async with account.client() as api:
        assert (await api.patch(f"/products/{products[2]}", json={"name": "Bowl"})).status_code == 200
        assert (await api.delete(f"/products/{products[3]}")).status_code == 204
        line = {"name": "Gift wrap", "unit_price": "4.00", "quantity": 1}
        ordered = await api.post("/orders", json={"line_items": [line]})
        assert ordered.status_code == 201, ordered.text
    changed, states["product"] = engine.poll("product", states["product"])
    assert [(each["id"], each.get("name")) for each in changed] == [(products[2], "Bowl"), (products[3], None)]
    assert changed[1]["deleted_at"] is not None
    gone, states["inventory"] = engine.poll("inventory", states["inventory"])
    assert [each["deleted_at"] is not None for each in gone if "deleted_at" in each] == [True]
    assert [each["id"] for each in engine.poll("order", states["order"])[0]] == [ordered.json()["data"]["id"]]
    # The overlap is read again, and starts nothing.
    for resource in ("product", "inventory"):
        assert engine.poll(resource, states[resource])[0] == []
    # All products change: more than a page, each once.
    async with account.client() as api:
        for first in range(4, PRODUCTS, 64):
            items = [{"op": "update", "id": each, "data": {"price": "6.00"}} for each in products[first : first + 64]]
            assert (await api.post("/products/batch", json={"items": items})).status_code == 200
    changed, _ = engine.poll("product", states["product"])
    assert sorted(each["id"] for each in changed) == sorted(products[4:])


async def test_a_repeated_execution_writes_once(engine: Engine, account: Account) -> None:
    engine.connect(account)
    body = {"body": json.dumps({"name": "Jug", "price": "24.00"})}
    [made] = engine.run("product", "create", parameters=body, executionId="7")
    [again] = engine.run("product", "create", parameters=body, executionId="7")
    assert again["id"] == made["id"]
    [next_round] = engine.run("product", "create", parameters=body, executionId="7", runIndex=1)
    assert next_round["id"] != made["id"]
    here = {"id": made["id"]}
    [changed] = engine.run("product", "update", parameters={**here, "body": {"price": "25.00"}}, executionId="8")
    assert changed["price"] == "25.00"
    assert engine.run("product", "get", parameters=here) == [changed]
    assert engine.run("product", "delete", parameters=here, executionId="9") == [{"deleted": True}]
    assert engine.refused("product", "get", **here)[0] == "Not found"


async def test_a_refusal_says_what_would_be_right(engine: Engine, account: Account) -> None:
    engine.connect(account)
    title, description = engine.refused("product", "create", body={"name": "Jug", "price": "cheap"})
    assert "/price: " in description, (title, description)
    [kept] = engine.run("product", "create", parameters={"body": {"name": ""}}, continueOnFail=True)
    assert kept["error"] == title


async def test_an_expired_token_is_renewed_by_n8n(engine: Engine, account: Account) -> None:
    expired = {"access_token": "stoa_at_expired", "token_type": "Bearer"}
    engine.connect(account, oauthTokenData=expired)
    assert engine.run("customer", "getAll") == []
    engine.connect(account, clientSecret="wrong")
    assert "access token" in engine.refused("customer", "getAll")[0]
