"""What the pages tell a newcomer to paste is pasted here, against a running demo, and answers what they show."""

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

MARK = "--- next block ---"
TOKEN = next(block.text for block in blocks(GUIDES / "quickstart.md", "bash") if "TOKEN=$(" in block.text)
CALLING = [ROOT / "README.md", GUIDES / "quickstart.md", GUIDES / "authentication.md"]

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no Node here")


def alike(shown: Any, real: Any) -> bool:
    """Whether an answer on a page is the real one, where three dots stand for what is left out."""
    if isinstance(shown, dict) and isinstance(real, dict):
        given, whole = cast("dict[str, Any]", shown), cast("dict[str, Any]", real)
        return all(name == "..." or (name in whole and alike(each, whole[name])) for name, each in given.items())
    if isinstance(shown, list) and isinstance(real, list):
        items, answers = cast("list[Any]", shown), cast("list[Any]", real)
        return len(items) == len(answers) and all(map(alike, items, answers))
    if isinstance(shown, str) and shown.endswith("..."):
        return str(real).startswith(shown.removesuffix("..."))
    return shown == real


@needs_curl
@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in CALLING])
def test_a_pages_calls_work_when_pasted_and_answer_what_it_shows(folder: Path, page: Path) -> None:
    kept = [block for block in blocks(page, "bash", "json") if block.language == "json" or _calls(block.text)]
    asks = [block.text for block in kept if block.language == "bash"]
    script = f"\necho; echo '{MARK}'\n".join(["source .stoa/demo.env", TOKEN, *asks])
    run = subprocess.run(["bash", "-eu", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "/problems/" not in run.stdout
    assert '"error"' not in run.stdout
    answers = iter(run.stdout.split(MARK)[2:])
    answer = ""
    for block in kept:
        if block.language == "bash":
            answer = next(answers).strip()
        elif answer:
            assert alike(msgspec.json.decode(block.text), msgspec.json.decode(answer)), f"not as shown: {answer}"
            answer = ""


def _calls(text: str) -> bool:
    return "curl -s" in text or text.startswith("source ")


@pytest.mark.parametrize(
    ("language", "command"),
    [
        ("python", [sys.executable, "-c"]),
        pytest.param("javascript", ["node", "--input-type=module", "-e"], marks=needs_node),
    ],
)
def test_the_first_programs_list_every_product(variables: dict[str, str], language: str, command: list[str]) -> None:
    (program,) = blocks(GUIDES / "quickstart.md", language)
    environment = {**os.environ, **variables}
    run = subprocess.run([*command, program.text], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 48
    assert "1 Linen Shirt 78.00" in run.stdout


@needs_curl
def test_the_two_tries_of_one_write_have_one_effect(folder: Path, api: httpx.Client) -> None:
    (example,) = blocks(GUIDES / "idempotency.md", "bash")
    script = f"source .stoa/demo.env\n{TOKEN}\n{example.text}"
    run = subprocess.run(["bash", "-eu", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("HTTP/1.1 201 ") == 2
    assert run.stdout.count("idempotent-replayed: true") == 1
    found = api.get("/products", params={"sku": "TIN-1"}).json()
    assert found["meta"]["total"] == 1
    assert api.delete(f"/products/{found['data'][0]['id']}").status_code == 204  # the shelves as they were


def test_the_recipe_for_a_copy_in_step_fills_it_and_has_nothing_to_add_the_second_time(api: httpx.Client) -> None:
    (recipe,) = blocks(GUIDES / "pagination-and-sync.md", "python")
    names: dict[str, Any] = {}
    exec(recipe.text, names)  # noqa: S102 - our own page
    copy: dict[int, Any] = {}
    since = names["sync"](api, copy)
    assert sum("name" in product for product in copy.values()) == api.get("/products").json()["meta"]["total"]
    before = dict(copy)
    assert names["sync"](api, copy, since) == since
    assert copy == before


def test_the_problem_on_the_page_about_errors_is_what_is_answered(api: httpx.Client) -> None:
    (shown,) = blocks(GUIDES / "errors.md", "json")
    problem, real = msgspec.json.decode(shown.text), api.get("/products", params={"status": "x", "limit": "0"}).json()
    for name, start in (("type", "/problems/"), ("request_id", "req_")):
        assert start in problem.pop(name)
        assert start in real.pop(name)
    assert problem == real


def test_the_page_about_lists_shows_what_a_page_tells_of_itself(api: httpx.Client) -> None:
    (shown,) = blocks(GUIDES / "pagination-and-sync.md", "json")
    assert msgspec.json.decode(shown.text)["meta"] == api.get("/products").json()["meta"]
