"""The command `stoa location`: its output for people and for programs, and its refusals."""

import json
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from stoa.access.console import open_console
from stoa.inventory.location_commands import COMMANDS
from stoa.settings import Settings
from stoa.store_data.export_commands import COMMANDS as STORE_COMMANDS
from tests.access.tenants import new_handle

Stoa = Callable[..., Result]


@pytest.fixture
def stoa(settings: Settings) -> Stoa:
    """Run a command as a shell would."""

    group = click.Group(commands=[*COMMANDS, *STORE_COMMANDS])
    return lambda *words: CliRunner().invoke(group, list(words), obj=open_console(settings))


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_locations_are_managed_by_commands(stoa: Stoa) -> None:
    made = stoa("store", "create", new_handle(), "--name", "Demo shop", "--currency", "EUR", "--json")
    handle = parsed(made)["handle"]
    added = parsed(stoa("location", "add", handle, "east", "--name", "East", "--address", "4 Dock Road", "--json"))
    assert added == {"code": "east", "name": "East", "address": "4 Dock Road", "priority": 10, "active": True}
    changed = parsed(stoa("location", "update", handle, "east", "--priority", "3", "--address", "", "--json"))
    assert (changed["name"], changed["address"], changed["priority"]) == ("East", None, 3)
    assert parsed(stoa("location", "deactivate", handle, "east", "--json"))["active"] is False
    assert parsed(stoa("location", "activate", handle, "east", "--json"))["active"] is True
    parsed(stoa("location", "update", handle, "default", "--name", "Main", "--priority", "5", "--json"))
    assert [row["code"] for row in parsed(stoa("location", "list", handle, "--json"))] == ["east", "default"]
    shown = stoa("location", "list", handle)
    assert "East" in shown.stdout
    assert "Main" in shown.stdout


def test_a_refused_command_says_what_to_do(stoa: Stoa) -> None:
    made = stoa("store", "create", new_handle(), "--name", "Demo shop", "--currency", "EUR", "--json")
    handle = parsed(made)["handle"]
    for words, expected in (
        (("deactivate", handle, "default"), "the default location cannot be deactivated"),
        (("update", handle, "east", "--name", "East"), 'there is no location "east"'),
        (("add", handle, "No", "--name", "No"), "a code must have 1 to 32 characters"),
        (("list", "no-such-store"), 'there is no store "no-such-store"'),
    ):
        refused = stoa("location", *words)
        assert refused.exit_code == 1
        assert expected in refused.stderr
