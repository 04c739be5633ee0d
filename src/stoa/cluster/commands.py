"""The commands to distribute a database over a cluster, to move a store, and to see what lives where."""

import asyncio

import click

from stoa.access.console import Console, Refused, print_one, print_rows
from stoa.access.options import json_option
from stoa.cluster import isolation
from stoa.cluster.distribution import SHARDS, DistributionRefused, Step, distribute, plan
from stoa.cluster.isolation import Isolation, IsolationRefused, isolate
from stoa.cluster.status import Status, StatusRefused, read_status
from stoa.db.placement import PlacementRefused


@click.group()
def db() -> None:
    """Distribute the database over the nodes of a Citus cluster, move a store, and show what lives where.

    \b
    Examples:
      stoa db distribute --plan
      stoa db isolate acme --node db3.internal:5432
      stoa db status
    """


@db.command("distribute")
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be done, and change nothing.")
@click.option(
    "--shards",
    type=click.IntRange(1, 1024),
    default=SHARDS,
    show_default=True,
    help="The number of shards of each table; it counts at the first run only.",
)
@json_option
@click.pass_obj
def distribute_database(console: Console, *, only_plan: bool, shards: int, as_json: bool) -> None:
    """Distribute the tables of a migrated database by store over the nodes of a Citus cluster.

    STOA_DATABASE_URL names the coordinator. Stop the service first. What is done already stays; after a failure, run it
    again. Run it again, too, after nodes were added or shards were moved: the service may run then.

    \b
    Examples:
      stoa db distribute --plan
      stoa db distribute --shards 64
    """
    url = _coordinator(console)
    try:
        if only_plan:
            print_rows(
                asyncio.run(plan(url)), as_json=as_json, none="Nothing to do: every table lives where it declares."
            )
            return

        def report(step: Step) -> None:
            if not as_json:
                click.echo(f"{step.subject}: {step.action}")

        done = asyncio.run(distribute(url, shards=shards, report=report))
    except (DistributionRefused, PlacementRefused) as refusal:
        raise Refused(str(refusal)) from refusal
    if as_json:
        print_rows(done, as_json=True, none="")
    else:
        click.echo("The database is distributed." if done else "Nothing to do: every table lives where it declares.")


@db.command("isolate")
@click.argument("store")
@click.option(
    "--node", default="", metavar="HOST:PORT", help="The worker that the store moves to; by default it stays."
)
@click.option("--plan", "only_plan", is_flag=True, help="Show what would be done, and change nothing.")
@json_option
@click.pass_obj
def isolate_store(console: Console, *, store: str, node: str, only_plan: bool, as_json: bool) -> None:
    """Give one store shards of its own, and move them to a worker of your choice, while the store is served.

    Stores share shards. A store that grows beyond the others gets its own, and a worker that you added for it. While the
    shards are split, writes to the stores in them are answered with 503; a move refuses no request. What is done already
    stays; after a failure, run it again.

    \b
    Examples:
      stoa db isolate acme --plan
      stoa db isolate acme --node db3.internal:5432
    """
    url, asked = _coordinator(console), Isolation(store, node)
    nothing = f"Nothing to do: {store} has shards of its own{f' on {node}' if node else ''}."
    try:
        if only_plan:
            print_rows(asyncio.run(isolation.plan(url, asked)), as_json=as_json, none=nothing)
            return

        def report(step: Step) -> None:
            if not as_json:
                click.echo(f"{step.subject}: {step.action}")

        done = asyncio.run(isolate(url, asked, report))
    except (IsolationRefused, DistributionRefused) as refusal:
        raise Refused(str(refusal)) from refusal
    if as_json:
        print_rows(done, as_json=True, none="")
    elif not done:
        click.echo(nothing)


@db.command("status")
@json_option
@click.pass_obj
def show_status(console: Console, *, as_json: bool) -> None:
    """Show the nodes with their shards and sizes, the largest tables, and the largest stores with their nodes.

    \b
    Examples:
      stoa db status
      stoa db status --json
    """

    async def read() -> Status:
        async with console.database() as database:
            return await read_status(database)

    try:
        found = asyncio.run(read())
    except StatusRefused as refusal:
        raise Refused(str(refusal)) from refusal
    if as_json:
        print_one(found, as_json=True)
        return
    for rows in (found.nodes, found.tables, found.stores):
        print_rows(rows, as_json=False, none="There are no stores yet.")


def _coordinator(console: Console) -> str:
    if not console.settings.database_url:
        raise Refused("the embedded database is one server; set STOA_DATABASE_URL to the coordinator of a cluster")
    return console.settings.database_url


COMMANDS: list[click.Command] = [db]
