"""`stoa media`: compares the stored files with the pictures that products and collections show."""

import click
import msgspec

from stoa.access.console import FAILED, Console, Refused, print_one
from stoa.access.operator import Operator
from stoa.access.options import json_option
from stoa.pictures.removal import compare_files


class CheckedMedia(msgspec.Struct):
    """The result of a check: the number of files, and the names of those that are missing or unreferenced."""

    files: int
    missing: list[str]
    unreferenced: list[str]


@click.group("media")
def media() -> None:
    """Check the stored pictures.

    \b
    Example:
      stoa media check
    """


@media.command("check")
@json_option
@click.pass_obj
def check_command(console: Console, as_json: bool) -> None:
    """Compare the stored files with the pictures that products and collections show.

    A missing file is an error. An unreferenced file is removed after STOA_MEDIA_KEEP_DAYS; one that was stored after a backup
    that you restored stays.

    \b
    Example:
      stoa media check
    """

    async def run(by: Operator) -> CheckedMedia:
        found = CheckedMedia(0, [], [])
        async for store in compare_files(by):
            found.files += store.files
            found.missing += store.missing
            found.unreferenced += store.unreferenced
        return found

    checked = console.run(run)
    if as_json:
        print_one(checked, as_json=True)
    else:
        click.echo(f"{checked.files} pictures are stored.")
        click.echo(f"{len(checked.unreferenced)} are unreferenced.")
        for name in checked.missing:
            click.echo(f"missing: {name}")
    if checked.missing:
        raise Refused(f"{len(checked.missing)} pictures are missing. Restore their files from a backup.", FAILED)


COMMANDS: list[click.Command] = [media]
