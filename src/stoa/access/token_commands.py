"""The commands to issue and revoke access tokens."""

import sys

import click

from stoa.access import grants
from stoa.access.console import Console, print_one, warn_shown_once
from stoa.access.options import json_option, scopes_option


@click.group()
def token() -> None:
    """Issue and revoke access tokens.

    \b
    Examples:
      stoa token issue 3 --store demo
      stoa token revoke --app 3
    """


@token.command("issue")
@click.argument("app")
@click.option("--store", "handle", help="Limit the token to this store; default: every store that installed the app.")
@scopes_option("Default: every granted scope.")
@json_option
@click.pass_obj
def issue_token(console: Console, app: str, handle: str | None, scopes: list[str] | None, *, as_json: bool) -> None:
    """Issue the access token that the app itself would get, for testing.

    \b
    Example:
      TOKEN=$(stoa token issue 3 --store demo --json | jq -r .access_token)
    """
    print_one(console.run(lambda by: grants.issue_token(by, app, handle, scopes)), as_json=as_json)
    warn_shown_once("token")


@token.command("revoke")
@click.argument("given", metavar="TOKEN", required=False)
@click.option("--app", "app_name", metavar="APP", help="Revoke every live token of this app instead.")
@json_option
@click.pass_obj
def revoke_token(console: Console, given: str | None, app_name: str | None, *, as_json: bool) -> None:
    """Revoke one token, or all tokens of an app; takes effect everywhere within a second.

    Pass - as TOKEN to read it from stdin.

    \b
    Examples:
      stoa token revoke - < leaked.txt
      stoa token revoke --app stoa_ci_4fGh2kLmN0pQrStU
    """
    if (given is None) == (app_name is None):
        raise click.UsageError("pass either TOKEN or --app")
    if app_name is not None:
        count = console.run(lambda by: grants.revoke_all_tokens(by, app_name))
    else:
        text = sys.stdin.readline().strip() if given == "-" else str(given)
        console.run(lambda by: grants.revoke_token(by, text))
        count = 1
    print_one({"revoked": count}, as_json=as_json)


COMMANDS: list[click.Command] = [token]
