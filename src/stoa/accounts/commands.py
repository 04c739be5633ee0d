"""The commands by which operators look after people's accounts."""

import secrets
import sys

import click

from stoa.access.console import Console, print_one, print_rows, warn_shown_once
from stoa.accounts import ownership, registration

_WORDS = 32  # random bytes of a password that we make
_json = click.option("--json", "as_json", is_flag=True, help="Machine-readable output with stable keys.")


@click.group()
def account() -> None:
    """Create, invite, list, disable and reset accounts of the portal, and say what they own.

    \b
    Examples:
      stoa account invite maria@example.com
      stoa account list
    """


@account.command("create")
@click.argument("email")
@click.option("--name", required=True, help="The person's name.")
@click.option("--operator", is_flag=True, help="May look after every store, app and account.")
@click.option("--generate", is_flag=True, help="Make a password and show it once, instead of asking for one.")
@_json
@click.pass_obj
def create(console: Console, email: str, name: str, *, operator: bool, generate: bool, as_json: bool) -> None:
    """Make an account. The password is asked for, or read from a pipe.

    \b
    Examples:
      stoa account create maria@example.com --name "Maria Stone" --operator
      stoa account create ci@example.com --name CI --generate --json
    """
    password = secrets.token_urlsafe(_WORDS) if generate else _password()
    made = console.run(lambda by: registration.create_account(by, email, name, password, operator=operator))
    if generate:
        print_one({"id": made.id, "email": made.email, "password": password}, as_json=as_json)
        warn_shown_once("password")
    else:
        print_one(made, as_json=as_json)


def _password() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\n")


@account.command("invite")
@click.argument("email")
@click.option("--operator", is_flag=True, help="The account may look after every store, app and account.")
@_json
@click.pass_obj
def invite(console: Console, email: str, *, operator: bool, as_json: bool) -> None:
    """Make an address at which a person makes their account, once, within seven days. Send it to them.

    \b
    Example:
      stoa account invite maria@example.com
    """
    print_one(console.run(lambda by: registration.invite(by, email, operator=operator)), as_json=as_json)
    warn_shown_once("address")


@account.command("list")
@_json
@click.pass_obj
def list_accounts(console: Console, *, as_json: bool) -> None:
    """Show every account.

    \b
    Example:
      stoa account list --json
    """
    print_rows(console.run(registration.list_accounts), as_json=as_json, none="There are no accounts yet.")


@account.command("disable")
@click.argument("email")
@_json
@click.pass_obj
def disable(console: Console, email: str, *, as_json: bool) -> None:
    """Sign a person out everywhere and let them in no more, until they are enabled again.

    \b
    Example:
      stoa account disable maria@example.com
    """
    print_one(console.run(lambda by: registration.disable_account(by, email)), as_json=as_json)


@account.command("enable")
@click.argument("email")
@_json
@click.pass_obj
def enable(console: Console, email: str, *, as_json: bool) -> None:
    """Let a disabled account in again.

    \b
    Example:
      stoa account enable maria@example.com
    """
    print_one(console.run(lambda by: registration.enable_account(by, email)), as_json=as_json)


@account.command("reset")
@click.argument("email")
@click.option("--second-factor", is_flag=True, help="Turn the second factor off as well, when the phone is lost.")
@_json
@click.pass_obj
def reset(console: Console, email: str, *, second_factor: bool, as_json: bool) -> None:
    """Make an address at which a person chooses a new password, once, within a day. Send it to them.

    \b
    Examples:
      stoa account reset maria@example.com
      stoa account reset maria@example.com --second-factor
    """
    print_one(console.run(lambda by: registration.reset(by, email, second_factor=second_factor)), as_json=as_json)
    warn_shown_once("address")


_store = click.option("--store", "store", default="", metavar="HANDLE", help="A store.")
_app = click.option("--app", "app", default="", metavar="APP", help="An app, by its client id or its number.")


@account.command("give")
@click.argument("email")
@_store
@_app
@click.option(
    "--role",
    type=click.Choice(["owner", "viewer"]),
    default="owner",
    show_default=True,
    help="What the person may do with it.",
)
@_json
@click.pass_obj
def give(console: Console, email: str, store: str, app: str, role: str, *, as_json: bool) -> None:
    """Let a person own a store or an app, or look at it.

    \b
    Examples:
      stoa account give maria@example.com --store demo
      stoa account give zeno@example.com --app 3 --role viewer
    """
    if not store and not app:
        raise click.UsageError("give --store or --app")
    kind = "viewer" if role == "viewer" else "owner"
    console.run(lambda by: ownership.give(by, email, store=store, app=app, role=kind))
    print_one({"email": email, "store": store or None, "app": app or None, "role": role}, as_json=as_json)


@account.command("take")
@click.argument("email")
@_store
@_app
@_json
@click.pass_obj
def take(console: Console, email: str, store: str, app: str, *, as_json: bool) -> None:
    """Let a person own or see a store or an app no more; the thing itself stays.

    \b
    Example:
      stoa account take zeno@example.com --app 3
    """
    if not store and not app:
        raise click.UsageError("give --store or --app")
    console.run(lambda by: ownership.take(by, email, store=store, app=app))
    print_one({"email": email, "store": store or None, "app": app or None, "role": None}, as_json=as_json)


COMMANDS: list[click.Command] = [account]
