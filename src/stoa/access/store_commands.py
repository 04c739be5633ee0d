"""The commands of `stoa store`, except the export, which `stoa.store_data.export` adds to the group."""

from collections.abc import Awaitable, Callable

import click

from stoa.access import closures, stores
from stoa.access.console import Console, print_one, print_rows
from stoa.access.contract import StoreRow
from stoa.access.operator import Operator
from stoa.access.options import json_option


@click.group()
def store() -> None:
    """Create, list, change, suspend, close, export and delete stores.

    \b
    Examples:
      stoa store create demo --name "Demo shop" --currency EUR
      stoa store list --json
    """


@store.command("create")
@click.argument("handle")
@click.option("--name", required=True, help="The display name of the store.")
@click.option("--currency", required=True, help="The store's currency as an ISO 4217 code, such as EUR.")
@click.option("--timezone", default=stores.UTC, show_default=True, help="The store's time zone, such as Europe/Berlin.")
@click.option("--locale", default=stores.ENGLISH, show_default=True, help="The store's language, such as de-DE.")
@click.option("--host", "hosts", multiple=True, help="A custom host name of the store; may be repeated.")
@click.option("--prices-include-tax", is_flag=True, help="The prices of new orders include taxes by default.")
@click.option("--shard", help="The shard of the store, or `directory`. Default: that with the fewest stores.")
@json_option
@click.pass_obj
def create_store(
    console: Console,
    handle: str,
    name: str,
    currency: str,
    timezone: str,
    locale: str,
    hosts: tuple[str, ...],
    shard: str | None,
    *,
    prices_include_tax: bool,
    as_json: bool,
) -> None:
    """Create a store, reachable at /stores/HANDLE and at HANDLE.{store domain}.

    \b
    Examples:
      stoa store create demo --name "Demo shop" --currency EUR --host shop.example.org
      stoa store create demo --name "Demo shop" --currency EUR --shard east
    """

    async def create(by: Operator) -> tuple[StoreRow, stores.Choice]:
        choice = await stores.choose_shard(by, shard)
        created = await stores.create_store(
            by,
            handle,
            name,
            currency,
            hosts,
            prices_include_tax=prices_include_tax,
            timezone=timezone,
            locale=locale,
            shard=choice.shard,
        )
        return created, choice

    created, choice = console.run(create)
    print_one(created, as_json=as_json)
    if choice.why:
        where = f"the shard {choice.shard}" if choice.shard else "the directory"
        click.echo(f"The store is in {where}: {choice.why}.", err=True)


@store.command("update")
@click.argument("handle")
@click.option("--name", help="The display name of the store.")
@click.option("--timezone", help="The store's time zone, such as Europe/Berlin.")
@click.option("--locale", help="The store's language, such as de-DE.")
@click.option(
    "--prices-include-tax/--prices-exclude-tax",
    "prices_include_tax",
    default=None,
    help="Whether the prices of new orders include taxes by default. Existing orders do not change.",
)
@json_option
@click.pass_obj
def update_store(
    console: Console,
    handle: str,
    name: str | None,
    timezone: str | None,
    locale: str | None,
    *,
    prices_include_tax: bool | None,
    as_json: bool,
) -> None:
    """Change the settings of a store; takes effect within a second.

    \b
    Examples:
      stoa store update demo --prices-include-tax
      stoa store update demo --timezone Europe/Berlin --locale de-DE
    """
    if prices_include_tax is None and name is None and timezone is None and locale is None:
        raise click.UsageError("Specify what to change, such as --prices-include-tax.")
    changed = console.run(
        lambda by: stores.update_store(
            by, handle, name=name, timezone=timezone, locale=locale, prices_include_tax=prices_include_tax
        )
    )
    print_one(changed, as_json=as_json)


@store.command("list")
@json_option
@click.pass_obj
def list_stores(console: Console, *, as_json: bool) -> None:
    """List all stores.

    \b
    Example:
      stoa store list
    """
    print_rows(console.run(stores.list_stores), as_json=as_json, none="There are no stores yet.")


@store.command("suspend")
@click.argument("handle")
@click.option("--reason", default="", help="The reason, which the audit log keeps.")
@json_option
@click.pass_obj
def suspend_store(console: Console, handle: str, reason: str, *, as_json: bool) -> None:
    """Refuse every app on a store until you resume it; takes effect within a second.

    \b
    Example:
      stoa store suspend demo --reason "Unpaid invoices"
    """
    print_one(console.run(lambda by: stores.suspend_store(by, handle, reason)), as_json=as_json)


@store.command("delete")
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


def _change(name: str, change: Callable[[Operator, str], Awaitable[StoreRow]], sentence: str) -> click.Command:
    """A command that needs only the handle of a store, and prints the changed store."""

    @click.command(name, help=f"{sentence}\n\n\b\nExample:\n  stoa store {name} demo")
    @click.argument("handle")
    @json_option
    @click.pass_obj
    def run(console: Console, handle: str, *, as_json: bool) -> None:
        print_one(console.run(lambda by: change(by, handle)), as_json=as_json)

    return run


for command in (
    _change("resume", stores.resume_store, "Admit apps to a suspended store again."),
    _change("close", closures.close_store, "Refuse every app on a store until you open it again; no data is lost."),
    _change("reopen", closures.reopen_store, "Admit apps to a closed store again, and cancel its deletion."),
    _change(
        "cancel-deletion",
        closures.cancel_store_deletion,
        "Cancel the deletion of a store, before its erasure begins; it stays closed.",
    ),
):
    store.add_command(command)
