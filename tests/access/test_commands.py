"""The commands for operators: their output for people and for programs, and their exit codes."""

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from stoa.access.audit_commands import COMMANDS as AUDIT_COMMANDS
from stoa.access.console import Console, open_console
from stoa.access.contract import SCOPES
from stoa.access.token_commands import COMMANDS as TOKEN_COMMANDS
from stoa.app_file.commands import COMMANDS as APP_COMMANDS
from stoa.db.connection import connect
from stoa.db.pool import Database
from stoa.processes.serving import check_start
from stoa.settings import Settings
from stoa.store_data.export_commands import COMMANDS as STORE_COMMANDS
from stoa.store_data.store_erasure import DueStore, receive_erasure
from tests.access.tenants import new_handle

Stoa = Callable[..., Result]
COMMANDS = [*STORE_COMMANDS, *APP_COMMANDS, *TOKEN_COMMANDS, *AUDIT_COMMANDS]


@pytest.fixture
def console(settings: Settings) -> Console:
    return open_console(settings)


@pytest.fixture
def stoa(console: Console) -> Stoa:
    """Run a command as a shell would."""
    group = click.Group(commands=COMMANDS)

    def run(*words: str, typed: str | None = None) -> Result:
        return CliRunner().invoke(group, list(words), obj=console, input=typed)

    return run


def parsed(result: Result) -> Any:
    """The JSON output of a successful command."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def handle(stoa: Stoa) -> str:
    made = stoa("store", "create", new_handle(), "--name", "Demo shop", "--currency", "EUR", "--json")
    return parsed(made)["handle"]


@pytest.fixture
def app(stoa: Stoa) -> dict[str, Any]:
    return parsed(stoa("app", "create", "Stock sync", "--scopes", "orders:read,products:write", "--json"))


def change(database_url: str, sql: str, *args: object) -> None:
    async def run() -> None:
        db = await connect(database_url)
        await db.execute(sql, *args)
        await db.close()

    asyncio.run(run())


# --- output --------------------------------------------------------------------------------------------------------


def test_a_store_is_created_and_listed(stoa: Stoa) -> None:
    handle = new_handle()
    words = ("--name", "Demo shop", "--currency", "EUR", "--host", f"{handle}.example.org")
    made = parsed(stoa("store", "create", handle, *words, "--json"))
    fields = ["id", "handle", "name", "currency", "prices_include_tax", "status", "timezone", "locale", "hosts"]
    assert list(made) == [*fields, "created_at", "erase_at", "shard"]
    assert made["hosts"] == [f"{handle}.example.org"]
    assert made in parsed(stoa("store", "list", "--json"))


def test_prices_of_a_store_include_taxes_if_an_operator_says_so(stoa: Stoa, handle: str) -> None:
    other = new_handle()
    words = ("--name", "Shop", "--currency", "EUR", "--prices-include-tax", "--json")
    assert parsed(stoa("store", "create", other, *words))["prices_include_tax"] is True
    for option, value in (
        ("--prices-include-tax", True),
        ("--prices-include-tax", True),
        ("--prices-exclude-tax", False),
    ):
        assert parsed(stoa("store", "update", handle, option, "--json"))["prices_include_tax"] is value
    changed = [
        e["detail"]
        for e in parsed(stoa("audit", "list", "--store", handle, "--json"))
        if e["action"] == "store.updated"
    ]
    assert sorted(each["prices_include_tax"] for each in changed) == [False, True]  # repeating a value changes nothing
    assert stoa("store", "update", handle).exit_code == 2


def test_tables_are_for_people(stoa: Stoa, handle: str, app: dict[str, Any]) -> None:
    stoa("app", "install", app["client_id"], handle)
    for words, expected in {
        ("store", "list"): [handle, "Demo shop", "EUR", "active"],
        ("app", "list"): [app["client_id"], "Stock sync", "products:write, orders:read", handle],
        ("app", "list", "--store", handle): [app["client_id"], "products:write, orders:read"],
        ("audit", "list", "--store", handle): ["store.created", "app.installed", "operator:"],
        ("audit", "verify"): [handle],
    }.items():
        result = stoa(*words)
        # Other tests alter the logs of their own stores.
        assert result.exit_code == 0 or (words == ("audit", "verify") and f"{handle}:" not in result.stderr), (
            result.output
        )
        for word in expected:
            assert word in result.stdout, result.stdout
    row = next(line for line in stoa("app", "list").stdout.splitlines() if app["client_id"] in line)
    assert "Stock sync" in row
    assert handle in row


def test_a_single_item_is_printed_field_by_field(stoa: Stoa, handle: str) -> None:
    lines = stoa("store", "suspend", handle).stdout.splitlines()
    assert any(line.split() == ["status", "suspended"] for line in lines)
    assert any(line.split() == ["hosts", "-"] for line in lines)


def test_an_empty_list_prints_a_sentence(stoa: Stoa, handle: str) -> None:
    assert stoa("app", "list", "--store", handle).stdout == "No app is installed on this store.\n"
    assert parsed(stoa("app", "list", "--store", handle, "--json")) == []


def test_a_secret_is_shown_only_once_with_a_warning(stoa: Stoa) -> None:
    made = stoa("app", "create", "Sync", "--scope", "orders:read", "--scope", "orders:write")
    assert "stoa_cs_" in made.stdout
    assert "shown only once" in made.stderr
    assert "stoa_cs_" not in stoa("app", "list").stdout
    as_json = stoa("app", "create", "Sync", "--scopes", "all", "--json")
    assert parsed(as_json)["client_secret"].startswith("stoa_cs_")
    assert "shown only once" in as_json.stderr


def test_all_selects_every_scope(stoa: Stoa) -> None:
    made = parsed(stoa("app", "create", "Sync", "--scopes", "all", "--json"))
    found = next(each for each in parsed(stoa("app", "list", "--json")) if each["id"] == made["app_id"])
    assert found["scopes"] == list(SCOPES)


# --- effects -------------------------------------------------------------------------------------------------------


def test_an_app_is_installed_changed_and_uninstalled(stoa: Stoa, handle: str, app: dict[str, Any]) -> None:
    done = parsed(stoa("app", "install", str(app["app_id"]), handle, "--rate-burst", "9", "--json"))
    assert (done["store"], done["scopes"], done["rate_burst"]) == (handle, ["products:write", "orders:read"], 9)
    narrowed = parsed(stoa("app", "install", app["client_id"], handle, "--scopes", "orders:read", "--json"))
    assert (narrowed["scopes"], narrowed["rate_burst"]) == (["orders:read"], 9)
    assert parsed(stoa("app", "uninstall", app["client_id"], handle, "--json"))["scopes"] == ["orders:read"]
    assert parsed(stoa("app", "list", "--store", handle, "--json")) == []


def test_secrets_are_rotated_with_a_grace_period(stoa: Stoa, app: dict[str, Any]) -> None:
    new = parsed(stoa("app", "rotate-secret", app["client_id"], "--json"))
    assert new["client_secret"] != app["client_secret"]
    assert new["previous_until"] is not None
    refused = stoa("app", "rotate-secret", app["client_id"])
    assert refused.exit_code == 1
    assert "two secrets are live" in refused.stderr
    assert stoa("app", "rotate-secret", app["client_id"], "--force").exit_code == 0
    assert stoa("app", "rotate-secret", app["client_id"], "--grace-hours", "0").exit_code == 0


def test_apps_and_stores_are_suspended_and_resumed(stoa: Stoa, handle: str, app: dict[str, Any]) -> None:
    assert parsed(stoa("app", "suspend", app["client_id"], "--json"))["status"] == "suspended"
    assert parsed(stoa("app", "resume", app["client_id"], "--json"))["status"] == "active"
    assert parsed(stoa("store", "suspend", handle, "--json"))["status"] == "suspended"
    assert parsed(stoa("store", "resume", handle, "--json"))["status"] == "active"


def test_a_store_is_closed_exported_and_deleted(stoa: Stoa, handle: str) -> None:
    assert parsed(stoa("store", "close", handle, "--json"))["status"] == "closed"
    assert parsed(stoa("store", "reopen", handle, "--json"))["status"] == "active"
    assert stoa("store", "delete", handle, "--confirm", "another").exit_code == 2
    deleted = parsed(stoa("store", "delete", handle, "--confirm", handle, "--json"))
    assert deleted["status"] == "closed"
    assert deleted["erase_at"] is not None
    assert parsed(stoa("store", "cancel-deletion", handle, "--json"))["erase_at"] is None
    assert '"type":"store"' in stoa("store", "export", handle).stdout
    assert "no store" in stoa("store", "close", "no-such-store").stderr


def test_tokens_are_issued_and_revoked(stoa: Stoa, handle: str, app: dict[str, Any]) -> None:
    stoa("app", "install", app["client_id"], handle)
    issued = stoa("token", "issue", app["client_id"], "--store", handle, "--scopes", "orders:read", "--json")
    token = parsed(issued)
    assert list(token) == ["access_token", "scope", "store", "expires_at"]
    assert (token["scope"], token["store"]) == ("orders:read", handle)
    assert "shown only once" in issued.stderr
    assert parsed(stoa("token", "revoke", token["access_token"], "--json")) == {"revoked": 1}
    assert stoa("token", "revoke", token["access_token"]).exit_code == 1
    second = parsed(stoa("token", "issue", app["client_id"], "--json"))["access_token"]
    assert stoa("token", "revoke", "-", typed=f"{second}\n").exit_code == 0
    stoa("token", "issue", app["client_id"])
    assert parsed(stoa("token", "revoke", "--app", app["client_id"], "--json")) == {"revoked": 1}


def test_the_audit_log_is_read_newest_first(stoa: Stoa, handle: str, app: dict[str, Any]) -> None:
    stoa("app", "install", app["client_id"], handle)
    entries = parsed(stoa("audit", "list", "--store", handle, "--json"))
    assert [entry["action"] for entry in entries] == ["app.installed", "store.created"]
    assert entries[0]["detail"] == {"name": "Stock sync", "scopes": ["products:write", "orders:read"]}
    assert len(entries[0]["seal"]) == 64
    assert len(parsed(stoa("audit", "list", "--limit", "1", "--json"))) == 1


def test_an_intact_log_verifies_and_matches_its_note(stoa: Stoa, handle: str, app: dict[str, Any]) -> None:
    walked = parsed(stoa("audit", "verify", "--store", handle, "--json"))
    assert (walked["chain"], walked["entries"], walked["first_bad"]) == (handle, 1, None)
    stoa("app", "install", app["client_id"], handle)
    assert stoa("audit", "verify", "--store", handle, "--noted", walked["note"]).exit_code == 0
    other = walked["note"][:-1] + ("0" if walked["note"][-1] != "0" else "1")
    refused = stoa("audit", "verify", "--store", handle, "--noted", other)
    assert refused.exit_code == 1
    assert f"{handle}:1" in refused.stderr


def logged(folder: Path, *notes: str) -> str:
    file = folder / "stoa.log"
    file.write_text("".join(json.dumps({"event": "audit head", "note": note}) + "\n" for note in notes))
    return str(file)


async def erase(url: str, handle: str) -> None:
    db = Database(url, size=1)
    async with db.transaction() as transaction:
        [[store_id]] = await transaction.fetch("SELECT id FROM stores WHERE handle = $1", handle)
        await receive_erasure(transaction, msgspec.json.encode(DueStore(store_id, handle)))
    await db.close()


def test_the_log_of_an_erased_store_is_not_compared_with_the_next_one_of_its_name(
    stoa: Stoa, database_url: str, handle: str, app: dict[str, Any], tmp_path: Path
) -> None:
    stoa("app", "install", app["client_id"], handle)
    note = parsed(stoa("audit", "verify", "--store", handle, "--json"))["note"]
    assert stoa("audit", "verify", "--store", handle, "--log", logged(tmp_path, note)).exit_code == 0
    asyncio.run(erase(database_url, handle))
    assert stoa("store", "create", handle, "--name", "Another", "--currency", "EUR").exit_code == 0
    compared = stoa("audit", "verify", "--store", handle, "--log", logged(tmp_path, note))
    assert compared.exit_code == 0, compared.stderr
    refused = stoa("audit", "verify", "--store", handle, "--noted", note)
    assert (refused.exit_code, "was erased; another one has its name" in refused.stderr) == (1, True)


def test_an_end_in_the_log_that_the_chain_has_lost_is_reported(stoa: Stoa, handle: str, tmp_path: Path) -> None:
    note = parsed(stoa("audit", "verify", "--store", handle, "--json"))["note"]
    name, position, seal, store_id = note.split(":")
    for lost in (f"{name}:{position}:{seal[::-1]}:{store_id}", f"{name}:{position}:{seal[::-1]}"):
        compared = stoa("audit", "verify", "--store", handle, "--log", logged(tmp_path, note, lost))
        assert (compared.exit_code, f"{handle}:1" in compared.stderr) == (1, True)


def test_a_tampered_log_is_reported_with_its_position(
    stoa: Stoa, database_url: str, handle: str, app: dict[str, Any]
) -> None:
    stoa("app", "install", app["client_id"], handle)
    sql = """UPDATE audit_entries SET request_id = reverse(request_id)
              WHERE position = 2 AND store_id = (SELECT id FROM stores WHERE handle = $1)"""
    change(database_url, sql, handle)
    result = stoa("audit", "verify", "--store", handle, "--json")
    change(database_url, sql, handle)  # reversing twice restores it
    assert result.exit_code == 1
    assert json.loads(result.stdout)["first_bad"] == 2
    assert f"{handle}:2" in result.stderr
    assert stoa("audit", "verify", "--store", handle).exit_code == 0


# --- exit codes ----------------------------------------------------------------------------------------------------


def test_a_refusal_is_one_line_that_says_what_to_do(stoa: Stoa, handle: str, app: dict[str, Any]) -> None:
    for words in (
        ("store", "create", handle, "--name", "x", "--currency", "EUR"),
        ("store", "create", new_handle(), "--name", "x", "--currency", "EURO"),
        ("store", "suspend", "no-such-store"),
        ("app", "create", "x", "--scopes", "orders:fly"),
        ("app", "install", "no-such-app", handle),
        ("app", "install", app["client_id"], "no-such-store"),
        ("app", "install", app["client_id"], handle, "--scopes", "customers:read"),
        ("app", "install", app["client_id"], handle, "--scopes", ""),
        ("app", "uninstall", app["client_id"], handle),
        ("app", "rotate-secret", app["client_id"], "--grace-hours", "200"),
        ("token", "issue", app["client_id"], "--store", handle),
        ("token", "revoke", "nonsense"),
        ("audit", "list", "--store", "no-such-store"),
    ):
        result = stoa(*words)
        assert result.exit_code == 1, words
        assert result.stdout == ""
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1


def test_wrong_usage_exits_with_2(stoa: Stoa) -> None:
    for words in (
        ("store", "create", "x"),
        ("app", "create", "x"),
        ("app", "fly"),
        ("token", "revoke"),
        ("token", "revoke", "x", "--app", "y"),
        ("audit", "list", "--limit", "0"),
        ("audit", "verify", "--noted", "nonsense"),
    ):
        assert stoa(*words).exit_code == 2, words


def test_a_store_has_a_time_zone_and_a_language(stoa: Stoa, handle: str) -> None:
    changed = parsed(stoa("store", "update", handle, "--timezone", "Asia/Tokyo", "--locale", "ja-JP", "--json"))
    assert (changed["name"], changed["timezone"], changed["locale"]) == ("Demo shop", "Asia/Tokyo", "ja-JP")
    for option, value in (
        ("--timezone", "Mars/Base"),
        ("--timezone", "../etc"),
        ("--locale", "deutsch"),
        ("--name", "\n"),
    ):
        refused = stoa("store", "update", handle, option, value)
        assert (refused.exit_code, refused.stderr.startswith("error: ")) == (1, True), value
    assert parsed(stoa("store", "update", handle, "--locale", "ja-JP", "--json")) == changed


def test_the_callbacks_of_an_app_are_set_and_their_secret_is_shown_once(stoa: Stoa, app: dict[str, Any]) -> None:
    client_id, one, two = app["client_id"], "https://app.example.com/1", "https://app.example.com/2"
    none = parsed(stoa("app", "callbacks", client_id, "--json"))
    assert none == {"endpoint_url": None, "return_urls": [], "previous_until": None, "signing_secret": None}
    assert stoa("app", "rotate-signing-secret", client_id).exit_code == 1
    made = parsed(stoa("app", "callbacks", client_id, "--return-url", one, "--return-url", two, "--json"))
    assert made["signing_secret"].startswith("whsec_")
    kept = parsed(stoa("app", "callbacks", client_id, "--remove-return-url", one, "--json"))
    assert (kept["return_urls"], kept["signing_secret"]) == ([two], None)
    rotated = parsed(stoa("app", "rotate-signing-secret", client_id, "--json"))
    assert rotated["previous_until"]
    assert rotated["signing_secret"] not in (None, made["signing_secret"])
    assert stoa("app", "rotate-signing-secret", client_id).exit_code == 1
    assert parsed(stoa("app", "rotate-signing-secret", client_id, "--force", "--grace-hours", "0", "--json"))
    for words in (("--endpoint", "http://10.0.0.1/"), ("--return-url", "http://app.example.com/")):
        assert stoa("app", "callbacks", client_id, *words).exit_code == 1
    assert stoa("app", "callbacks", client_id, "--endpoint", one, "--no-endpoint").exit_code == 2


def test_a_subscription_for_all_stores_is_declared_and_removed(stoa: Stoa, app: dict[str, Any]) -> None:
    client_id = app["client_id"]
    add = ("app", "subscriptions", "add", client_id, "prices", "--url", "https://app.example.com/hooks")
    made = stoa(*add, "--event", "product.*", "--changed", "price", "--filter", "status=active", "--json")
    declared = parsed(made)
    assert (declared["events"], declared["changed"], declared["filter"]) == (
        ["product.*"],
        ["price"],
        '{"status":"active"}',
    )
    assert "whsec_" in made.stderr
    again = stoa(*add, "--event", "product.*", "--changed", "metadata.tier", "--json")
    assert "whsec_" not in again.stderr
    assert parsed(again)["revision"] == 2
    refused = stoa(*add, "--event", "product.*", "--changed", "prise")
    assert (refused.exit_code, "changed/0 is not a field" in refused.stderr) == (1, True)
    [listed] = parsed(stoa("app", "subscriptions", "list", client_id, "--json"))
    assert listed["name"] == "prices"
    assert parsed(stoa("app", "subscriptions", "resume", client_id, "prices", "--json"))["revision"] == 3
    assert parsed(stoa("app", "subscriptions", "remove", client_id, "prices", "--json"))["removing"]
    assert stoa("app", "subscriptions", "remove", client_id, "prices").exit_code == 1


def test_a_command_allows_the_endpoints_that_the_service_allows(
    stoa: Stoa, settings: Settings, app: dict[str, Any]
) -> None:
    words = ("app", "callbacks", app["client_id"], "--endpoint", "http://localhost:8787/events", "--json")
    refused = stoa(*words)
    assert (refused.exit_code, refused.stderr.startswith("error: the endpoint must use https. ")) == (1, True)
    assert "STOA_WEBHOOK_ALLOW" in refused.stderr
    check_start(replace(settings, webhook_allow="localhost"))
    try:
        assert parsed(stoa(*words))["endpoint_url"] == "http://localhost:8787/events"
    finally:
        check_start(settings)
    assert stoa(*words[:-2], "http://localhost:8788/", "--json").exit_code == 1


def test_an_unreachable_database_is_reported_in_one_line(settings: Settings, tmp_path: Path) -> None:
    console = open_console(replace(settings, database_url=f"postgresql://nobody@/nothing?host={tmp_path}"))
    result = CliRunner().invoke(click.Group(commands=COMMANDS), ["store", "list"], obj=console)
    assert result.exit_code == 3
    assert result.stderr.startswith("error: the database cannot be reached")


def commands(of: Iterable[click.Command] = COMMANDS, prefix: str = "") -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    for command in of:
        name = f"{prefix}{command.name}"
        found += (
            commands(command.commands.values(), f"{name} ") if isinstance(command, click.Group) else [(name, command)]
        )
    return found


def test_every_expected_command_exists() -> None:
    assert {name for name, _ in commands()} == {
        *("store create", "store list", "store update", "store suspend", "store resume"),
        *("store close", "store reopen", "store export", "store delete", "store cancel-deletion"),
        *("app callbacks", "app rotate-signing-secret"),
        *(f"app subscriptions {name}" for name in ("list", "add", "remove", "resume")),
        *("app create", "app list", "app install", "app uninstall", "app rotate-secret", "app suspend", "app resume"),
        *("app keys add", "app keys list", "app keys remove"),
        *(f"app deploy-tokens {name}" for name in ("create", "list", "revoke")),
        *(f"app {name}" for name in ("init", "validate", "diff", "push", "pull")),
        *("token issue", "token revoke"),
        *("audit list", "audit verify"),
    }


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_every_command_has_help_and_json(stoa: Stoa, name: str) -> None:
    result = stoa(*name.split(), "--help")
    assert result.exit_code == 0
    without = ("store export", "app init", "app pull")  # an export is JSON already; the others write files
    assert "--json" in result.stdout or name in without
    command = dict(commands())[name]
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))
