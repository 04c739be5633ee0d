"""The commands of `stoa app`, completed by those for its file: `init`, `validate`, `diff`, `push` and `pull`."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from stoa.access.console import FAILED, WRONG_USAGE, Refused
from stoa.access.options import json_option
from stoa.app_file import starter
from stoa.app_file.client import SECRET, FileRefused, Service, Unconfirmed, keep_variable
from stoa.app_file.contract import FILE_NAME, Change, Pushed
from stoa.app_file.reading import read_file
from stoa.rest.problems import Fault, ValidationFailed, counted
from stoa.webhooks.app_commands import app_group

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_SIGNS = {"add": "+", "change": "~", "remove": "-"}

file_option = click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path(FILE_NAME),
    show_default=True,
    help="The file of the app.",
)
service_option = click.option(
    "--service",
    "url",
    metavar="URL",
    help="The service, such as https://stoa.example.com. Default: STOA_SERVICE_URL, also from the file .env beside it.",
)


@click.command("init")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option("--name", default="My app", show_default=True, help="The name that merchants see.")
@click.option(
    "--language",
    type=click.Choice(starter.LANGUAGES),
    default="python",
    show_default=True,
    help="The language of the example.",
)
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True, help="The port of the example.")
@service_option
def init(folder: Path, name: str, language: str, port: int, url: str | None) -> None:
    """Write a first file and a small app that receives its events, into an empty folder.

    \b
    Example:
      stoa app init stock-app --name "Stock sync" --language typescript
    """
    written = starter.write(folder, name=name, language=language, port=port, service=url or "")
    for path in written:
        click.echo(f"wrote {path}")
    click.echo(f"\nNext: put a deploy token into {folder / '.env'}, then run `stoa app push` in this folder.")


@click.command("validate")
@file_option
@json_option
def validate(path: Path, *, as_json: bool) -> None:
    """Check a file without a service; each fault names its line and key.

    \b
    Example:
      stoa app validate --file apps/stock/stoa.app.toml
    """
    _checked(path, as_json=as_json)
    click.echo("[]" if as_json else f"{path} is valid.")


@click.command("diff")
@file_option
@service_option
@click.option("--check", is_flag=True, help="Exit with 1 if there is a difference, for a CI job.")
@json_option
def diff(path: Path, url: str | None, *, check: bool, as_json: bool) -> None:
    """Show what a push would change, without changing it.

    \b
    Example:
      stoa app diff --check
    """
    text = _checked(path)
    pushed = _sent(path, lambda: Service(path.parent, url).put(text, dry_run=True))
    _print(pushed, as_json=as_json)
    if check and pushed.changes:
        raise Refused(f"{path} has {counted(len(pushed.changes), 'change')} that were not pushed", FAILED)


@click.command("push")
@file_option
@service_option
@click.option("--yes", is_flag=True, help="Confirm changes that merchants must approve, and removals.")
@json_option
def push(path: Path, url: str | None, *, yes: bool, as_json: bool) -> None:
    """Change the app to what its file says. A second push changes nothing.

    If the app gets its signing secret, the command writes it to the file .env beside the app file, never to the screen.

    \b
    Examples:
      stoa app push
      STOA_DEPLOY_TOKEN=... stoa app push --service https://stoa.example.com --yes
    """
    text, secrets = _checked(path), path.parent / ".env"
    _check_writable(secrets)
    try:
        pushed = _sent(path, lambda: Service(path.parent, url).put(text, confirm=yes))
    except Unconfirmed as refusal:
        _print_changes(refusal.changes)
        raise Refused("nothing was changed; read the lines with ! and use --yes to confirm them", FAILED) from refusal
    if pushed.signing_secret:
        keep_variable(secrets, SECRET, pushed.signing_secret)
        pushed = msgspec.structs.replace(pushed, signing_secret=None)
        click.echo(f"The app has a signing secret now: {SECRET} in {secrets}.", err=True)
    _print(pushed, as_json=as_json)


@click.command("pull")
@file_option
@service_option
@click.option("--force", is_flag=True, help="Replace a file that differs.")
def pull(path: Path, url: str | None, *, force: bool) -> None:
    """Write the app as it is registered to its file.

    \b
    Example:
      stoa app pull --file apps/stock/stoa.app.toml
    """
    text = _sent(path, Service(path.parent, url).get)
    if path.exists() and path.read_text() != text and not force:
        raise Refused(f"{path} differs from the app; `stoa app diff` shows how, --force replaces it", FAILED)
    path.write_text(text)
    click.echo(f"wrote {path}")
    try:
        read_file(text)
    except ValidationFailed as refusal:  # an app from `stoa app create` may have no reasons
        _print_faults(path, refusal.faults)
        click.echo(f"complete {path} before you push it", err=True)


def _checked(path: Path, *, as_json: bool = False) -> str:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {error}; `stoa app init` writes a first file", WRONG_USAGE) from error
    try:
        read_file(text)
    except ValidationFailed as refusal:
        if as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(refusal.faults), indent=2).decode())
        _refuse(path, refusal.faults)
    return text


T = TypeVar("T")


def _sent(path: Path, send: Callable[[], T]) -> T:
    try:
        return send()
    except FileRefused as refusal:
        _refuse(path, refusal.faults)


def _refuse(path: Path, faults: Sequence[Fault]) -> NoReturn:
    _print_faults(path, faults)
    raise Refused(f"{path} has {counted(len(faults), 'fault')}; nothing was changed", FAILED)


def _print_faults(path: Path, faults: Sequence[Fault]) -> None:
    """Print each fault with its line, as compilers do, so that editors can jump there."""
    for fault in faults:
        meta = fault.meta or {}
        line, close = meta.get("line"), meta.get("did_you_mean")
        key = ".".join(part.replace("~1", "/").replace("~0", "~") for part in fault.pointer.split("/")[1:])
        hint = f"; did you mean {close}?" if close else ""
        place = f"{path}:{line}" if line else str(path)
        click.echo(f"{place}: {f'{key}: ' if key else ''}{fault.detail}{hint}", err=True)


def _check_writable(path: Path) -> None:
    """Refuse before the push, so that a new secret is not lost."""
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Refused(f"{path} cannot be written, but a push may create a secret for it", WRONG_USAGE)


def _print(pushed: Pushed, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(pushed), indent=2).decode())
        return
    _print_changes(pushed.changes)
    if not pushed.changes:
        click.echo("The app is as the file says.")
    elif pushed.applied:
        click.echo(f"{counted(len(pushed.changes), 'change')} applied.")


def _print_changes(changes: Sequence[Change]) -> None:
    for change in changes:
        values = [msgspec.json.encode(each).decode() for each in (change.before, change.after) if each is not None]
        click.echo(f"{_SIGNS[change.action]} {change.key}: {' -> '.join(values)}")
        if change.consent:
            click.echo(f"  ! {change.consent}")


for command in (init, validate, diff, push, pull):
    app_group.add_command(command)
COMMANDS: list[click.Command] = [app_group]
