"""The command `stoa collection`, by which operators manage the collections of a store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from stoa.access.console import Console, print_one, print_rows
from stoa.access.operator import Operator
from stoa.access.options import json_option
from stoa.media.contract import MOST_PICTURE_BYTES
from stoa.media.files import close_media
from stoa.products import collection_changes
from stoa.products.collection_changes import Details


@click.group()
def collection() -> None:
    """List, create, change and delete the collections of a store, and put products into them.

    \b
    Examples:
      stoa collection create demo summer --title "Summer" --rule tag=linen --rule price=10.00..50.00
      stoa collection add demo summer MUG-1 MUG-2 --position 1
    """


def _pair(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, str]]:
    """Rules such as `tag=linen`."""
    pairs = [each.partition("=") for each in values]
    if any(not equals for _, equals, _ in pairs):
        raise click.BadParameter("write a rule as FIELD=VALUE, such as tag=linen")
    return [(field, value) for field, _, value in pairs]


def _picture(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | bytes | None:
    """A URL, or the contents of a file."""
    if not value or value.startswith(("http://", "https://")):
        return value
    try:
        with Path(value).open("rb") as file:
            return file.read(MOST_PICTURE_BYTES + 1)  # the decoder refuses one that is larger
    except OSError as error:
        raise click.BadParameter(f"give a URL, or a file that can be read ({error.strerror})") from error


def _details(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that describe a collection."""
    options = (
        click.option("--description", help="The text that a shop shows; an empty text removes it."),
        click.option(
            "--picture",
            callback=_picture,
            metavar="URL|FILE",
            help="The URL of a picture, or a file to upload; an empty text removes it.",
        ),
        click.option(
            "--rule",
            "rules",
            multiple=True,
            callback=_pair,
            help="A rule that puts products into the collection: tag=, brand=, category= or price=LOW..HIGH; may be repeated.",
        ),
        click.option(
            "--match", type=click.Choice(["all", "any"]), help="Whether a product must fulfill all rules or any."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@collection.command("list")
@click.argument("store")
@json_option
@click.pass_obj
def list_collections(console: Console, store: str, *, as_json: bool) -> None:
    """List the collections of a store with their rules and the number of their products.

    \b
    Example:
      stoa collection list demo
    """
    found = console.run(lambda by: collection_changes.list_collections(by, store), at=store)
    print_rows([_row(each) for each in found], as_json=as_json, none="The store has no collections.")


@collection.command("create")
@click.argument("store")
@click.argument("handle")
@click.option("--title", required=True, help="The name that customers see.")
@_details
@json_option
@click.pass_obj
def create_collection(
    console: Console,
    store: str,
    handle: str,
    title: str,
    description: str | None,
    picture: str | bytes | None,
    rules: list[tuple[str, str]],
    match: Any,
    *,
    as_json: bool,
) -> None:
    """Create a collection. Its handle never changes; its rules are applied in the background.

    \b
    Examples:
      stoa collection create demo gifts --title "Gifts"
      stoa collection create demo kitchen --title "Kitchen" --rule category=Home/Kitchen --rule tag=cooking --match any
    """

    async def run(by: Operator) -> collection_changes.Collection:
        shown = await _stored(by, store, picture)
        details = Details(title, description, shown, rules, match or "all")
        return await collection_changes.create_collection(by, store, handle, details)

    created = console.run(run, at=store)
    print_one(_row(created), as_json=as_json)


@collection.command("update")
@click.argument("store")
@click.argument("handle")
@click.option("--title", help="The new name.")
@_details
@click.option("--no-rules", is_flag=True, help="Remove all rules: only products chosen by hand stay.")
@json_option
@click.pass_obj
def update_collection(
    console: Console, store: str, handle: str, *, no_rules: bool, as_json: bool, **options: Any
) -> None:
    """Change a collection; rules that are given replace all earlier ones.

    \b
    Example:
      stoa collection update demo summer --rule tag=linen --rule tag=cotton --match any
    """
    changes = {name: value for name, value in options.items() if value not in (None, [])}
    if no_rules and "rules" in changes:
        raise click.UsageError("Give either --rule or --no-rules.")
    if no_rules:
        changes["rules"] = []
    if not changes:
        raise click.UsageError("Specify what to change, such as --title.")

    async def run(by: Operator) -> collection_changes.Collection:
        if "picture" in changes:
            changes["picture"] = await _stored(by, store, changes["picture"])
        return await collection_changes.update_collection(by, store, handle, **changes)

    changed = console.run(run, at=store)
    print_one(_row(changed), as_json=as_json)


@collection.command("delete")
@click.argument("store")
@click.argument("handle")
@json_option
@click.pass_obj
def delete_collection(console: Console, store: str, handle: str, *, as_json: bool) -> None:
    """Delete a collection. Its products remain, and leave it in the background.

    \b
    Example:
      stoa collection delete demo summer
    """
    deleted = console.run(lambda by: collection_changes.delete_collection(by, store, handle), at=store)
    print_one(_row(deleted), as_json=as_json)


@collection.command("add")
@click.argument("store")
@click.argument("handle")
@click.argument("skus", nargs=-1, required=True, metavar="SKU...")
@click.option("--position", type=int, help="The place of the first product; the others follow it.")
@json_option
@click.pass_obj
def add_products(
    console: Console, store: str, handle: str, skus: tuple[str, ...], position: int | None, *, as_json: bool
) -> None:
    """Put the products with these SKUs into a collection by hand.

    \b
    Example:
      stoa collection add demo gifts MUG-1 MUG-2 --position 1
    """
    changed = console.run(lambda by: collection_changes.add_products(by, store, handle, skus, position), at=store)
    print_one(_row(changed), as_json=as_json)


@collection.command("remove")
@click.argument("store")
@click.argument("handle")
@click.argument("skus", nargs=-1, required=True, metavar="SKU...")
@json_option
@click.pass_obj
def remove_products(console: Console, store: str, handle: str, skus: tuple[str, ...], *, as_json: bool) -> None:
    """Remove the products with these SKUs, unless they fulfill the rules of the collection.

    \b
    Example:
      stoa collection remove demo gifts MUG-2
    """
    changed = console.run(lambda by: collection_changes.remove_products(by, store, handle, skus), at=store)
    print_one(_row(changed), as_json=as_json)


async def _stored(by: Operator, store: str, picture: str | bytes | None) -> str | None:
    """The URL of a picture; a file is stored first."""
    if not isinstance(picture, bytes):
        return picture
    try:
        return await collection_changes.store_picture(by, store, picture)
    finally:
        await close_media()


def _row(of: collection_changes.Collection) -> dict[str, Any]:
    """A collection with its rules as they are given."""
    return {
        "handle": of.handle,
        "title": of.title,
        "products": of.products,
        "match": of.match,
        "rules": [f"{each.field}={each.value}" for each in of.rules],
        "description": of.description,
        "picture": of.picture,
        "updated_at": of.updated_at,
    }


COMMANDS: list[click.Command] = [collection]
