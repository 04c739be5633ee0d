"""The `stoa account` commands."""

import json
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from stoa.access.console import open_console
from stoa.accounts.commands import COMMANDS
from stoa.settings import Settings
from stoa.store_data.export_commands import COMMANDS as STORE_COMMANDS
from tests.access.tenants import new_handle
from tests.support.people import PASSWORD, new_email

Stoa = Callable[..., Result]


@pytest.fixture
def stoa(settings: Settings) -> Stoa:
    """Runs a command as from a shell."""

    group = click.Group(commands=[*COMMANDS, *STORE_COMMANDS])

    def run(*words: str, typed: str | None = None) -> Result:
        return CliRunner().invoke(group, list(words), obj=open_console(settings), input=typed)

    return run


def output(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_an_account_is_created_with_a_password_from_standard_input(stoa: Stoa) -> None:
    email = new_email()
    created = output(stoa("account", "create", email, "--name", "Maria", "--operator", "--json", typed=f"{PASSWORD}\n"))
    assert created["email"] == email
    assert created["operator"] is True
    assert PASSWORD not in json.dumps(created)
    listed = output(stoa("account", "list", "--json"))
    assert email in {account["email"] for account in listed}


def test_a_password_is_generated(stoa: Stoa) -> None:
    created = output(stoa("account", "create", new_email(), "--name", "CI", "--generate", "--json"))
    assert len(created["password"]) >= 40


def test_an_error_is_one_line(stoa: Stoa) -> None:
    short = stoa("account", "create", new_email(), "--name", "X", typed="short\n")
    assert short.exit_code == 1
    assert short.stderr.startswith("error: a password needs at least 12 characters")
    unknown = stoa("account", "disable", "nobody@example.com")
    assert unknown.exit_code == 1
    assert "there is no account" in unknown.stderr


def test_invitations_and_resets_print_a_link(stoa: Stoa) -> None:
    email = new_email()
    invited = output(stoa("account", "invite", email, "--json"))
    assert "/portal/invitation/" in invited["address"]
    output(stoa("account", "create", email, "--name", "X", "--generate", "--json"))
    assert stoa("account", "invite", email).exit_code == 1
    reset = output(stoa("account", "reset", email, "--two-factor", "--json"))
    assert "/portal/new-password/" in reset["address"]


def test_an_account_is_disabled_and_enabled(stoa: Stoa) -> None:
    email = new_email()
    output(stoa("account", "create", email, "--name", "X", "--generate", "--json"))
    assert output(stoa("account", "disable", email, "--json"))["status"] == "disabled"
    assert output(stoa("account", "enable", email, "--json"))["status"] == "active"


def test_a_role_is_given_and_taken(stoa: Stoa) -> None:
    email, handle = new_email(), new_handle()
    output(stoa("account", "create", email, "--name", "X", "--generate", "--json"))
    output(stoa("store", "create", handle, "--name", "Shop", "--currency", "EUR", "--json"))
    assert output(stoa("account", "give", email, "--store", handle, "--json"))["role"] == "owner"
    assert stoa("account", "take", email, "--store", handle).exit_code == 0
    again = stoa("account", "take", email, "--store", handle)
    assert again.exit_code == 1
    assert "has no access" in again.stderr
    assert stoa("account", "give", email).exit_code == 2


def test_a_team_is_invited_and_listed(stoa: Stoa) -> None:
    email, handle = new_email(), new_handle()
    output(stoa("account", "create", email, "--name", "X", "--generate", "--json"))
    output(stoa("store", "create", handle, "--name", "Shop", "--currency", "EUR", "--json"))
    assert output(stoa("account", "give", email, "--store", handle, "--role", "manager", "--json"))["role"] == "manager"
    wrong = stoa("account", "give", email, "--store", handle, "--role", "developer")
    assert "is not a role here" in wrong.stderr
    [member] = output(stoa("account", "members", "--store", handle, "--json"))
    assert (member["email"], member["role"]) == (email, "manager")
    invited = output(stoa("account", "invite", new_email(), "--store", handle, "--role", "owner", "--json"))
    assert "/portal/join/" in invited["address"]
    assert "already a member" in stoa("account", "invite", email, "--store", handle).stderr
    assert stoa("account", "invite", email, "--store", handle, "--operator").exit_code == 2
    assert stoa("account", "members").exit_code == 2
