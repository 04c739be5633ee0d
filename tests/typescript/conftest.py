"""The TypeScript SDK, compiled once, and a running service with the accounts that its tests use."""

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tools.sdk.__main__ import description

from stoa.reference.document import read
from tests.docs.pages import GUIDES, ROOT, blocks
from tests.generated.node import NODE, TOOLS, install
from tests.support.service import Account, Service, migrated_database

WITHIN_S = 300  # a compiler, and the tests of the package, which start a process for each file
SDK, EXAMPLES = ROOT / "sdk/typescript", ROOT / "examples/typescript"


def node(*words: str | Path, where: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables}
    return subprocess.run(
        [NODE, *words], cwd=where, env=environment, capture_output=True, text=True, check=False, timeout=WITHIN_S
    )


def compiled(*words: str | Path, where: Path) -> None:
    done = node(TOOLS / "typescript/bin/tsc", *words, where=where)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The compiled package with its tests, the examples, the guide and all samples; processes of one test run share it."""
    install()
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "typescript"
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "done").exists():
            _compile(shared)
            (shared / "done").touch()
    return shared / "sdk"


def _compile(shared: Path) -> None:
    sdk, examples = shared / "sdk", shared / "examples"
    ignored = shutil.ignore_patterns("node_modules", "dist", "dist-test", "*.tsbuildinfo")
    shutil.copytree(SDK, sdk, ignore=ignored, dirs_exist_ok=True)
    shutil.copytree(EXAMPLES, examples, ignore=ignored, dirs_exist_ok=True)
    (shared / "node_modules/@types").mkdir(parents=True, exist_ok=True)
    for name, target in {"@types/node": TOOLS / "@types/node", "@stoa/client": sdk}.items():
        link = shared / "node_modules" / name
        link.parent.mkdir(exist_ok=True)
        if not link.exists():
            link.symlink_to(target)
    for name, text in programs().items():
        (examples / f"{name}.ts").write_text(text)
    settings = json.loads((EXAMPLES / "tsconfig.json").read_text())
    settings["files"] += [f"{name}.ts" for name in programs()]
    (examples / "tsconfig.json").write_text(json.dumps(settings))
    compiled("--build", "test", where=sdk)
    compiled("--project", ".", where=examples)


@cache
def programs() -> dict[str, str]:
    """The code of the guide, of the README, of the sample of every operation, and of the receiver of the portal."""
    pages = {
        "guide": GUIDES / "typescript-sdk.md",
        "readme": SDK / "README.md",
        "testing": GUIDES / "testing-an-app.md",
    }
    texts = {name: "\n".join(block.text for block in blocks(page, "typescript")) for name, page in pages.items()}
    receiver = (ROOT / "src/stoa/portal/assets/receiver.ts").read_text()
    return {**texts, "samples": _samples(), "receiver": receiver}


def _samples() -> str:
    """The samples, each in a function of its own."""
    document = read(description())
    samples = [sample for each in document.operations for sample in each.code_samples]
    every = [sample.source for sample in samples if sample.lang == "TypeScript"]
    start = f'const client = new Client("{document.base_url}", {{ token: process.env.STOA_TOKEN }});\n'
    bodies = [text.partition(start)[2] for text in every]
    imports = {line for text in every for line in text.partition(start)[0].splitlines() if line}
    functions = [f"export async function sample{n}() {{\n{body}\n}}" for n, body in enumerate(bodies)]
    return "\n".join([*sorted(imports), start, *functions])


@pytest.fixture(scope="package")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    url = await migrated_database(f"test_typescript_{os.getpid()}")
    folder = tmp_path_factory.mktemp("typescript-service")
    with Service(folder, database_url=url, workers=1, webhook_allow="127.0.0.0/8") as running:
        yield running


def address(account: Account) -> str:
    return f"{account.service.url}/stores/{account.handle}"


def variables(account: Account) -> dict[str, str]:
    """The environment of an app."""
    return {
        "STOA_BASE_URL": address(account),
        "STOA_AUTH_URL": f"{account.service.url}/oauth/token",
        "STOA_CLIENT_ID": account.client_id,
        "STOA_CLIENT_SECRET": account.client_secret,
    }


def as_json(accounts: dict[str, Account]) -> str:
    members: dict[str, Any] = {
        name: {
            "baseUrl": address(each),
            "authUrl": f"{each.service.url}/oauth/token",
            "clientId": each.client_id,
            "clientSecret": each.client_secret,
            "token": each.token,
        }
        for name, each in accounts.items()
    }
    return json.dumps(members)
