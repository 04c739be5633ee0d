"""The commands of `stoa app`, except those of `stoa.webhooks.app_commands`, which completes the group."""

from collections.abc import Awaitable

import click

from stoa.access import apps, grants
from stoa.access.console import Console, print_one, print_rows, warn_shown_once
from stoa.access.contract import App, NewSecret
from stoa.access.deploy_token_commands import deploy_tokens
from stoa.access.key_commands import keys
from stoa.access.operator import Operator, find_app
from stoa.access.options import grace_options, json_option, scopes_option


@click.group()
def app() -> None:
    """Create, list, install, uninstall and suspend apps, and rotate their secrets.

    Identify an app by its client id or its number.

    \b
    Examples:
      stoa app create "Stock sync" --scopes products:read,inventory:write
      stoa app install 3 demo
    """


@app.command("create")
@click.argument("name")
@scopes_option("The scopes that stores may grant it.", required=True)
@json_option
@click.pass_obj
def create_app(console: Console, name: str, scopes: list[str] | None, *, as_json: bool) -> None:
    """Register an app and create its credentials.

    \b
    Example:
      stoa app create "Stock sync" --scopes products:read,inventory:write
    """
    _print_secret(console.run(lambda by: apps.create_app(by, name, scopes or [])), as_json=as_json)


@app.command("list")
@click.option("--store", "handle", help="List the apps installed on this store, with the scopes it grants them.")
@json_option
@click.pass_obj
def list_apps(console: Console, handle: str | None, *, as_json: bool) -> None:
    """List all apps, or the apps installed on one store.

    \b
    Example:
      stoa app list --store demo
    """
    if handle is None:
        print_rows(console.run(apps.list_apps), as_json=as_json, none="There are no apps yet.")
    else:
        installed = console.run(lambda by: grants.list_installations(by, handle))
        print_rows(installed, as_json=as_json, none="No app is installed on this store.")


@app.command("install")
@click.argument("app")
@click.argument("store")
@scopes_option("Default: every scope that the app requests.")
@click.option("--rate-burst", type=int, help="Burst limit in requests, instead of the service's default.")
@click.option("--rate-refill", type=int, help="Refill rate in requests per second, instead of the service's default.")
@json_option
@click.pass_obj
def install(
    console: Console,
    app: str,
    store: str,
    scopes: list[str] | None,
    *,
    rate_burst: int | None,
    rate_refill: int | None,
    as_json: bool,
) -> None:
    """Install an app on a store; install it again to change its scopes.

    \b
    Example:
      stoa app install stoa_ci_4fGh2kLmN0pQrStU demo --scopes products:read,orders:write
    """
    done = console.run(
        lambda by: grants.install(by, app, store, scopes, rate_burst=rate_burst, rate_refill=rate_refill)
    )
    print_one(done, as_json=as_json)


@app.command("uninstall")
@click.argument("app")
@click.argument("store")
@json_option
@click.pass_obj
def uninstall(console: Console, app: str, store: str, *, as_json: bool) -> None:
    """Uninstall an app from a store; the store refuses its tokens within a second.

    \b
    Example:
      stoa app uninstall 3 demo
    """
    print_one(console.run(lambda by: grants.uninstall(by, app, store)), as_json=as_json)


@app.command("rotate-secret")
@click.argument("app")
@grace_options("stays valid")
@json_option
@click.pass_obj
def rotate_secret(console: Console, app: str, grace_hours: int, *, force: bool, as_json: bool) -> None:
    """Create a new client secret; the old one works until its grace period ends.

    \b
    Examples:
      stoa app rotate-secret stoa_ci_4fGh2kLmN0pQrStU
      stoa app rotate-secret 3 --grace-hours 0      if the old secret leaked
      stoa token revoke --app 3                     if tokens may have leaked too
    """
    made = console.run(lambda by: apps.rotate_secret(by, app, grace_hours=grace_hours, force=force))
    _print_secret(made, as_json=as_json)


@app.command("suspend")
@click.argument("app")
@click.option("--reason", default="", help="The reason, which the audit log keeps.")
@json_option
@click.pass_obj
def suspend_app(console: Console, app: str, reason: str, *, as_json: bool) -> None:
    """Refuse an app on every store until you resume it; takes effect within a second.

    \b
    Example:
      stoa app suspend stoa_ci_4fGh2kLmN0pQrStU
    """
    print_one(console.run(lambda by: _shown(by, apps.suspend_app(by, app, reason))), as_json=as_json)


@app.command("resume")
@click.argument("app")
@json_option
@click.pass_obj
def resume_app(console: Console, app: str, *, as_json: bool) -> None:
    """Admit a suspended app again.

    \b
    Example:
      stoa app resume stoa_ci_4fGh2kLmN0pQrStU
    """
    print_one(console.run(lambda by: _shown(by, apps.resume_app(by, app))), as_json=as_json)


async def _shown(by: Operator, changed: Awaitable[App]) -> App:
    """The changed app with its stores in all shards."""
    return await find_app(by.everywhere, (await changed).client_id)


def _print_secret(secret: NewSecret, *, as_json: bool) -> None:
    print_one(secret, as_json=as_json)
    warn_shown_once("client secret")


app.add_command(keys)
app.add_command(deploy_tokens)
