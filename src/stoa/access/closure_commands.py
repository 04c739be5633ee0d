"""The commands to close, open again and delete a store."""

import click

from stoa.access import closures
from stoa.access.console import Console, print_one
from stoa.access.options import json_option


@click.command("close")
@click.argument("handle")
@json_option
@click.pass_obj
def close_store(console: Console, handle: str, *, as_json: bool) -> None:
    """Refuse every app on a store until you open it again; no data is lost.

    \b
    Example:
      stoa store close demo
    """
    print_one(console.run(lambda by: closures.close_store(by, handle)), as_json=as_json)


@click.command("reopen")
@click.argument("handle")
@json_option
@click.pass_obj
def reopen_store(console: Console, handle: str, *, as_json: bool) -> None:
    """Admit apps to a closed store again, and cancel its deletion.

    \b
    Example:
      stoa store reopen demo
    """
    print_one(console.run(lambda by: closures.reopen_store(by, handle)), as_json=as_json)


@click.command("delete")
@click.argument("handle")
@click.option(
    "--days",
    type=click.IntRange(0, 365),
    default=closures.ERASURE_DAYS,
    show_default=True,
    help="The delay before all rows are erased.",
)
@click.option("--confirm", metavar="HANDLE", required=True, help="The handle once more.")
@json_option
@click.pass_obj
def delete_store(console: Console, handle: str, days: int, confirm: str, *, as_json: bool) -> None:
    """Close a store, and erase it with everything in it after some days. Export it first.

    \b
    Examples:
      stoa store export demo > demo.ndjson
      stoa store delete demo --confirm demo
    """
    if confirm != handle:
        raise click.UsageError("--confirm must repeat the handle")
    print_one(console.run(lambda by: closures.delete_store(by, handle, days=days)), as_json=as_json)


@click.command("keep")
@click.argument("handle")
@json_option
@click.pass_obj
def keep_store(console: Console, handle: str, *, as_json: bool) -> None:
    """Cancel the deletion of a store, before its erasure begins; it stays closed.

    \b
    Example:
      stoa store keep demo
    """
    print_one(console.run(lambda by: closures.keep_store(by, handle)), as_json=as_json)


STORE_COMMANDS: list[click.Command] = [close_store, reopen_store, delete_store, keep_store]
