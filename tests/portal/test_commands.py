"""The operators' commands for people's accounts."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from stoa.access.commands import COMMANDS as ACCESS_COMMANDS
from stoa.access.console import Console
from stoa.accounts.commands import COMMANDS
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.access.tenants import new_handle
from tests.portal.people import PASSWORD, new_email

Stoa = Callable[..., Result]


@pytest.fixture
def stoa(settings: Settings) -> Stoa:
    """Runs a command as a shell would."""

    @asynccontextmanager
    async def database() -> AsyncGenerator[Database]:
        opened = Database(settings.database_url, size=2)
        try:
            yield opened
        finally:
            await opened.close()

    group = click.Group(commands=[*COMMANDS, *ACCESS_COMMANDS])

    def run(*words: str, typed: str | None = None) -> Result:
        return CliRunner().invoke(group, list(words), obj=Console(settings, database), input=typed)

    return run


def answer(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_an_account_is_made_with_a_password_from_a_pipe(stoa: Stoa) -> None:
    email = new_email()
    made = answer(stoa("account", "create", email, "--name", "Maria", "--operator", "--json", typed=f"{PASSWORD}\n"))
    assert made["email"] == email
    assert made["operator"] is True
    assert PASSWORD not in json.dumps(made)
    listed = answer(stoa("account", "list", "--json"))
    assert email in {account["email"] for account in listed}


def test_a_password_can_be_made(stoa: Stoa) -> None:
    made = answer(stoa("account", "create", new_email(), "--name", "CI", "--generate", "--json"))
    assert len(made["password"]) >= 40


def test_a_refusal_is_one_line(stoa: Stoa) -> None:
    short = stoa("account", "create", new_email(), "--name", "X", typed="short\n")
    assert short.exit_code == 1
    assert short.stderr.startswith("error: a password has at least 12 characters")
    unknown = stoa("account", "disable", "nobody@example.com")
    assert unknown.exit_code == 1
    assert "there is no account" in unknown.stderr


def test_invitations_and_new_passwords_are_addresses(stoa: Stoa) -> None:
    email = new_email()
    invited = answer(stoa("account", "invite", email, "--json"))
    assert "/portal/invitation/" in invited["address"]
    answer(stoa("account", "create", email, "--name", "X", "--generate", "--json"))
    assert stoa("account", "invite", email).exit_code == 1
    reset = answer(stoa("account", "reset", email, "--second-factor", "--json"))
    assert "/portal/new-password/" in reset["address"]


def test_an_account_is_disabled_and_enabled(stoa: Stoa) -> None:
    email = new_email()
    answer(stoa("account", "create", email, "--name", "X", "--generate", "--json"))
    assert answer(stoa("account", "disable", email, "--json"))["status"] == "disabled"
    assert answer(stoa("account", "enable", email, "--json"))["status"] == "active"


def test_what_an_account_owns_is_given_and_taken(stoa: Stoa) -> None:
    email, handle = new_email(), new_handle()
    answer(stoa("account", "create", email, "--name", "X", "--generate", "--json"))
    answer(stoa("store", "create", handle, "--name", "Shop", "--currency", "EUR", "--json"))
    assert answer(stoa("account", "give", email, "--store", handle, "--json"))["role"] == "owner"
    assert stoa("account", "take", email, "--store", handle).exit_code == 0
    again = stoa("account", "take", email, "--store", handle)
    assert again.exit_code == 1
    assert "does not own" in again.stderr
    assert stoa("account", "give", email).exit_code == 2
