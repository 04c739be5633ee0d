"""Follow build-an-app.md in both languages against a running demo, from the registration to a verified webhook."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.docs.pages import GUIDES, ROOT, blocks
from tests.generated.node import NODE, WHEEL, install, needs_npm
from tests.support.service import Service, free_port

PAGE = GUIDES / "build-an-app.md"
COMMANDS = [block.text for block in blocks(PAGE, "bash") if not block.text.startswith("make ")]
LANGUAGES = {"typescript": re.compile(r"\b(npm|npx|node) "), "python": re.compile(r"\.venv/bin/python ")}
SKU, ON_HAND = "MP-GRN-16", 7


def commands(language: str) -> tuple[str, str, str]:
    """What to paste into the second terminal, which ends with the running app, into the third, and at the end."""
    (other,) = LANGUAGES.keys() - {language}
    chosen = [each for each in COMMANDS if LANGUAGES[language].search(each) or not LANGUAGES[other].search(each)]
    start = next(n for n, each in enumerate(chosen) if re.search(r"stock[-_]app\.(js|py)$", each.rstrip()))
    enter = chosen[start + 1].partition("printf")[0]
    return "".join(chosen[: start + 1]), "".join(chosen[start + 1 : -1]), enter + chosen[-1]


@pytest.fixture
def clone(folder: Path, tmp_path: Path) -> Path:
    """A folder that has what the commands use of a clone in which the demo runs."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / ".stoa").symlink_to(folder / ".stoa")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "sdk").mkdir()
    ignored = shutil.ignore_patterns("node_modules", "dist", "dist-test", "*.tsbuildinfo")
    shutil.copytree(ROOT / "sdk/typescript", tmp_path / "sdk/typescript", ignore=ignored)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "node").symlink_to(NODE)
    for name in ("npm", "npx"):
        script = WHEEL / f"lib/node_modules/npm/bin/{name}-cli.js"
        (tools / name).write_text(f'#!/bin/sh\nexec "{NODE}" "{script}" "$@"\n')
        (tools / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def environment(demo: Service, clone: Path, api: httpx.Client) -> Iterator[dict[str, str]]:
    path = f"{clone / 'bin'}{os.pathsep}{os.environ['PATH']}"
    yield {**demo.environment, "PATH": path, "STOA_PORT": str(demo.port), "npm_config_prefer_offline": "true"}
    item = {"sku": SKU, "op": "set", "quantity": ON_HAND}
    adjusted = api.post("/products/inventory/adjustments", json={"reason": "stocktake", "items": [item]})
    assert adjusted.status_code == 200, adjusted.text


@pytest.mark.timeout(300)
@pytest.mark.parametrize("language", ["python", pytest.param("typescript", marks=[needs_npm, pytest.mark.long])])
def test_the_app_receives_a_verified_webhook_and_refuses_a_forgery(
    clone: Path, environment: dict[str, str], language: str
) -> None:
    if language == "typescript":
        install()  # skips if the registry cannot be reached
    port = str(free_port())
    first, second, last = (each.replace("localhost:3000", f"localhost:{port}") for each in commands(language))
    app = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", first],
        cwd=clone,
        env={**environment, "PORT": port},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert app.stdout is not None
        output: list[str] = []
        for line in app.stdout:
            output.append(line)
            if "listening at" in line:
                break
        assert output[-1] == f"120 stock levels in stock.json, listening at http://localhost:{port}/stoa\n", output
        shown = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", second],
            cwd=clone,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (shown.returncode, shown.stdout) == (0, "1 changed, 0 failed, 0 unknown\n400\n"), shown.stderr
        received = sorted(re.sub(r"evt_\w+", "evt_...", app.stdout.readline()) for _ in range(2))
        assert received[0].startswith("refused: the headers webhook-id")
        assert received[1] == f"verified evt_...: {SKU} has 12 available\n"
    finally:
        os.killpg(app.pid, signal.SIGTERM)
        app.communicate(timeout=20)
    levels = json.loads((clone / "stock-app/stock.json").read_text()).values()
    assert [level["available"] for level in levels if level["sku"] == SKU] == [12]
    cleaned = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", last],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert cleaned.returncode == 0, cleaned.stderr


@pytest.mark.parametrize(
    ("language", "example"), [("typescript", "typescript/stock-app.ts"), ("python", "python/stock_app.py")]
)
def test_the_shown_parts_are_the_whole_program(language: str, example: str) -> None:
    shown = "\n".join(block.text for block in blocks(PAGE, language))
    program = (ROOT / "examples" / example).read_text()
    assert [line for line in shown.splitlines() if line] == [line for line in program.splitlines() if line]
