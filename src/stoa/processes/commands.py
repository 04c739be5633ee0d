"""The commands that run a service: `stoa serve` and `stoa demo`."""

import asyncio

import click

from stoa.access.console import Console
from stoa.accounts.registration import setup_message
from stoa.processes import serving
from stoa.settings import load, unknown


@click.command()
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
    settings = load(host=host, port=port, workers=workers, data_dir=console.settings.data_dir)
    for line in unknown():
        click.echo(f"warning: {line}", err=True)
    serving.check_port(settings)
    serving.check_metrics(settings)
    with serving.database(settings) as ready:
        migrates = not no_migrate and serving.migrate_schema(ready)
        checked, warnings = serving.check_start(ready, background=not no_background)
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)
        lines = [f"Stoa is ready at http://{settings.host}:{settings.port}", asyncio.run(setup_message(checked))]
        serving.serve(
            checked,
            on_ready=lambda: click.echo("\n".join(filter(None, lines)), err=True),
            background=not no_background,
            migrate_on_reload=migrates,
        )


@click.command()
@click.option("--port", type=int, help="Port to listen on.")
@click.pass_obj
def demo(console: Console, port: int | None) -> None:
    """Run the service with two sample stores and an app, and print example calls.

    \b
    Example:
      stoa demo --port 8080
    """
    from stoa.demo.run import run_demo  # noqa: PLC0415 - a service does not need the sample stores

    run_demo(load(port=port, data_dir=console.settings.data_dir), serving)


COMMANDS: list[click.Command] = [serve, demo]
