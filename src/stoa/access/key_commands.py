"""The commands of `stoa app keys`."""

from pathlib import Path

import click

from stoa.access import app_keys
from stoa.access.console import WRONG_USAGE, Console, Refused, print_one, print_rows
from stoa.access.contract import AppKey
from stoa.access.operator import Operator, find_app
from stoa.access.options import json_option


@click.group("keys")
def keys() -> None:
    """Add, list and remove the public keys with which an app authenticates instead of a secret.

    \b
    Examples:
      stoa app keys add stoa_ci_4fGh2kLmN0pQrStU public.jwk.json
      stoa app keys list stoa_ci_4fGh2kLmN0pQrStU
    """


@keys.command("add")
@click.argument("app")
@click.argument("jwk", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
def add_key(console: Console, app: str, jwk: Path, *, as_json: bool) -> None:
    """Add the public key in a file, a JSON Web Key for ES256, RS256 or EdDSA.

    \b
    Example:
      stoa app keys add stoa_ci_4fGh2kLmN0pQrStU public.jwk.json
    """
    try:
        text = jwk.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{jwk} cannot be read: {error}", WRONG_USAGE) from error
    print_one(console.run(lambda by: app_keys.add_key(by, app, text)), as_json=as_json)


@keys.command("list")
@click.argument("app")
@json_option
@click.pass_obj
def list_keys(console: Console, app: str, *, as_json: bool) -> None:
    """List the public keys of an app.

    \b
    Example:
      stoa app keys list stoa_ci_4fGh2kLmN0pQrStU
    """

    async def found(by: Operator) -> list[AppKey]:
        return await app_keys.list_keys(by, await find_app(by.db, app))

    print_rows(console.run(found), as_json=as_json, none="The app has no keys; it authenticates with its secret.")


@keys.command("remove")
@click.argument("app")
@click.argument("kid")
@json_option
@click.pass_obj
def remove_key(console: Console, app: str, kid: str, *, as_json: bool) -> None:
    """Remove a public key; revoke the tokens too if its private key leaked.

    \b
    Example:
      stoa app keys remove stoa_ci_4fGh2kLmN0pQrStU 9Tz0vXk4
    """

    async def removed(by: Operator) -> list[AppKey]:
        await app_keys.remove_key(by, app, kid)
        return await app_keys.list_keys(by, await find_app(by.db, app))

    print_rows(console.run(removed), as_json=as_json, none="The app has no keys; it authenticates with its secret.")
