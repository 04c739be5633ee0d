"""The command `stoa location`, by which operators manage the locations of a store."""

import click

from stoa.access.console import Console, print_one, print_rows
from stoa.access.options import json_option
from stoa.inventory import locations


@click.group()
def location() -> None:
    """List, add, change, deactivate and activate the locations that hold a store's stock.

    \b
    Examples:
      stoa location add demo east --name "East warehouse" --priority 20
      stoa location list demo --json
    """


@location.command("list")
@click.argument("store")
@json_option
@click.pass_obj
def list_locations(console: Console, store: str, *, as_json: bool) -> None:
    """List the locations of a store in the order in which orders reserve stock.

    \b
    Example:
      stoa location list demo
    """
    found = console.run(lambda by: locations.list_locations(by, store), at=store)
    print_rows(found, as_json=as_json, none="The store has no locations.")


@location.command("add")
@click.argument("store")
@click.argument("code")
@click.option("--name", required=True, help="The display name of the location.")
@click.option("--address", help="The postal address, as free text.")
@click.option(
    "--priority",
    type=int,
    default=locations.AFTER_DEFAULT,
    show_default=True,
    help="Orders reserve stock at the location with the lowest number first; the default location starts with 0.",
)
@json_option
@click.pass_obj
def add_location(
    console: Console, store: str, code: str, name: str, address: str | None, priority: int, *, as_json: bool
) -> None:
    """Add a location to a store; apps can transfer stock to it within a second.

    \b
    Example:
      stoa location add demo east --name "East warehouse" --address "4 Dock Road, Bath" --priority 20
    """
    added = console.run(lambda by: locations.add_location(by, store, code, name, address, priority), at=store)
    print_one(added, as_json=as_json)


@location.command("update")
@click.argument("store")
@click.argument("code")
@click.option("--name", help="The new display name.")
@click.option("--address", help="The new address; an empty text removes it.")
@click.option("--priority", type=int, help="The new priority.")
@json_option
@click.pass_obj
def update_location(
    console: Console,
    store: str,
    code: str,
    name: str | None,
    address: str | None,
    priority: int | None,
    *,
    as_json: bool,
) -> None:
    """Change the name, address or priority of a location; its code never changes.

    \b
    Example:
      stoa location update demo default --priority 50
    """
    changed = console.run(lambda by: locations.update_location(by, store, code, name, address, priority), at=store)
    print_one(changed, as_json=as_json)


@location.command("deactivate")
@click.argument("store")
@click.argument("code")
@json_option
@click.pass_obj
def deactivate_location(console: Console, store: str, code: str, *, as_json: bool) -> None:
    """Deactivate a location that holds no stock.

    \b
    Example:
      stoa location deactivate demo east
    """
    print_one(console.run(lambda by: locations.deactivate_location(by, store, code), at=store), as_json=as_json)


@location.command("activate")
@click.argument("store")
@click.argument("code")
@json_option
@click.pass_obj
def activate_location(console: Console, store: str, code: str, *, as_json: bool) -> None:
    """Activate a deactivated location again.

    \b
    Example:
      stoa location activate demo east
    """
    print_one(console.run(lambda by: locations.activate_location(by, store, code), at=store), as_json=as_json)


COMMANDS: list[click.Command] = [location]
