"""Run the commands of the pages against a running demo; only ids and ports are replaced."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from pathlib import Path
from signal import SIGINT

import httpx
import pytest

from tests.docs.pages import GUIDES, ROOT, blocks
from tests.generated.node import NODE, WHEEL, install, needs_npm
from tests.support.receivers import Receiver
from tests.support.service import Service

TOOLS = Path(sys.executable).parent
NPX = WHEEL / "lib/node_modules/npm/bin/npx-cli.js"
CLIENT_ID = re.compile(r"stoa_ci_\w+")
# The files that the commands read.
FILES = {
    "people.csv": "external_id,email,metadata.shared.tier\ncrm-7,ada@example.com,gold\n",
    "public.jwk.json": '{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"key-1"}',
    "catalog.csv": "external_id,name,price,sku\nerp-7,Enamel Pan,31.00,PAN-7\n",
}


def run(words: list[str], folder: Path, environment: dict[str, str]) -> str:
    result = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100
    )
    assert result.returncode == 0, f"{shlex.join(words)}: {result.stdout}{result.stderr}"
    return result.stdout


def with_tools(environment: dict[str, str]) -> dict[str, str]:
    return {**environment, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("authentication.md", marks=pytest.mark.long),
        "customers.md",
        "exports.md",
        "imports.md",
        "installing.md",
    ],
)
def test_operator_commands_run_as_written(demo: Service, tmp_path: Path, page: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    lines = [line for block in blocks(GUIDES / page, "bash") for line in block.text.splitlines() if line[:5] == "stoa "]
    assert lines
    client_id = ""
    for line in lines:
        # The page shows an invented client id; use the one that `app create` printed.
        output = run(shlex.split(CLIENT_ID.sub(client_id, line)), tmp_path, with_tools(demo.environment))
        if line.startswith("stoa app create "):
            (client_id,) = set(CLIENT_ID.findall(output))


async def test_stoa_listen_forwards_events_to_a_local_program(
    demo: Service, variables: dict[str, str], api: httpx.Client, tmp_path: Path
) -> None:
    (line,) = [block.text for block in blocks(GUIDES / "webhooks.md", "bash") if block.text.startswith("stoa listen ")]
    async with Receiver() as receiver:
        words = shlex.split(line.replace("http://localhost:3000/hook", receiver.url))
        environment = with_tools({**demo.environment, **variables})
        listening = await create_subprocess_exec(*words, cwd=tmp_path, env=environment, stderr=PIPE, stdout=PIPE)
        assert listening.stderr is not None
        assert (await listening.stderr.readline()).startswith(b"Subscription ")
        product_id = api.post("/products", json={"name": "Forwarded", "price": "1.00"}).json()["data"]["id"]
        (received,) = await receiver.until(1)
        assert (received.event["type"], received.event["resource"]["id"]) == ("product.created", product_id)
        listening.send_signal(SIGINT)
        await listening.communicate()
    assert api.delete(f"/products/{product_id}").status_code == 204  # other tests count products


@pytest.mark.parametrize(
    "page",
    [
        ROOT / "README.md",
        *(GUIDES / name for name in ("quickstart.md", "build-an-app.md", "development-stores.md", "app-file.md")),
    ],
    ids=lambda page: page.name,
)
def test_every_make_command_has_a_target(page: Path) -> None:
    lines = [line for block in blocks(page, "bash") for line in block.text.splitlines() if line.startswith("make ")]
    assert lines
    for line in lines:
        run(["make", "--dry-run", *shlex.split(line, comments=True)[1:]], ROOT, dict(os.environ))


@needs_npm
@pytest.mark.timeout(600)
@pytest.mark.long
def test_the_commands_that_generate_clients_work(tmp_path: Path) -> None:
    install()
    generated = ROOT / "tests/generated"
    (tmp_path / "node_modules").symlink_to(generated / "typescript/node_modules")
    shutil.copy(generated / "openapi-python-client.yaml", tmp_path)
    shutil.copy(ROOT / "openapi.json", tmp_path)
    (tmp_path / "npx").write_text(f'#!/bin/sh\nexec "{NODE}" "{NPX}" "$@"\n')
    (tmp_path / "npx").chmod(0o755)
    path = os.pathsep.join([str(tmp_path), str(TOOLS), str(WHEEL / "bin"), os.environ["PATH"]])
    (block,) = blocks(GUIDES / "python-sdk.md", "bash")
    run(["bash", "-eu", "-c", block.text], tmp_path, {**os.environ, "PATH": path})
    assert list(tmp_path.glob("*/*/api/products/list_products.py"))
    assert "list_products" in (tmp_path / "api.ts").read_text()
