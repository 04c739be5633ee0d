"""The `stoa` command: run the service, look after the database, and manage stores, apps and tokens."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import click
from rich.console import Console as Terminal

from stoa import settings as settings_module
from stoa.access.commands import COMMANDS, Console
from stoa.db import migrate as migrations
from stoa.db.embedded import DataFolderInUse, EmbeddedPostgres, EmbeddedPostgresFailed
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.imports.commands import COMMANDS as IMPORT_COMMANDS
from stoa.settings import Settings, WrongSetting
from stoa.worker import COMMANDS as WORKER_COMMANDS

_EPILOG = """\b
Examples:
  stoa serve --port 8000 --workers 2
  stoa store create demo --name "Demo shop" --currency USD
  stoa app create "Stock sync" --scopes products:read,inventory:write
"""


def _console(settings: Settings) -> Console:
    @asynccontextmanager
    async def database() -> AsyncGenerator[Database]:
        with _reached(settings) as (url, fresh):
            if fresh:
                await migrations.migrate(url)
            opened = Database(url, size=2, statement_timeout_ms=30_000)
            try:
                yield opened
            finally:
                await opened.close()

    return Console(settings, database)


@contextmanager
def _reached(settings: Settings) -> Generator[tuple[str, bool]]:
    """The database's URL, and whether it was started just for us: given, a running service's, or embedded."""
    if settings.database_url:
        yield settings.database_url, False
        return
    server = EmbeddedPostgres(settings.data_dir / "postgres")
    try:
        server.start()
    except DataFolderInUse:
        yield server.dsn, False  # a running service owns it; its socket serves us too
        return
    try:
        yield server.dsn, True
    finally:
        server.stop()


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="stoa")
@click.pass_context
def cli(context: click.Context) -> None:
    """Stoa: one REST interface to the products, orders, customers and webhooks of many stores.

    Every setting is an environment variable STOA_...; `stoa settings` lists them.
    """
    context.obj = _console(settings_module.load())


for command in (*COMMANDS, *IMPORT_COMMANDS, *WORKER_COMMANDS):
    cli.add_command(command)


@cli.command()
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on.")
@click.option("--workers", type=int, help="Processes that serve requests.")
@click.pass_obj
def serve(console: Console, host: str | None, port: int | None, workers: int | None) -> None:
    """Run the service; the embedded database starts and stops with it."""
    from stoa import serving  # noqa: PLC0415 - other commands need not load the server

    settings = settings_module.load(host=host, port=port, workers=workers, data_dir=console.settings.data_dir)
    for line in settings_module.unknown():
        click.echo(f"warning: {line}", err=True)
    serving.check_port(settings)
    with serving.database(settings) as ready:
        asyncio.run(migrations.migrate(ready.database_url))
        serving.serve(
            ready,
            on_ready=lambda: click.echo(f"Stoa is ready at http://{settings.host}:{settings.port}", err=True),
        )


@cli.command()
@click.option("--port", type=int, help="Port to listen on.")
@click.pass_obj
def demo(console: Console, port: int | None) -> None:
    """Run the service with two sample stores and an app, and print how to call it."""
    from stoa.demo.run import run_demo  # noqa: PLC0415

    run_demo(settings_module.load(port=port, data_dir=console.settings.data_dir))


@cli.command()
@click.pass_obj
def migrate(console: Console) -> None:
    """Bring the database to this release's schema."""
    with _reached(console.settings) as (url, _):
        done = asyncio.run(migrations.migrate(url))
    for migration in done:
        click.echo(f"applied {migration.version:04} {migration.name}")
    click.echo(f"The schema is at version {migrations.LATEST}.")


@cli.command()
def openapi() -> None:
    """Print the API's OpenAPI 3.1 description."""
    from stoa.description import openapi_bytes  # noqa: PLC0415

    sys.stdout.buffer.write(openapi_bytes())


@cli.command("settings")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_settings(console: Console, as_json: bool) -> None:
    """List every setting, its value and what it is for."""
    from stoa.settings import described  # noqa: PLC0415

    rows = described(console.settings)
    if as_json:
        click.echo(_json(rows))
        return
    from rich.table import Table  # noqa: PLC0415

    table = Table("Variable", "Value", "Default", "What it is for", box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(row["variable"], row["value"], row["default"], row["description"])
    Terminal().print(table)


def _json(value: Any) -> str:
    import msgspec  # noqa: PLC0415

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


_REFUSALS: tuple[type[Exception], ...] = (
    WrongSetting,
    DataFolderInUse,
    EmbeddedPostgresFailed,
    migrations.MigrationRefused,
    Unavailable,
    PostgresError,
    OSError,
)


def main(run: Callable[..., Any] = cli) -> None:
    """Run the command; what goes wrong is one clear line, not a traceback."""
    try:
        run(prog_name="stoa")
    except _REFUSALS as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
