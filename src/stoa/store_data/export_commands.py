"""The command `stoa store export`, beside the other commands about stores."""

import click

from stoa.access.console import Console
from stoa.access.operator import Operator, find_store
from stoa.access.store_commands import store
from stoa.store_data.export import export_store, record_export


@click.command("export")
@click.argument("handle")
@click.pass_obj
def export_command(console: Console, handle: str) -> None:
    """Write a store to standard output as lines of JSON: settings, collections, products, variants, customers, orders and pictures.

    \b
    Example:
      stoa store export demo > demo.ndjson
    """

    async def run(by: Operator) -> None:
        found = await find_store(by.db, handle)
        await record_export(by, found)
        async for lines in export_store(by.db, found, by.settings):
            click.echo(lines, nl=False)

    console.run(run, at=handle)


store.add_command(export_command)
COMMANDS: list[click.Command] = [store]
