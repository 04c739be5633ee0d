"""The commands that migrate and examine a service: `stoa migrate`, `stoa doctor` and `stoa accept-key`."""

import asyncio

import click

from stoa.access.console import (
    FAILED,
    UNREACHABLE,
    WRONG_USAGE,
    Console,
    Refused,
    database_url,
    print_one,
    print_rows,
    progress,
)
from stoa.access.contract import AccessRefused
from stoa.access.options import json_option
from stoa.db import migrate as migrations
from stoa.db import migration_plan
from stoa.operations.telemetry import configure_logging
from stoa.secret_keys import key_fingerprint
from stoa.settings import secret_key
from stoa.shards import accepting
from stoa.shards.migrating import migrate_all


@click.command()
@click.option(
    "--plan", "only_plan", is_flag=True, help="Show what would be done, and with which locks. Change nothing."
)
@json_option
@click.pass_obj
def migrate(console: Console, *, only_plan: bool, as_json: bool) -> None:
    """Migrate the database and its shards to the schema of this release, while the previous release may serve requests.

    Each phase runs in all of them before the next one begins; --plan shows what the first database needs. If it is interrupted, run it again; it continues where it was.

    \b
    Examples:
      stoa migrate
      stoa migrate --plan
      STOA_DATABASE_URL=postgresql://stoa@db.example.com/stoa stoa migrate --json
    """
    if only_plan:
        with database_url(console.settings) as (url, _):
            steps = asyncio.run(migration_plan.plan(console.settings.database_direct_url or url))
        print_rows(steps, as_json=as_json, none=f"The schema is at version {migrations.LATEST}.")
        return
    configure_logging(console.settings)
    with database_url(console.settings) as (url, _), progress(quiet=as_json) as shown:
        shown.add_task("Migrating", total=None)
        done = asyncio.run(migrate_all(console.settings.database_direct_url or url, console.settings))
    if as_json:
        applied = [{"version": migration.version, "name": migration.name} for migration in done]
        print_one({"applied": applied, "version": migrations.LATEST}, as_json=True)
        return
    for migration in done:
        click.echo(f"applied {migration.version:04} {migration.name}")
    click.echo(f"The schema is at version {migrations.LATEST}.")


@click.command()
@json_option
@click.pass_obj
def doctor(console: Console, *, as_json: bool) -> None:
    """Check the database, the settings, the workers and the receivers, and say what to do about each problem.

    Nothing is changed. If there is a problem, the exit code is 1; warnings do not change it.

    \b
    Examples:
      stoa doctor
      stoa doctor --json
    """
    from stoa.operations import doctor as checks  # noqa: PLC0415 - a migration does not wait for its imports

    settings = console.settings
    if not settings.database_url and not (settings.data_dir / "postgres/data").exists():
        raise Refused(f"no service was ever started in {settings.data_dir}; set STOA_DATA_DIR or STOA_DATABASE_URL")
    with database_url(settings) as (url, _):
        found = asyncio.run(checks.examine(url, settings))
    print_rows(found, as_json=as_json, none="")
    if not as_json:
        click.echo(checks.summary(found))
    if checks.unreachable(found):
        raise click.exceptions.Exit(UNREACHABLE)
    if any(each.status == "problem" for each in found):
        raise click.exceptions.Exit(FAILED)


@click.command("accept-key")
@click.option("--yes", is_flag=True, help="Confirm that every stored credential stops working.")
@click.option("--shard", "shards", multiple=True, metavar="NAME=URL", help="A shard with its address. Repeatable.")
@json_option
@click.pass_obj
def accept_key(console: Console, shards: tuple[str, ...], *, yes: bool, as_json: bool) -> None:
    """Make the current STOA_SECRET_KEY the key of the database and its shards, because the former key is lost.

    Every client secret, token, webhook secret, two-factor secret and session that was stored with the former key stops
    working. So do the addresses of shards: name each again. Stop the service first. If it is interrupted, run it again.

    \b
    Examples:
      stoa accept-key --yes
      stoa accept-key --yes --shard east=postgresql://stoa:secret@db2.example.com/stoa
    """
    if not yes:
        raise Refused("every stored credential stops working; pass --yes if the former key is lost", WRONG_USAGE)
    urls = {name: url for name, _, url in (shard.partition("=") for shard in shards)}
    if not all(urls.values()):
        raise Refused("pass each shard with its address, as --shard NAME=URL", WRONG_USAGE)

    async def replace() -> str:
        keys = secret_key(console.settings)
        async with console.database() as db:
            await accepting.accept_key(db, keys, urls)
        return key_fingerprint(keys.current)

    try:
        print_one({"fingerprint": asyncio.run(replace())}, as_json=as_json)
    except AccessRefused as refusal:
        raise Refused(str(refusal)) from refusal


COMMANDS: list[click.Command] = [migrate, doctor, accept_key]
