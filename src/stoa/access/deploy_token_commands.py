"""The commands of `stoa app deploy-tokens`."""

import click

from stoa.access import deploy_tokens as tokens
from stoa.access.console import Console, print_one, print_rows, warn_shown_once
from stoa.access.deploy_tokens import DeployToken
from stoa.access.operator import Operator, find_app
from stoa.access.options import json_option


@click.group("deploy-tokens")
def deploy_tokens() -> None:
    """Create, list and revoke the tokens with which a program pushes the file of an app.

    \b
    Examples:
      stoa app deploy-tokens create stoa_ci_4fGh2kLmN0pQrStU --name "CI" --days 90
      stoa app deploy-tokens list stoa_ci_4fGh2kLmN0pQrStU
    """


@deploy_tokens.command("create")
@click.argument("app")
@click.option("--name", required=True, help="Where the token is used.")
@click.option("--days", type=int, help=f"How long it is valid, 1-{tokens.MOST_DAYS}; default: until you revoke it.")
@json_option
@click.pass_obj
def create(console: Console, app: str, name: str, days: int | None, *, as_json: bool) -> None:
    """Create a deploy token, which is shown only once.

    \b
    Example:
      stoa app deploy-tokens create stoa_ci_4fGh2kLmN0pQrStU --name "CI" --days 90
    """
    print_one(console.run(lambda by: tokens.create_deploy_token(by, app, name, days=days)), as_json=as_json)
    warn_shown_once("deploy token")


@deploy_tokens.command("list")
@click.argument("app")
@json_option
@click.pass_obj
def list_tokens(console: Console, app: str, *, as_json: bool) -> None:
    """List the deploy tokens of an app.

    \b
    Example:
      stoa app deploy-tokens list stoa_ci_4fGh2kLmN0pQrStU
    """
    print_rows(console.run(lambda by: _listed(by, app)), as_json=as_json, none="The app has no deploy tokens.")


@deploy_tokens.command("revoke")
@click.argument("app")
@click.argument("number", type=int)
@json_option
@click.pass_obj
def revoke(console: Console, app: str, number: int, *, as_json: bool) -> None:
    """Revoke a deploy token by its number; it is refused from then on.

    \b
    Example:
      stoa app deploy-tokens revoke stoa_ci_4fGh2kLmN0pQrStU 1
    """

    async def revoked(by: Operator) -> list[DeployToken]:
        await tokens.revoke_deploy_token(by, app, number)
        return await _listed(by, app)

    print_rows(console.run(revoked), as_json=as_json, none="The app has no deploy tokens.")


async def _listed(by: Operator, app: str) -> list[DeployToken]:
    return await tokens.list_deploy_tokens(by, await find_app(by.db, app))
