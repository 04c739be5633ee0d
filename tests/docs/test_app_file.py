"""Follow app-file.md in both languages against a running demo: init, push, install, and a verified webhook."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from stoa.app_file.commands import diff, init, pull, push, validate
from stoa.app_file.contract import AppFile
from stoa.app_file.reading import read_file
from tests.docs.pages import GUIDES, blocks, rows
from tests.docs.test_build_an_app import clone, environment
from tests.generated.node import install, needs_npm
from tests.support.service import free_port

__all__ = ["clone", "environment"]
PAGE = GUIDES / "app-file.md"
COMMANDS = [block.text for block in blocks(PAGE, "bash") if not block.text.startswith("make ")]
OTHER = {"python": re.compile(r"typescript|npm "), "typescript": re.compile(r"--language python|app\.py")}


def commands(language: str) -> tuple[str, str]:
    """What to paste into the second terminal, which ends with the running app, and into the third."""
    chosen = [each for each in COMMANDS if not OTHER[language].search(each)]
    start = next(n for n, each in enumerate(chosen) if re.search(r"(app\.py|npm start)$", each.rstrip()))
    return "".join(chosen[: start + 1]), "".join(chosen[start + 1 :])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", ["python", pytest.param("typescript", marks=[needs_npm, pytest.mark.long])])
def test_the_app_of_a_file_receives_a_verified_webhook_and_refuses_a_forgery(
    clone: Path, environment: dict[str, str], api: httpx.Client, language: str
) -> None:
    if language == "typescript":
        install()  # skips if the registry cannot be reached
    port = str(free_port())
    first, second = (each.replace("localhost:3000", f"localhost:{port}") for each in commands(language))
    first = first.replace("--service", f"--port {port} --service")
    started = time.monotonic()
    app = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", first],
        cwd=clone,
        env=environment,
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
        running = time.monotonic()
        said = "".join(output)
        assert output[-1] == f"listening at http://localhost:{port}/stoa\n", said
        assert "stoa.app.toml is valid.\n" in said
        assert said.count("+ subscriptions.products: ") == 2  # in the difference, and in the push
        assert "2 changes applied.\n" in said
        assert "whsec_" not in said
        shown = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", second],
            cwd=clone,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (shown.returncode, shown.stdout.splitlines()[-2:]) == (0, ["201", "400"]), shown.stderr
        received = sorted(re.sub(r"evt_\w+", "evt_...", app.stdout.readline()) for _ in range(2))
        ended = time.monotonic()
        print(  # noqa: T201
            f"{language}: {ended - started:.0f} s from the registration to a verified webhook, {running - started:.0f} s of them "
            "until the app runs"
        )
        assert received[0].startswith("refused: the headers webhook-id")
        assert received[1] == "verified evt_...: product.created on demo\n"
    finally:
        os.killpg(app.pid, signal.SIGTERM)
        app.communicate(timeout=20)
        for product in api.get("/products", params={"q": "Enamel jug"}).json()["data"]:
            assert api.delete(f"/products/{product['id']}").status_code == 204  # other tests count products
    again = subprocess.run(
        [Path(clone / ".venv/bin/stoa"), "app", "push"],
        cwd=clone / "price-watch",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (again.returncode, again.stdout) == (0, "The app is as the file says.\n"), again.stderr


def test_the_shown_file_is_valid_and_has_every_key() -> None:
    [block] = blocks(PAGE, "toml")
    file = read_file(block.text)
    assert all(getattr(file, name) for name in AppFile.__struct_fields__)
    described = [cells[0] for cells in rows(PAGE)]
    assert set(AppFile.__struct_fields__) <= set(described)
    assert {f"stoa app {each.name}" for each in (diff, init, pull, push, validate)} <= {
        " ".join(name.split()[:3]) for name in described
    }


def test_the_shown_fault_is_the_one_that_the_command_prints(tmp_path: Path) -> None:
    [block], [wrong] = blocks(PAGE, "toml"), blocks(PAGE, "text")
    path = tmp_path / "stoa.app.toml"
    path.write_text(block.text.replace("product.*", "prodct.*"))
    printed = CliRunner().invoke(validate, ["--file", str(path)])
    line = wrong.text.partition(": ")[2]
    assert line in printed.stderr
    assert printed.exit_code == 1
