"""The command `stoa metadata`: the metadata definitions of a store or of an app."""

import re
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from stoa.access.console import Console, print_one, print_rows
from stoa.access.operator import Operator, find_app, known_store
from stoa.access.options import json_option
from stoa.rest.metadata_types import RESOURCES, TYPES, Definition
from stoa.store_data import definitions

_SECONDS = 600.0
_WHOLE = re.compile(r"-?[0-9]+\Z")
_FRACTION = re.compile(r"-?[0-9]+\.[0-9]+\Z")
store_option = click.option("--store", help="The handle of the store, for definitions of its merchant.")
app_option = click.option("--app", help="The client id or number of the app, for definitions on all its stores.")


@click.group()
def metadata() -> None:
    """List, define and remove metadata keys with a type.

    A definition belongs to a merchant (`--store`) or to an app (`--app`), on every store that installs the app.

    \b
    Examples:
      stoa metadata define product warranty_months --type integer --min 0 --max 120 --store demo
      stoa metadata list --store demo
    """


class Row(msgspec.Struct):
    """A definition as the list shows it."""

    resource: str
    key: str
    type: str
    rules: str
    required_from: str | None
    description: str


@metadata.command("list")
@store_option
@app_option
@json_option
@click.pass_obj
def list_definitions(console: Console, store: str | None, app: str | None, *, as_json: bool) -> None:
    """List the definitions of a merchant or of an app.

    \b
    Example:
      stoa metadata list --app 3
    """
    _check_owner(store, app)
    _print(console.run(lambda by: _read(by, store, app)), as_json=as_json)


@metadata.command("define")
@click.argument("resource", type=click.Choice(RESOURCES))
@click.argument("key")
@click.option("--type", "kind", type=click.Choice(TYPES), required=True, help="The type of the values.")
@click.option("--min", "least", help="The smallest number, the first date, or the fewest values of a list.")
@click.option("--max", "most", help="The largest number, the last date, or the most values of a list.")
@click.option("--max-length", type=int, help="The most characters of a text or URL, or of each value of a list.")
@click.option("--choice", "choices", multiple=True, help="A value of a choice or list; repeat it for each value.")
@click.option("--description", default="", help="What the key means, for people.")
@click.option("--required-from", help="The date, such as 2027-01-31, from which a new resource must have the key.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, 86_400),
    default=_SECONDS,
    show_default=True,
    help="How long the check of the stored values may take. Nothing else waits for it.",
)
@store_option
@app_option
@json_option
@click.pass_obj
def define(console: Console, resource: str, key: str, **options: Any) -> None:
    """Define a key, or replace its definition; it takes effect within a second.

    A definition that stored values violate is refused with their number and examples.

    \b
    Example:
      stoa metadata define product care --type choice --choice wash --choice "dry clean" --store demo
    """
    store, app = options["store"], options["app"]
    _check_owner(store, app)
    given = {
        "resource": resource,
        "key": key,
        "type": options["kind"],
        "min": _bound(options["least"], options["kind"]),
        "max": _bound(options["most"], options["kind"]),
        "max_length": options["max_length"],
        "choices": list(options["choices"]),
        "description": options["description"],
        "required_from": options["required_from"],
    }

    async def work(by: Operator) -> Definition:
        definition = definitions.read_definition(given, of_app=app is not None)
        if store is not None:
            await definitions.define(by, store, definition, options["seconds"])
        else:
            await definitions.define_of_app(by, app, definition, options["seconds"])
        return definition

    defined = console.run(work)
    print_one(defined if options["as_json"] else _row(defined), as_json=options["as_json"])


@metadata.command("remove")
@click.argument("resource", type=click.Choice(RESOURCES))
@click.argument("key")
@store_option
@app_option
@json_option
@click.pass_obj
def remove(console: Console, resource: str, key: str, store: str | None, app: str | None, *, as_json: bool) -> None:
    """Remove a definition, and list the others. Stored values stay, and the key accepts any value again.

    \b
    Example:
      stoa metadata remove product warranty_months --store demo
    """
    _check_owner(store, app)

    async def work(by: Operator) -> list[Definition]:
        if store is not None:
            await definitions.remove(by, store, resource, key)
        else:
            await definitions.remove_of_app(by, app or "", resource, key)
        return await _read(by, store, app)

    _print(console.run(work), as_json=as_json)


async def _read(by: Operator, store: str | None, app: str | None) -> list[Definition]:
    if store is not None:
        return await definitions.definitions_of_store(by.db, (await known_store(by.db, store)).id)
    return await definitions.definitions_of_app(by.db, (await find_app(by.db, app or "")).id)


def _print(found: Sequence[Definition], *, as_json: bool) -> None:
    print_rows(found if as_json else [_row(each) for each in found], as_json=as_json, none="There are no definitions.")


def _check_owner(store: str | None, app: str | None) -> None:
    if (store is None) == (app is None):
        raise click.UsageError("specify either --store or --app")


def _bound(text: str | None, kind: str) -> Any:
    """A bound as its type has it; any other text stays, and the definition is refused."""
    if text is None or kind == "date":
        return text
    if _WHOLE.match(text):
        return int(text)
    return float(text) if _FRACTION.match(text) else text


def _row(definition: Definition) -> Row:
    return Row(
        definition.resource,
        definition.key,
        definition.type,
        definition.rules,
        definition.required_from,
        definition.description,
    )


COMMANDS: list[click.Command] = [metadata]
