"""The `stoa` command: finds the module of each command, and reports errors in one line with an exit code."""

import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from stoa import DISTRIBUTION
from stoa import settings as settings_module
from stoa.access.console import (
    FAILED,
    INTERRUPTED,
    UNREACHABLE,
    WRONG_USAGE,
    Console,
    Refused,
    open_console,
    print_rows,
)
from stoa.access.options import json_option
from stoa.db.embedded import DataFolderInUse, EmbeddedPostgresFailed
from stoa.db.errors import PostgresError, Unavailable
from stoa.db.migrate import MigrationRefused
from stoa.settings import WrongSetting

_EPILOG = """\b
Examples:
  stoa serve --port 8000 --workers 2
  stoa store create demo --name "Demo shop" --currency USD
  stoa app create "Stock sync" --scopes products:read,inventory:write
"""


_MODULES = {
    "accept-key": "stoa.operations.commands",
    "account": "stoa.accounts.commands",
    "app": "stoa.app_file.commands",
    "audit": "stoa.access.audit_commands",
    "backup": "stoa.backup.commands",
    "collection": "stoa.products.collection_commands",
    "db": "stoa.cluster.commands",
    "demo": "stoa.processes.commands",
    "doctor": "stoa.operations.commands",
    "erasures": "stoa.backup.commands",
    "export": "stoa.store_data.list_exports",
    "import": "stoa.orders.commands",
    "listen": "stoa.webhooks.listen",
    "location": "stoa.inventory.location_commands",
    "mcp": "stoa.mcp.commands",
    "media": "stoa.pictures.commands",
    "metadata": "stoa.store_data.definition_commands",
    "migrate": "stoa.operations.commands",
    "restore": "stoa.backup.commands",
    "serve": "stoa.processes.commands",
    "shard": "stoa.shards.commands",
    "store": "stoa.store_data.export_commands",
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


@click.group(cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name=DISTRIBUTION)
@click.option("--traceback", is_flag=True, expose_value=False, help="Show the traceback of an internal error.")
@click.pass_context
def cli(context: click.Context) -> None:
    """Stoa: one REST API for the products, orders, customers and webhooks of many stores.

    Settings are environment variables STOA_...; `stoa settings` lists them.
    """
    context.obj = open_console(settings_module.load())


@cli.command()
@click.option(
    "--spec", type=click.Choice(["3.1", "3.2"]), default="3.1", show_default=True, help="The version of OpenAPI."
)
def openapi(spec: str) -> None:
    """Print the OpenAPI document of the API as JSON.

    \b
    Examples:
      stoa openapi > openapi.json
      stoa openapi --spec 3.2 > openapi-3.2.json
    """
    from stoa import description  # noqa: PLC0415

    document = description.openapi_32() if spec == "3.2" else description.openapi()
    sys.stdout.buffer.write(description.openapi_file(document))


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
    rows = settings_module.described(console.settings)
    if as_json:
        print_rows(rows, as_json=True, none="")
        return
    from stoa.access.tables import show_settings  # noqa: PLC0415

    show_settings(rows)


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
    MigrationRefused: FAILED,
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
