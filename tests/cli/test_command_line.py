"""The command line: every command has help with an example, JSON output, and meaningful exit codes."""

import asyncio
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from stoa.access.console import open_console
from stoa.cli import cli
from stoa.settings import Settings
from tests.docs.pages import OPERATIONS, rows
from tests.support.service import STOA, Service, free_port, new_database
from tests.support.shops import MUG, Shop

Run = Callable[..., Any]


def walk(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from walk(inner, *path, name)


cli.load_all()
EVERY = dict(walk(cli))
LEAVES = {path: command for path, command in EVERY.items() if not isinstance(command, click.Group)}
WITH_JSON = [path for path, command in LEAVES.items() if any("--json" in each.opts for each in command.params)]
WITHOUT_JSON = {
    ("app", "init"),
    ("app", "pull"),
    ("serve",),
    ("demo",),
    ("mcp",),
    ("worker",),
    ("openapi",),
    ("completion",),
    ("store", "export"),
}
# Tested below and in tests/app_file, tests/webhooks, tests/fault, tests/cluster, tests/shards, tests/imports, tests/orders, tests/access and test_doctor.py.
ELSEWHERE = {
    ("import", "cancel"),
    ("import", "orders"),
    *(("app", "subscriptions", name) for name in ("list", "add", "remove", "resume")),
    *(("app", name) for name in ("validate", "diff", "push")),
    ("app", "deploy-tokens", "revoke"),
    ("account", "set-up"),
    ("listen",),
    ("backup",),
    ("restore",),
    ("erasures", "export"),
    ("erasures", "replay"),
    ("doctor",),
    ("accept-key",),
    ("db", "distribute"),
    ("db", "isolate"),
    ("shard", "add"),
    ("shard", "remove"),
    ("shard", "restore"),
    ("shard", "move"),
    ("shard", "drain"),
}

# Arguments for each command; `{...}` are values of the test's store.
ARGUMENTS: dict[tuple[str, ...], str] = {
    ("store", "create"): "cli-{app_id}-new --name New --currency EUR",
    ("store", "update"): "{handle} --timezone Europe/Berlin --prices-include-tax",
    ("store", "suspend"): "{handle}",
    ("store", "resume"): "{handle}",
    ("store", "close"): "{handle}",
    ("store", "reopen"): "{handle}",
    ("store", "delete"): "{handle} --confirm {handle}",
    ("store", "cancel-deletion"): "{handle}",
    ("location", "list"): "{handle}",
    ("location", "add"): "{handle} east --name East",
    ("location", "update"): "{handle} default --priority 5",
    ("location", "deactivate"): "{handle} west",
    ("location", "activate"): "{handle} default",
    ("collection", "list"): "{handle}",
    ("collection", "create"): "{handle} summer --title Summer",
    ("collection", "update"): "{handle} gifts --rule tag=linen",
    ("collection", "delete"): "{handle} gifts",
    ("collection", "add"): "{handle} gifts MUG-1",
    ("collection", "remove"): "{handle} gifts MUG-1",
    ("metadata", "list"): "--store {handle}",
    ("metadata", "define"): "product care --type string --store {handle}",
    ("metadata", "remove"): "product size --store {handle}",
    ("app", "create"): "Sync --scopes products:read",
    ("app", "install"): "{client_id} {handle}",
    ("app", "uninstall"): "{client_id} {handle}",
    ("app", "rotate-secret"): "{client_id} --force",
    ("app", "callbacks"): "{client_id} --return-url https://app.example.com/",
    ("app", "rotate-signing-secret"): "{client_id}",
    ("app", "keys", "add"): "{client_id} {key}",
    ("app", "keys", "list"): "{client_id}",
    ("app", "keys", "remove"): "{client_id} cli",
    ("app", "deploy-tokens", "create"): "{client_id} --name CI --days 30",
    ("app", "deploy-tokens", "list"): "{client_id}",
    ("app", "suspend"): "{client_id}",
    ("app", "resume"): "{client_id}",
    ("token", "issue"): "{client_id} --store {handle}",
    ("token", "revoke"): "--app {client_id}",
    ("audit", "list"): "--store {handle}",
    ("audit", "verify"): "--store {handle}",
    ("export",): "products --store {handle} -o {exported}",
    ("import", "products"): "{file} --store {handle}",
    ("import", "customers"): "{people} --store {handle}",
    ("account", "create"): "new-{app_id}@example.com --name New --generate",
    ("account", "invite"): "guest-{app_id}@example.com",
    ("account", "disable"): "{person}",
    ("account", "enable"): "{person}",
    ("account", "reset"): "{person}",
    ("account", "give"): "{person} --store {handle}",
    ("account", "take"): "{person} --store {handle}",
    ("account", "members"): "--store {handle}",
}


KEY = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "cli"}


def ids(paths: Any) -> list[str]:
    return [" ".join(path) or "stoa" for path in paths]


@pytest.mark.parametrize("path", EVERY, ids=ids(EVERY))
def test_every_command_has_help_with_a_valid_example(path: tuple[str, ...]) -> None:
    command = EVERY[path]
    shown = command.get_help(click.Context(command, info_name="stoa"))
    assert re.search(r"Examples?:", shown), "no example"
    assert all(each.help for each in command.params if isinstance(each, click.Option))
    for words in _examples(shown):
        _assert_valid(words)


def _examples(shown: str) -> Iterator[list[str]]:
    for line in shown.partition("Example")[2].splitlines()[1:]:
        found = re.search(r"(?:^|\s|\()stoa (.+)", re.split(r"\s{3,}\S|\s[|<>]\s|\)", line.strip())[0])
        if found:
            yield shlex.split(found[1])


def _assert_valid(words: list[str]) -> None:
    command, rest = cli, list(words)
    while isinstance(command, click.Group):
        inner = command.commands.get(rest[0])
        assert inner is not None, f"stoa {' '.join(words)}"
        command, rest = inner, rest[1:]
    try:
        command.make_context("stoa", rest).close()
    except click.BadParameter as error:
        if "does not exist" not in error.message:  # the file of an example
            raise


def runner(settings: Settings, *, catch_exceptions: bool = False) -> Run:
    """Run a command as a shell would, in a thread because it starts its own event loop."""

    group = click.Group(commands=dict(cli.commands))

    async def run(*words: str) -> Result:
        return await asyncio.to_thread(
            CliRunner().invoke, group, list(words), obj=open_console(settings), catch_exceptions=catch_exceptions
        )

    return run


@pytest.fixture
def stoa(settings: Settings) -> Run:
    return runner(settings)


def test_every_command_with_output_supports_json() -> None:
    assert set(LEAVES) - set(WITH_JSON) <= WITHOUT_JSON


@pytest.mark.parametrize("path", [path for path in WITH_JSON if path not in ELSEWHERE], ids=" ".join)
async def test_json_output_is_valid_json_and_nothing_else(
    stoa: Run, shop: Shop, tmp_path: Path, path: tuple[str, ...]
) -> None:
    (tmp_path / "goods.csv").write_text("sku,name,price\nA,Mug,1.00\n")
    (tmp_path / "people.csv").write_text("email,first_name\nada@example.com,Ada\n")
    person = f"person-{shop.app_id}@example.com"
    if path[0] == "account":
        await stoa("account", "create", person, "--name", "Person", "--generate")
    if path == ("account", "take"):
        await stoa("account", "give", person, "--store", shop.store.handle)
    if path == ("app", "rotate-signing-secret"):
        await stoa("app", "callbacks", shop.client_id, "--return-url", "https://app.example.com/")
    (tmp_path / "key.json").write_text(json.dumps(KEY))
    if path == ("app", "keys", "remove"):
        await stoa("app", "keys", "add", shop.client_id, str(tmp_path / "key.json"))
    if path == ("metadata", "remove"):
        await stoa("metadata", "define", "product", "size", "--type", "string", "--store", shop.store.handle)
    if path[0] == "collection":
        await stoa("collection", "create", shop.store.handle, "gifts", "--title", "Gifts")
        await shop.add(MUG)
    if path == ("location", "deactivate"):
        await stoa("location", "add", shop.store.handle, "west", "--name", "West")
    words = ARGUMENTS.get(path, "").format(
        person=person,
        handle=shop.store.handle,
        client_id=shop.client_id,
        app_id=shop.app_id,
        file=tmp_path / "goods.csv",
        people=tmp_path / "people.csv",
        key=tmp_path / "key.json",
        exported=tmp_path / "products.csv",
    )
    done: Result = await stoa(*path, *shlex.split(words), "--json")
    # Other tests of this process leave rows of pictures without files, which the check of all stores finds.
    assert done.exit_code == 0 or path == ("media", "check"), done.output
    json.loads(done.stdout)


async def test_a_link_for_the_first_account_is_created_only_while_there_is_none(stoa: Run, shop: Shop) -> None:
    await stoa("account", "create", f"first-{shop.app_id}@example.com", "--name", "First", "--generate")
    done: Result = await stoa("account", "set-up")
    assert done.exit_code == 1
    assert "an account exists; `stoa account invite`" in done.stderr


@pytest.fixture(scope="module")
async def empty_database() -> str:
    return await new_database(f"empty_{os.getpid()}")


@pytest.mark.not_on_cluster("an empty database is not part of a cluster")
@pytest.mark.parametrize(
    "words",
    [
        *("store list", "app list", "account list", "account set-up", "audit list", "location list demo"),
        *(
            "import products FILE --store demo",
            "store export demo",
            "export orders --store demo",
            "db status",
            "accept-key --yes",
        ),
        "erasures export FILE --overwrite",
    ],
)
async def test_a_command_on_an_empty_database_says_to_migrate_it(
    settings: Settings, empty_database: str, tmp_path: Path, words: str
) -> None:
    (tmp_path / "file").write_text("sku,name,price\n")
    on_empty = msgspec.structs.replace(settings, database_url=empty_database)
    invoked = words.replace("FILE", str(tmp_path / "file")).split()
    done: Result = await runner(on_empty, catch_exceptions=True)(*invoked)
    assert done.exit_code != 0
    assert "has no schema of Stoa yet: run `stoa migrate`" in f"{done.exception} {done.stderr}"


@pytest.mark.parametrize("command", ["backup", "erasures export", "export products --store {} -o"])
async def test_a_file_that_cannot_be_written_is_named(stoa: Run, shop: Shop, tmp_path: Path, command: str) -> None:
    file = tmp_path / "missing" / "file.csv"
    refused = await stoa(*command.format(shop.store.handle).split(), str(file))
    assert refused.exit_code == 1
    assert f"error: {file} cannot be written: No such file or directory" in refused.stderr


async def test_tables_contain_no_python_or_json_notation(stoa: Run, shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "goods.csv").write_text("external_id,name,price\nerp-3,Tray,much\n")
    person = f"reader-{shop.app_id}@example.com"
    await stoa("account", "create", person, "--name", "Reader", "--operator", "--generate")
    words = ("import", "products", str(tmp_path / "goods.csv"), "--store", shop.store.handle)
    outputs = {
        "account": (await stoa("account", "list")).stdout,
        "import": (await stoa(*words, "--match-by", "external_id")).stdout,
        "audit": (await stoa("audit", "list", "--store", shop.store.handle)).stdout,
    }
    assert re.search(rf"{person} +Reader .*\byes\b.*\bno\b", outputs["account"]), outputs["account"]
    assert re.search(r"external_id: erp-3 +/price +invalid_money", outputs["import"]), outputs["import"]
    assert "scopes: " in outputs["audit"], outputs["audit"]
    for name, text in outputs.items():
        assert not re.search(r"\b(True|False|None)\b|[{}\[\]]", text), f"{name}: {text}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_valid(shell: str) -> None:
    script = CliRunner().invoke(cli, ["completion", shell]).stdout
    assert "_STOA_COMPLETE" in script
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr


def test_the_completion_offers_commands_options_and_values() -> None:
    def completed(*words: str) -> str:
        environment = {
            **os.environ,
            "_STOA_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["stoa", *words]),
            "COMP_CWORD": str(len(words)),
        }
        return subprocess.run(STOA, env=environment, capture_output=True, text=True, check=False).stdout

    assert completed("st") == "plain,store\n"
    assert "plain,--currency\n" in completed("store", "create", "x", "--c")
    assert completed("completion", "z") == "plain,zsh\n"


# --- exit codes ------------------------------------------------------------------------------------------------------


def test_the_exit_codes_are_documented() -> None:
    written = {cells[0] for cells in rows(OPERATIONS / "command-line.md") if cells[0].isdecimal()}
    assert written == {"0", "1", "2", "3", "4", "130"}


@pytest.mark.parametrize(
    ("words", "settings", "code", "message"),
    [
        (["completion", "bash"], {}, 0, ""),
        (["--version"], {}, 0, ""),
        (["stroe", "list"], {}, 2, "Did you mean stoa store?"),
        (["app", "instal"], {}, 2, "Did you mean stoa app install?"),
        (["store", "create"], {}, 2, "Missing argument 'HANDLE'"),
        (["settings"], {"port": "many"}, 2, "error: STOA_PORT='many' is invalid"),
        (["store", "list"], {"database_url": f"postgresql://127.0.0.1:{free_port()}/x"}, 3, "cannot be reached"),
        (["migrate"], {"database_url": f"postgresql://127.0.0.1:{free_port()}/x"}, 3, "cannot be reached"),
    ],
)
def test_a_command_exits_with_the_code_for_its_outcome(
    tmp_path: Path, words: list[str], settings: dict[str, str], code: int, message: str
) -> None:
    done = Service(tmp_path).run(*words, **settings)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_internal_error_is_one_line_unless_a_traceback_is_requested(tmp_path: Path) -> None:
    broken = "import stoa.settings as s; s.load = lambda **_: 1 / 0\nfrom stoa.cli import main; main()"
    for words, traced in ((["settings"], False), (["--traceback", "settings"], True)):
        done = subprocess.run([sys.executable, "-c", broken, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "ZeroDivisionError" in done.stderr
        assert ("Traceback" in done.stderr) == traced


def test_ctrl_c_exits_with_130() -> None:
    code = "import os, signal\nfrom stoa.cli import main\nmain(lambda **_: os.kill(os.getpid(), signal.SIGINT))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_closed_pipe_ends_a_command_quietly(tmp_path: Path) -> None:
    environment = Service(tmp_path).environment
    command = " ".join(map(shlex.quote, [*STOA, "openapi"]))
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} | head -c 1"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("{", "")


# --- in a terminal ---------------------------------------------------------------------------------------------------


class Terminal:
    """A command in a pseudo-terminal."""

    def __init__(self, *words: str, environment: dict[str, str]) -> None:
        self._screen, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*STOA, *words], env={**environment, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        self.seen = b""

    def read(self) -> bool:
        """Read more output; returns whether there may be more."""
        with suppress(OSError):
            part = os.read(self._screen, 4096)
            self.seen += part
            return bool(part)
        return False

    def close(self) -> int:
        while self.read():
            pass
        os.close(self._screen)
        return self.process.wait()


async def test_a_long_import_shows_its_progress(settings: Settings, shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "goods.csv"
    lines = (f"SKU-{n},Mug {n},1.00\n" for n in range(3000))
    file.write_text("sku,name,price\n" + "".join(lines))
    environment = Service(tmp_path, database_url=settings.database_url).environment
    terminal = Terminal("import", "products", str(file), "--store", shop.store.handle, environment=environment)
    assert await asyncio.to_thread(terminal.close) == 0
    screen = terminal.seen.decode()
    assert "Importing" in screen
    assert re.search(r"\d+/3000", screen)
    assert "succeeded" in screen


async def test_a_long_export_shows_its_progress(settings: Settings, shop: Shop, tmp_path: Path) -> None:
    await shop.add(*({"name": f"Mug {n}", "price": "1.00"} for n in range(1_300)))
    file = tmp_path / "products.ndjson"
    environment = Service(tmp_path, database_url=settings.database_url).environment
    words = ("export", "products", "--store", shop.store.handle, "-o", str(file))
    terminal = Terminal(*words, environment=environment)
    assert await asyncio.to_thread(terminal.close) == 0
    screen = terminal.seen.decode()
    assert "Exporting products" in screen
    assert re.search(r"\d+/1300", screen)
    assert file.read_bytes().count(b"\n") == 1_300


@pytest.mark.parametrize("loaded_before", [False, True])
def test_rich_is_loaded_only_to_show_something(*, loaded_before: bool) -> None:
    """It takes an eighth of the start of a worker and 4 MB of its memory."""
    first = "import rich" if loaded_before else ""
    program = f"{first}\nimport sys, stoa.cli, stoa.web_worker, stoa.worker\nprint('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(loaded_before)
