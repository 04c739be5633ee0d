"""The `stoa account` commands, with which operators manage portal accounts."""

import secrets
import sys

import click

from stoa.access.console import Console, Refused, print_one, print_rows, warn_shown_once
from stoa.access.operator import Operator
from stoa.access.options import json_option
from stoa.accounts import ownership, registration, teams
from stoa.accounts.contract import ROLES, Member, NewLink

_PASSWORD_BYTES = 32
_ROLES = list(dict.fromkeys(role for roles in ROLES.values() for role in roles))


@click.group()
def account() -> None:
    """Manage portal accounts: set up, create, invite, list, disable, reset, and the teams of stores and apps.

    \b
    Examples:
      stoa account invite maria@example.com
      stoa account list
    """


@account.command("create")
@click.argument("email")
@click.option("--name", required=True, help="The person's name.")
@click.option("--operator", is_flag=True, help="Allow the account to manage every store, app and account.")
@click.option("--generate", is_flag=True, help="Generate a password and print it once, instead of prompting for one.")
@json_option
@click.pass_obj
def create(console: Console, email: str, name: str, *, operator: bool, generate: bool, as_json: bool) -> None:
    """Create an account. The password is read from a prompt or from standard input.

    \b
    Examples:
      stoa account create maria@example.com --name "Maria Stone" --operator
      stoa account create ci@example.com --name CI --generate --json
    """
    password = secrets.token_urlsafe(_PASSWORD_BYTES) if generate else _read_password()
    created = console.run(lambda by: registration.create_account(by, email, name, password, operator=operator))
    if generate:
        print_one({"id": created.id, "email": created.email, "password": password}, as_json=as_json)
        warn_shown_once("password")
    else:
        print_one(created, as_json=as_json)


@account.command("set-up")
@json_option
@click.pass_obj
def set_up(console: Console, *, as_json: bool) -> None:
    """Create a link for the first account, an operator. It works once, for 24 hours, and ends the link before it.

    \b
    Example:
      stoa account set-up
    """
    link = console.run(registration.create_setup_link)
    if link is None:
        raise Refused("an account exists; `stoa account invite` creates links for further people")
    print_one(link, as_json=as_json)
    warn_shown_once("address")


_store = click.option("--store", "store", default="", metavar="HANDLE", help="The store's handle.")
_app = click.option("--app", "app", default="", metavar="APP", help="The app's client ID or number.")


def _read_password() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\n")


@account.command("invite")
@click.argument("email")
@click.option("--operator", is_flag=True, help="Allow the account to manage every store, app and account.")
@_store
@_app
@click.option("--role", type=click.Choice(_ROLES), default="viewer", show_default=True, help="The role in the team.")
@json_option
@click.pass_obj
def invite(console: Console, email: str, store: str, app: str, role: str, *, operator: bool, as_json: bool) -> None:
    """Create an invitation link. It works once, for seven days. Send it to the person yourself.

    With --store or --app, it invites the person to that team, whether they have an account or not.

    \b
    Examples:
      stoa account invite maria@example.com
      stoa account invite maria@example.com --store demo --role manager
    """
    if store and app:
        raise click.UsageError("specify --store or --app, not both")
    if operator and (store or app):
        raise click.UsageError("an invitation to a team cannot make an operator")

    async def run(by: Operator) -> NewLink:
        if not store and not app:
            return await registration.invite(by, email, operator=operator)
        return await teams.invite(by, await teams.find_team(by.db, store=store, app=app), email, role)

    print_one(console.run(run), as_json=as_json)
    warn_shown_once("address")


@account.command("list")
@json_option
@click.pass_obj
def list_accounts(console: Console, *, as_json: bool) -> None:
    """List all accounts.

    \b
    Example:
      stoa account list --json
    """
    print_rows(console.run(registration.list_accounts), as_json=as_json, none="There are no accounts yet.")


@account.command("disable")
@click.argument("email")
@click.option("--reason", default="", help="Why; the person reads it by email and at the sign-in.")
@json_option
@click.pass_obj
def disable(console: Console, email: str, reason: str, *, as_json: bool) -> None:
    """End all sessions of an account and block sign-in until the account is enabled again.

    \b
    Example:
      stoa account disable maria@example.com --reason "Left the company."
    """
    print_one(console.run(lambda by: registration.disable_account(by, email, reason)), as_json=as_json)


@account.command("enable")
@click.argument("email")
@json_option
@click.pass_obj
def enable(console: Console, email: str, *, as_json: bool) -> None:
    """Allow a disabled account to sign in again.

    \b
    Example:
      stoa account enable maria@example.com
    """
    print_one(console.run(lambda by: registration.enable_account(by, email)), as_json=as_json)


@account.command("reset")
@click.argument("email")
@click.option("--two-factor", is_flag=True, help="Also turn off two-factor authentication, for a lost phone.")
@json_option
@click.pass_obj
def reset(console: Console, email: str, *, two_factor: bool, as_json: bool) -> None:
    """Create a password reset link. It works once, for one day. Send it to the person yourself.

    \b
    Examples:
      stoa account reset maria@example.com
      stoa account reset maria@example.com --two-factor
    """
    link = console.run(lambda by: registration.create_reset_link(by, email, two_factor=two_factor))
    print_one(link, as_json=as_json)
    warn_shown_once("address")


@account.command("members")
@_store
@_app
@json_option
@click.pass_obj
def members(console: Console, store: str, app: str, *, as_json: bool) -> None:
    """List the members of the team of a store or an app, with their roles.

    \b
    Example:
      stoa account members --store demo
    """
    if bool(store) == bool(app):
        raise click.UsageError("specify --store or --app")

    async def run(by: Operator) -> list[Member]:
        return await teams.members_of(by.db, await teams.find_team(by.db, store=store, app=app))

    print_rows(console.run(run), as_json=as_json, none="The team has no members.")


@account.command("give")
@click.argument("email")
@_store
@_app
@click.option(
    "--role",
    type=click.Choice(_ROLES),
    default="owner",
    show_default=True,
    help="Developers of an app and managers of a store can change it; a viewer can only view it.",
)
@json_option
@click.pass_obj
def give(console: Console, email: str, store: str, app: str, role: str, *, as_json: bool) -> None:
    """Give an account a role on a store or an app.

    \b
    Examples:
      stoa account give maria@example.com --store demo
      stoa account give zeno@example.com --app 3 --role developer
    """
    if not store and not app:
        raise click.UsageError("specify --store or --app")
    console.run(lambda by: ownership.give(by, email, store=store, app=app, role=role))
    print_one({"email": email, "store": store or None, "app": app or None, "role": role}, as_json=as_json)


@account.command("take")
@click.argument("email")
@_store
@_app
@json_option
@click.pass_obj
def take(console: Console, email: str, store: str, app: str, *, as_json: bool) -> None:
    """Remove an account's role on a store or an app. The store or app itself is not changed.

    \b
    Example:
      stoa account take zeno@example.com --app 3
    """
    if not store and not app:
        raise click.UsageError("specify --store or --app")
    console.run(lambda by: ownership.take(by, email, store=store, app=app))
    print_one({"email": email, "store": store or None, "app": app or None, "role": None}, as_json=as_json)


COMMANDS: list[click.Command] = [account]
