"""The commands of `stoa app subscriptions`: the subscriptions that an app declares once for all stores."""

from typing import Any

import click
import msgspec

from stoa.access.console import Console, Refused, print_one, print_rows, warn_shown_once
from stoa.access.operator import Operator, find_app
from stoa.access.options import json_option
from stoa.db.service_facts import noted_webhook_allow
from stoa.rest.body import convert
from stoa.rest.problems import ValidationFailed
from stoa.webhooks import app_subscriptions
from stoa.webhooks.app_subscriptions import AppSubscription, Declared


@click.group("subscriptions")
def subscriptions() -> None:
    """Declare subscriptions once for all stores that install an app.

    They sign with the app's signing secret. A change reaches all stores in the background.

    \b
    Examples:
      stoa app subscriptions add 3 prices --url https://app.example.com/hooks --event "product.*" --changed price
      stoa app subscriptions list 3
    """


class DeclaredRow(msgspec.Struct):
    """A declaration as the list shows it."""

    name: str
    url: str | None
    events: list[str]
    changed: list[str]
    stores: str
    failed_stores: int
    paused_stores: int
    disabled_stores: int


@subscriptions.command("list")
@click.argument("app")
@json_option
@click.pass_obj
def list_declared(console: Console, app: str, *, as_json: bool) -> None:
    """List the declared subscriptions of an app, and how many stores have their current settings.

    \b
    Example:
      stoa app subscriptions list 3
    """

    async def read(by: Operator) -> list[Declared]:
        return await app_subscriptions.declared_by(by.everywhere, (await find_app(by.db, app)).id)

    found = console.run(read)
    rows = found if as_json else [_row(each) for each in found]
    print_rows(rows, as_json=as_json, none="The app declares no subscriptions.")


def _print(declared: Declared, *, as_json: bool) -> None:
    print_one(declared if as_json else _row(declared), as_json=as_json)


def _row(each: Declared) -> DeclaredRow:
    stores = "being removed" if each.removing else f"{each.current_stores} of {each.stores}"
    return DeclaredRow(
        each.name,
        each.url,
        each.events,
        each.changed,
        stores,
        each.failed_stores,
        each.paused_stores,
        each.disabled_stores,
    )


@subscriptions.command("add")
@click.argument("app")
@click.argument("name")
@click.option(
    "--url", help="The https URL that receives the events of all stores. Without it, the app reads the feeds."
)
@click.option("--event", "events", multiple=True, required=True, help='An event, such as "order.*"; may be repeated.')
@click.option("--changed", multiple=True, help="Send an update only if this field changed; may be repeated.")
@click.option("--filter", "filters", multiple=True, metavar="KEY=VALUE", help="A condition; may be repeated.")
@click.option("--field", "fields", multiple=True, help="Send only this field of the resource; may be repeated.")
@click.option(
    "--payload", type=click.Choice(["full", "thin"]), default="full", show_default=True, help="With or without data."
)
@click.option(
    "--ordering",
    type=click.Choice(["none", "resource"]),
    default="none",
    show_default=True,
    help="The order of deliveries.",
)
@click.option("--skip-own", is_flag=True, help="Leave out changes that the app made itself.")
@click.option("--max-in-flight", type=int, default=10, show_default=True, help="Concurrent requests for each store.")
@click.option("--rate-per-s", type=int, help="Requests per second for each store.")
@json_option
@click.pass_obj
def add_declared(console: Console, app: str, *, as_json: bool, filters: tuple[str, ...], **given: Any) -> None:
    """Declare a subscription, or replace the one with this name. The first one shows the app's signing secret.

    \b
    Example:
      stoa app subscriptions add 3 prices --url https://app.example.com/hooks --event "product.*" --changed price
    """
    members: dict[str, Any] = {name: [*value] if isinstance(value, tuple) else value for name, value in given.items()}
    members["filter"] = {key: value for key, _, value in (each.partition("=") for each in filters)}

    async def declare(by: Operator) -> tuple[Declared, str | None]:
        # The service sends, so its rule decides, also if it is not in the environment of this command.
        allowed = by.settings.webhook_allow or await noted_webhook_allow(by.db) or ""
        by.settings = msgspec.structs.replace(by.settings, webhook_allow=allowed)
        try:
            return await app_subscriptions.declare(by, app, convert(members, AppSubscription, digits=0))
        except ValidationFailed as refusal:
            faults = "; ".join(f"{each.pointer[1:]} {each.detail}" for each in refusal.faults)
            raise Refused(faults) from refusal

    declared, secret = console.run(declare)
    _print(declared, as_json=as_json)
    if secret:
        click.echo(f"Signing secret: {secret}", err=as_json)
        warn_shown_once("signing secret")


@subscriptions.command("remove")
@click.argument("app")
@click.argument("name")
@json_option
@click.pass_obj
def remove_declared(console: Console, app: str, name: str, *, as_json: bool) -> None:
    """Remove a declared subscription from all stores, with the deliveries that wait there.

    \b
    Example:
      stoa app subscriptions remove 3 prices
    """
    _print(console.run(lambda by: app_subscriptions.remove(by, app, name)), as_json=as_json)


@subscriptions.command("resume")
@click.argument("app")
@click.argument("name")
@json_option
@click.pass_obj
def resume_declared(console: Console, app: str, name: str, *, as_json: bool) -> None:
    """Send again on the stores on which Stoa disabled the subscription, beginning with what waits there.

    \b
    Example:
      stoa app subscriptions resume 3 prices
    """
    _print(console.run(lambda by: app_subscriptions.resume(by, app, name)), as_json=as_json)
