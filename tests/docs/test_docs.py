"""Compare every name, default, command, and link in the documentation with the code."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import msgspec
import pytest

from stoa.access.contract import SCOPES, OAuthError
from stoa.api import ENDPOINTS
from stoa.background import DUTIES, Duty
from stoa.cli import cli
from stoa.operations import telemetry
from stoa.rest.endpoint import Endpoint
from stoa.rest.openapi.errors import errors_of
from stoa.rest.problems import Refusal
from stoa.rest.scopes import EACH
from stoa.settings import Settings, described
from tests.docs.pages import DECISIONS, GUIDES, OPERATIONS, PAGES, ROOT, blocks, prose, rows
from tests.support.metrics import exported

cli.load_all()
EVERY_PAGE = [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in PAGES]
RECORDS = [pytest.param(page, id=page.name) for page in sorted(DECISIONS.glob("*.md"))]

_METHODS = ("GET ", "POST ", "PUT ", "PATCH ", "DELETE ")
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FILE = re.compile(r"[\w./-]+\.(?:py|sql|md|toml|json|lock)\Z")


def shipped(kind: type) -> bool:
    """Return whether a class belongs to the service and not to a test."""
    return kind.__module__.startswith("stoa.")


# --- tables that match declarations in the code ----------------------------------------------------------------------


def test_every_setting_is_documented_with_its_default_and_description() -> None:
    documented = {cells[0]: cells[1:] for cells in rows(OPERATIONS / "settings.md")}
    for setting in described(Settings()):
        default, meaning = documented[setting["variable"]]
        assert default == (setting["default"] or "(empty)")
        assert meaning == setting["description"]


def test_every_error_code_is_documented_with_its_status_and_retryability() -> None:
    documented = {cells[1]: (cells[0], cells[2]) for cells in rows(GUIDES / "errors.md") if len(cells) == 4}
    raised = {error for endpoint in ENDPOINTS for error in errors_of(endpoint)}
    for kind in raised | {kind for kind in Refusal.known.values() if shipped(kind)}:
        assert kind.code in documented, f"{kind.code} has no row in docs/guides/errors.md"
        assert documented[kind.code] == (str(kind.status), "yes" if kind.retryable else "no"), kind.code


def test_every_token_endpoint_error_is_documented_with_its_status() -> None:
    documented = {cells[1]: cells[0] for cells in rows(GUIDES / "authentication.md") if len(cells) == 3}
    for kind in OAuthError.__subclasses__():
        assert documented[kind.error] == str(kind.status)


def test_every_scope_is_documented_with_its_description() -> None:
    documented = {cells[0]: cells[1] for cells in rows(GUIDES / "authentication.md") if len(cells) == 2}
    assert {scope: meaning for scope, meaning in documented.items() if ":" in scope} == SCOPES


def test_every_operation_is_documented_with_its_scopes() -> None:
    documented = [cells for cells in rows(GUIDES / "authentication.md") if cells[0].startswith(_METHODS)]
    assert [[cell.replace("`", "") for cell in cells] for cells in documented] == [
        [f"{endpoint.method} {endpoint.path}", endpoint.scope, _further_scopes(endpoint)] for endpoint in ENDPOINTS
    ]


def _further_scopes(endpoint: Endpoint) -> str:
    """Return the scopes that fields of the request need, each with its fields."""
    scopes: dict[str, list[str]] = {}
    for path, scope in endpoint.field_scopes:
        scopes.setdefault(scope, []).append(".".join(path).replace(f".{EACH}", "[]"))
    return "; ".join(f"{scope} for {', '.join(sorted(fields))}" for scope, fields in scopes.items())


def test_every_make_target_is_listed_by_make_help() -> None:
    targets = re.findall(r"^([a-z-]+):(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [name for name, rest in targets if "## " not in rest] == []


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"`make ([a-z-]+)|^make ([a-z-]+)", page.read_text(), re.MULTILINE)
    assert {inline or line for inline, line in named} <= targets


def test_every_command_is_in_the_command_line_table() -> None:
    documented = {
        word for cells in rows(OPERATIONS / "command-line.md") for word in re.findall(r"stoa ([\w-]+)", cells[0])
    }
    assert documented == set(cli.commands)


def test_every_command_is_named_in_the_changelog() -> None:
    (line,) = re.findall(
        r"^- \*\*The `stoa` command\*\*: (.+?)\.$", prose(ROOT / "CHANGELOG.md"), re.MULTILINE | re.DOTALL
    )
    assert set(_INLINE.findall(line)) == set(cli.commands)


def test_documented_metrics_and_log_fields_match_the_code() -> None:
    page = OPERATIONS / "running.md"
    names = {f"{family.name}_total" if family.type == "counter" else family.name for family in exported()}
    documented = set(re.findall(r"`(stoa_\w+)`", prose(page)))
    assert documented == names
    logs = prose(page).partition("| Field | Content |")[2].partition("\n\n")[0]
    fields = {word for line in logs.splitlines() for word in re.findall(r"`(\w+)`", line.split(" | ")[0])}
    assert fields == telemetry.LOGGED


def test_every_background_duty_is_documented_with_its_interval() -> None:
    def runs(duty: Duty) -> str:
        interval = "always" if duty.every is None else f"every {duty.every:.0f} second{'' if duty.every == 1 else 's'}"
        return f"{interval}, with `STOA_SMTP_URL" if duty.sends_mail else interval

    section = prose(OPERATIONS / "running.md").partition("| Duty | Runs |")[2].partition("\n\n")[0]
    documented = [tuple(line.strip("|").split(" | ")[:2]) for line in section.splitlines()[2:]]
    assert [(name.strip(), text.strip("` ")) for name, text in documented] == [
        (duty.name, runs(duty)) for duty in DUTIES
    ]


# --- decision records -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", RECORDS)
def test_a_decision_record_ends_with_what_enforces_it(page: Path) -> None:
    last = page.read_text().rstrip().rsplit("\n\n", 1)[-1]
    assert last.startswith("Enforced by: ")
    files = [name for name in _INLINE.findall(last) if "/" in name or _FILE.match(name)]
    assert files
    for name in files:
        assert (ROOT / name).exists() or (ROOT / "src/stoa" / name).exists(), f"{name} does not exist"


def test_decision_records_are_numbered_without_gaps_and_titled_by_their_number() -> None:
    pages = sorted(DECISIONS.glob("*.md"))
    assert [page.name[:4] for page in pages] == [f"{n:04}" for n in range(1, len(pages) + 1)]
    for number, page in enumerate(pages, 1):
        assert page.read_text().startswith(f"# {number}. ")


# --- checks of every page ---------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    titles = _HEADING.findall(prose(page))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_every_link_resolves(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{link} has no target"
        assert not anchor or anchor in anchors(target), f"{link} has no matching heading"


@cache
def file_names() -> set[str]:
    folders = [ROOT / folder for folder in ("src", "tests", "docs", "examples")]
    known = {path.name for folder in folders for path in folder.rglob("*.*")} | {path.name for path in ROOT.iterdir()}
    return known | {"openapi.json", "secret.key", "stoa.app.toml", "stock.json"}


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    """A bare name such as `contract.py` may exist in any slice."""
    known = file_names()
    for name in _INLINE.findall(prose(page)):
        if _FILE.match(name) and not name.startswith("/"):
            found = [folder / name for folder in (ROOT, ROOT / "src/stoa", page.parent) if (folder / name).exists()]
            assert found or ("/" not in name and name in known), f"{name} does not exist"


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_every_code_block_parses(page: Path) -> None:
    for block in blocks(page, "bash"):
        checked = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr
    for block in blocks(page, "python"):
        compile(block.text, page.name, "exec")


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the `stoa` commands in a page's shell blocks as words, up to a pipe or a redirection."""
    for block in blocks(page, "bash"):
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(re.split(r"\s[|<>]\s|\s#", line)[0]) if line.count("'") % 2 == 0 else []
            while words and re.match(r"[A-Z_]+=", words[0]):
                words = words[1:]
            if words and words[0] in ("stoa", ".venv/bin/stoa"):
                yield words[1:]


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_every_stoa_command_is_valid(page: Path) -> None:
    for words in commands(page):
        command: click.Command = cli
        rest = list(words)
        while isinstance(command, click.Group):
            inner = command.commands.get(rest[0])
            assert inner is not None, f"stoa {' '.join(words)}"
            command, rest = inner, rest[1:]
        command.make_context("stoa", rest).close()  # parses the arguments without running the command


def test_the_examples_for_contributors_match_the_code() -> None:
    files = ("tests/support/notes.py", *(f"src/stoa/products/{name}.py" for name in ("contract", "bodies", "queries")))
    code = "\n".join((ROOT / file).read_text() for file in files)
    examples = blocks(ROOT / "CONTRIBUTING.md", "python")
    assert examples
    lines = "\n".join(line.strip() for line in code.splitlines())
    for example in examples:
        assert "\n".join(line.strip() for line in example.text.splitlines()) in lines


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_no_page_names_a_private_host_or_path(page: Path) -> None:
    text = page.read_text()
    for host in re.findall(r"(?:https?|postgresql)://(?:[\w:]*@)?([\w.-]+)", text):
        assert host in ("localhost", "127.0.0.1") or host.endswith("example.com"), f"{host} is not an example host"
    assert not re.search(r"(?<![\w.])/(?:work|home|root|tmp|usr|var)/", text)


@pytest.mark.parametrize(("file", "currency"), [("catalog.json", "USD"), ("second.json", "JPY")])
def test_the_readme_states_the_demos_product_counts(file: str, currency: str) -> None:
    document = msgspec.json.decode((ROOT / "src/stoa/demo" / file).read_bytes())
    store, count = document["store"], len(document["products"])
    assert store["currency"] == currency
    assert f"`{store['handle']}` ({count} products" in (ROOT / "README.md").read_text()
