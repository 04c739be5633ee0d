"""The `stoa` command: runs the service, migrates the database, and manages stores, apps and tokens."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from rich.console import Console as Terminal

from stoa import settings as settings_module
from stoa.access.console import (
    FAILED,
    INTERRUPTED,
    UNREACHABLE,
    WRONG_USAGE,
    Console,
    Refused,
    print_one,
    print_rows,
    progress,
)
from stoa.access.options import json_option
from stoa.db import migrate as migrations
from stoa.db import migration_plan
from stoa.db.embedded import DataFolderInUse, EmbeddedPostgres, EmbeddedPostgresFailed
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.pool import Database
from stoa.db.service_facts import key_fingerprint, replace_key
from stoa.settings import Settings, WrongSetting, secret_key

_EPILOG = """\b
Examples:
  stoa serve --port 8000 --workers 2
  stoa store create demo --name "Demo shop" --currency USD
  stoa app create "Stock sync" --scopes products:read,inventory:write
"""


_MODULES = {
    "account": "stoa.accounts.commands",
    "app": "stoa.webhooks.app_commands",
    "audit": "stoa.access.audit_commands",
    "backup": "stoa.backup.commands",
    "db": "stoa.cluster.commands",
    "erasures": "stoa.backup.commands",
    "import": "stoa.imports.commands",
    "listen": "stoa.webhooks.listen",
    "location": "stoa.inventory.location_commands",
    "mcp": "stoa.mcp.commands",
    "restore": "stoa.backup.commands",
    "store": "stoa.store_data.export",
    "token": "stoa.access.token_commands",
    "worker": "stoa.worker",
}


class Commands(click.Group):
    """Imports the module of a command when it is used, so that no command waits for the imports of the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *_MODULES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _MODULES and cmd_name not in self.commands:
            self._load(_MODULES[cmd_name])
        return super().get_command(ctx, cmd_name)

    def load_all(self) -> None:
        """Import every command, for those who need `commands` complete."""
        for module in dict.fromkeys(_MODULES.values()):
            self._load(module)

    def _load(self, module: str) -> None:
        commands: Sequence[click.Command] = import_module(module).COMMANDS
        for command in commands:
            self.add_command(command)


def _console(settings: Settings) -> Console:
    @asynccontextmanager
    async def database() -> AsyncGenerator[Database]:
        with _database_url(settings) as (url, started):
            if started:
                await migrations.migrate(url)
            opened = Database(url, size=2, statement_timeout_ms=30_000)
            try:
                yield opened
            finally:
                await opened.close()

    return Console(settings, database)


@contextmanager
def _database_url(settings: Settings) -> Generator[tuple[str, bool]]:
    """The database's URL, and whether its server was started for this command and must be migrated."""
    if settings.database_url:
        yield settings.database_url, False
        return
    server = EmbeddedPostgres(settings.data_dir / "postgres")
    try:
        with progress() as shown:
            shown.add_task("Starting PostgreSQL", total=None)
            server.start()
    except DataFolderInUse:
        yield server.dsn, False  # a running service owns the server; its socket accepts us too
        return
    try:
        yield server.dsn, True
    finally:
        server.stop()


@click.group(cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="stoa")
@click.option("--traceback", is_flag=True, expose_value=False, help="Show the traceback of an internal error.")
@click.pass_context
def cli(context: click.Context) -> None:
    """Stoa: one REST API for the products, orders, customers and webhooks of many stores.

    Settings are environment variables STOA_...; `stoa settings` lists them.
    """
    context.obj = _console(settings_module.load())


@cli.command()
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on.")
@click.option("--workers", type=int, help="Number of processes that serve requests.")
@click.option("--no-background", is_flag=True, help="Deliver no webhooks and run no imports; `stoa worker` does it.")
@click.option("--no-migrate", is_flag=True, help="Do not change the schema; `stoa migrate` does it.")
@click.pass_obj
def serve(
    console: Console,
    host: str | None,
    port: int | None,
    workers: int | None,
    *,
    no_background: bool,
    no_migrate: bool,
) -> None:
    """Run the service; the embedded database starts and stops with it.

    SIGTERM stops it after running requests are finished; SIGHUP reloads it with the installed release.

    \b
    Examples:
      stoa serve
      stoa serve --host 0.0.0.0 --port 8000 --workers 4
      stoa serve --no-background --no-migrate
    """
    from stoa.accounts.registration import setup_message  # noqa: PLC0415
    from stoa.processes import serving  # noqa: PLC0415 - other commands need not load the server

    settings = settings_module.load(host=host, port=port, workers=workers, data_dir=console.settings.data_dir)
    for line in settings_module.unknown():
        click.echo(f"warning: {line}", err=True)
    serving.check_port(settings)
    serving.check_metrics(settings)
    with serving.database(settings) as ready:
        migrates = not no_migrate and serving.migrate_schema(ready)
        for warning in serving.check_start(ready, background=not no_background):
            click.echo(f"warning: {warning}", err=True)
        lines = [f"Stoa is ready at http://{settings.host}:{settings.port}", asyncio.run(setup_message(ready))]
        serving.serve(
            ready,
            on_ready=lambda: click.echo("\n".join(filter(None, lines)), err=True),
            background=not no_background,
            migrate_on_reload=migrates,
        )


@cli.command()
@click.option("--port", type=int, help="Port to listen on.")
@click.pass_obj
def demo(console: Console, port: int | None) -> None:
    """Run the service with two sample stores and an app, and print example calls.

    \b
    Example:
      stoa demo --port 8080
    """
    from stoa.demo.run import run_demo  # noqa: PLC0415
    from stoa.processes import serving  # noqa: PLC0415

    run_demo(settings_module.load(port=port, data_dir=console.settings.data_dir), serving)


@cli.command()
@click.option(
    "--plan", "only_plan", is_flag=True, help="Show what would be done, and with which locks. Change nothing."
)
@json_option
@click.pass_obj
def migrate(console: Console, *, only_plan: bool, as_json: bool) -> None:
    """Migrate the database to the schema of this release, while the previous release may serve requests.

    If it is interrupted, run it again; it continues where it was.

    \b
    Examples:
      stoa migrate
      stoa migrate --plan
      STOA_DATABASE_URL=postgresql://stoa@db.example.com/stoa stoa migrate --json
    """
    from stoa.operations.telemetry import configure_logging  # noqa: PLC0415 - other commands need not load it

    if only_plan:
        with _database_url(console.settings) as (url, _):
            steps = asyncio.run(migration_plan.plan(console.settings.database_direct_url or url))
        print_rows(steps, as_json=as_json, none=f"The schema is at version {migrations.LATEST}.")
        return
    configure_logging(console.settings)
    with _database_url(console.settings) as (url, _), progress(quiet=as_json) as shown:
        shown.add_task("Migrating", total=None)
        done = asyncio.run(migrations.migrate(console.settings.database_direct_url or url))
    if as_json:
        applied = [{"version": migration.version, "name": migration.name} for migration in done]
        print_one({"applied": applied, "version": migrations.LATEST}, as_json=True)
        return
    for migration in done:
        click.echo(f"applied {migration.version:04} {migration.name}")
    click.echo(f"The schema is at version {migrations.LATEST}.")


@cli.command()
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
    from stoa.operations import doctor as checks  # noqa: PLC0415 - other commands need not load it

    settings = console.settings
    if not settings.database_url and not (settings.data_dir / "postgres/data").exists():
        raise Refused(f"no service was ever started in {settings.data_dir}; set STOA_DATA_DIR or STOA_DATABASE_URL")
    with _database_url(settings) as (url, _):
        found = asyncio.run(checks.examine(url, settings))
    print_rows(found, as_json=as_json, none="")
    if not as_json:
        click.echo(checks.summary(found))
    if checks.unreachable(found):
        raise click.exceptions.Exit(UNREACHABLE)
    if any(each.status == "problem" for each in found):
        raise click.exceptions.Exit(FAILED)


@cli.command("accept-key")
@click.option("--yes", is_flag=True, help="Confirm that every stored credential stops working.")
@json_option
@click.pass_obj
def accept_key(console: Console, *, yes: bool, as_json: bool) -> None:
    """Make the current STOA_SECRET_KEY the key of the database, because the former key is lost.

    Every client secret, token, webhook secret, two-factor secret and session that was stored with the former key stops
    working. Restart the service afterwards.

    \b
    Example:
      stoa accept-key --yes
    """
    if not yes:
        raise Refused("every stored credential stops working; pass --yes if the former key is lost", WRONG_USAGE)

    async def replace() -> str:
        async with console.database() as db:
            await replace_key(db, secret_key(console.settings))
            return key_fingerprint(secret_key(console.settings))

    print_one({"fingerprint": asyncio.run(replace())}, as_json=as_json)


@cli.command()
def openapi() -> None:
    """Print the OpenAPI 3.1 document of the API as JSON.

    \b
    Example:
      stoa openapi > openapi.json
    """
    from stoa.description import openapi_bytes  # noqa: PLC0415

    sys.stdout.buffer.write(openapi_bytes())


@cli.command("settings")
@json_option
@click.pass_obj
def list_settings(console: Console, as_json: bool) -> None:
    """List every setting with its value, default and description.

    \b
    Examples:
      stoa settings
      STOA_WORKERS=8 stoa settings --json
    """
    from stoa.settings import described  # noqa: PLC0415

    rows = described(console.settings)
    if as_json:
        print_rows(rows, as_json=True, none="")
        return
    from rich.table import Table  # noqa: PLC0415

    table = Table("Variable", "Value", "Default", "Description", box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(row["variable"], row["value"], row["default"], row["description"])
    Terminal().print(table)


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a shell script that completes commands, options and values.

    \b
    Examples:
      eval "$(stoa completion bash)"                                            for this shell only
      stoa completion bash > ~/.local/share/bash-completion/completions/stoa    permanently
      stoa completion zsh > "${fpath[1]}/_stoa"
      stoa completion fish > ~/.config/fish/completions/stoa.fish
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    kind = get_completion_class(shell)
    if kind is None:  # click supports all of these
        raise Refused(f"there is no completion for {shell}")
    template = kind(cli, {}, "stoa", "_STOA_COMPLETE")
    click.echo(template.source_template % template.source_vars())


_REFUSALS: dict[type[Exception], int] = {
    WrongSetting: WRONG_USAGE,
    Unavailable: UNREACHABLE,
    ConnectionError: UNREACHABLE,
    DataFolderInUse: FAILED,
    EmbeddedPostgresFailed: FAILED,
    migrations.MigrationRefused: FAILED,
    PostgresError: FAILED,
    OSError: FAILED,
}


def _with_suggestion(refusal: click.ClickException) -> click.ClickException:
    """The same error, extended by the most similar command if the given one does not exist."""
    context = refusal.ctx if isinstance(refusal, click.UsageError) else None
    if context is None or not isinstance(context.command, click.Group) or "No such command" not in refusal.message:
        return refusal
    given = refusal.message.partition("'")[2].rstrip("'.")
    similar = get_close_matches(given, context.command.list_commands(context), 1)
    suggestion = f" Did you mean {context.command_path} {similar[0]}?" if similar else ""
    return click.UsageError(refusal.message + suggestion, context)


def main(run: Callable[..., Any] = cli) -> None:
    """Run the command; an error is reported in one line instead of a traceback, with an exit code for its kind."""
    try:
        code = run(prog_name="stoa", standalone_mode=False)
    except click.ClickException as refusal:
        _with_suggestion(refusal).show()
        code = refusal.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = INTERRUPTED
    except BrokenPipeError:  # the reader of our output has exited, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except tuple(_REFUSALS) as error:
        click.echo(f"error: {error}", err=True)
        # An unreachable address is raised as the setting that contains it.
        cause = error.__cause__ if isinstance(error.__cause__, Unavailable) else error
        code = next(code for kind, code in _REFUSALS.items() if isinstance(cause, kind))
    except Exception as error:
        if "--traceback" in sys.argv:
            raise
        advice = "this is a bug in Stoa; `stoa --traceback ...` shows where it occurs"
        click.echo(f"error: {type(error).__name__}: {error}\n{advice}", err=True)
        code = FAILED
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
