"""Run the examples of the pages against a running demo and compare the responses with those shown."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
import pytest

from tests.docs.pages import GUIDES, ROOT, blocks

SEPARATOR = "--- next block ---"
TOKEN = next(block.text for block in blocks(GUIDES / "quickstart.md", "bash") if "TOKEN=$(" in block.text)
CALLING = [ROOT / "README.md", GUIDES / "quickstart.md", GUIDES / "authentication.md", GUIDES / "installing.md"]

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")


def matches(shown: Any, real: Any) -> bool:
    """Return whether a response on a page matches the real one; "..." stands for omitted parts."""
    if isinstance(shown, dict) and isinstance(real, dict):
        shown_object, real_object = cast("dict[str, Any]", shown), cast("dict[str, Any]", real)
        return all(
            name == "..." or (name in real_object and matches(each, real_object[name]))
            for name, each in shown_object.items()
        )
    if isinstance(shown, list) and isinstance(real, list):
        shown_items, real_items = cast("list[Any]", shown), cast("list[Any]", real)
        return len(shown_items) == len(real_items) and all(map(matches, shown_items, real_items))
    if isinstance(shown, str) and shown.endswith("..."):
        return str(real).startswith(shown.removesuffix("..."))
    return shown == real


@needs_curl
@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in CALLING])
def test_pasted_commands_return_the_shown_responses(folder: Path, page: Path) -> None:
    examples = [block for block in blocks(page, "bash", "json") if block.language == "json" or _calls(block.text)]
    commands = [block.text for block in examples if block.language == "bash"]
    script = f"\necho; echo '{SEPARATOR}'\n".join(["source .stoa/demo.env", TOKEN, *commands])
    run = subprocess.run(["bash", "-eu", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "/problems/" not in run.stdout
    assert '"error"' not in run.stdout
    responses = iter(run.stdout.split(SEPARATOR)[2:])
    response = ""
    for block in examples:
        if block.language == "bash":
            response = next(responses).strip()
        elif response:
            assert matches(msgspec.json.decode(block.text), msgspec.json.decode(response)), f"not as shown: {response}"
            response = ""


def _calls(text: str) -> bool:
    return "curl -s" in text or text.startswith("source ")


@pytest.mark.parametrize(
    ("language", "command"),
    [
        ("python", [sys.executable, "-c"]),
        pytest.param("javascript", ["node", "--input-type=module", "-e"], marks=needs_node),
    ],
)
def test_the_quickstart_programs_list_every_product(
    variables: dict[str, str], language: str, command: list[str]
) -> None:
    (program,) = blocks(GUIDES / "quickstart.md", language)
    environment = {**os.environ, **variables}
    run = subprocess.run([*command, program.text], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 48
    assert "1 Linen Shirt 78.00" in run.stdout


@needs_curl
def test_two_attempts_with_one_key_have_one_effect(folder: Path, api: httpx.Client) -> None:
    (example,) = blocks(GUIDES / "idempotency.md", "bash")
    script = f"source .stoa/demo.env\n{TOKEN}\n{example.text}"
    run = subprocess.run(["bash", "-eu", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("HTTP/1.1 201 ") == 2
    assert run.stdout.count("idempotent-replayed: true") == 1
    found = api.get("/products", params={"sku": "TIN-1"}).json()
    assert found["meta"]["total"] == 1
    assert api.delete(f"/products/{found['data'][0]['id']}").status_code == 204  # other tests count products


def test_the_sync_example_fills_a_copy_and_changes_nothing_the_second_time(api: httpx.Client) -> None:
    (example,) = blocks(GUIDES / "pagination-and-sync.md", "python")
    names: dict[str, Any] = {}
    exec(example.text, names)  # noqa: S102 - our own page
    copy: dict[int, Any] = {}
    since = names["sync"](api, copy)
    assert sum("name" in product for product in copy.values()) == api.get("/products").json()["meta"]["total"]
    before = dict(copy)
    assert names["sync"](api, copy, since) == since
    assert copy == before


def test_the_example_problem_matches_the_response(api: httpx.Client) -> None:
    (shown,) = blocks(GUIDES / "errors.md", "json")
    problem, real = msgspec.json.decode(shown.text), api.get("/products", params={"status": "x", "limit": "0"}).json()
    for name, start in (("type", "/problems/"), ("request_id", "req_")):
        assert start in problem.pop(name)
        assert start in real.pop(name)
    assert problem == real


def test_the_example_page_matches_the_response(api: httpx.Client) -> None:
    (shown,) = blocks(GUIDES / "pagination-and-sync.md", "json")
    assert msgspec.json.decode(shown.text)["meta"] == api.get("/products").json()["meta"]
