"""The commands that keep the list of erased customers, and that erase them again after a restore."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from stoa.access.console import Console, Refused, print_one
from stoa.access.operator import Operator
from stoa.access.options import json_option
from stoa.access.output_files import new_file
from stoa.backup.archive import BackupRefused
from stoa.backup.erasures import BEGINNING, ErasureList, Replayed, collect, from_bytes, repeat, replay, to_bytes


class Exported(msgspec.Struct):
    """A summary of the list."""

    file: str
    stores: int
    customers: int


def read_list(file: Path) -> ErasureList:
    """The list in a file."""
    try:
        return from_bytes(file.read_bytes(), str(file))
    except OSError as error:
        raise BackupRefused(f"{file} cannot be read: {error.strerror}") from error


@click.group()
def erasures() -> None:
    """Keep the list of erased customers, so that a restored backup does not bring them back.

    \b
    Example:
      stoa erasures export erasures.json --overwrite
    """


@erasures.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--since", type=click.DateTime(), help="Only erasures since this moment (UTC); by default all.")
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@json_option
@click.pass_obj
def export(console: Console, file: Path, since: datetime | None, *, overwrite: bool, as_json: bool) -> None:
    """Write the list of erased customers to FILE; `-` writes to standard output.

    The list contains stores, customer ids and times, no personal data. Export it on a schedule, more often than you take
    backups, and keep it apart from the database.

    \b
    Examples:
      stoa erasures export erasures.json --overwrite
      stoa erasures export - --since 2026-11-01 | ssh vault.example.com 'cat > erasures.json'
    """
    if str(file) != "-" and file.exists() and not (overwrite and file.is_file()):
        raise Refused(f"{file} already exists; choose another name or pass --overwrite")

    async def collected(operator: Operator) -> ErasureList:
        found = await collect(operator.everywhere, since.replace(tzinfo=UTC) if since else BEGINNING)
        if operator.away:  # the list replaces the former one
            raise Refused(
                f"{', '.join(operator.away)} did not answer, so the list would lack erasures; try again later"
            )
        return found

    found = console.run(collected)
    if str(file) == "-":
        sys.stdout.buffer.write(to_bytes(found))
        return
    with new_file(file) as handle:
        handle.write(to_bytes(found))
    print_one(Exported(str(file), len(found.stores), found.count), as_json=as_json)


@erasures.command("replay")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@json_option
@click.pass_obj
def replay_list(console: Console, file: Path | None, *, as_json: bool) -> None:
    """Erase the customers in FILE again, after a backup from before their erasure was restored.

    Customers that are erased already, or that the database does not contain, are left alone, so you can repeat it.
    `stoa restore --erasures FILE` does the same before the service starts. Without FILE, it repeats the erasures that a
    `stoa restore` left because it was interrupted; until then, no service starts.

    \b
    Examples:
      stoa erasures replay erasures.json
      stoa erasures replay
    """
    try:
        given = read_list(file) if file else None
    except BackupRefused as refusal:
        raise Refused(str(refusal)) from refusal

    async def replayed(operator: Operator) -> Replayed:
        if given is None:
            return await repeat(operator.db, operator.request_id)
        return await replay(operator.db, [given], operator.request_id, operator.database_of)

    print_one(console.run(replayed), as_json=as_json)


COMMANDS: list[click.Command] = [erasures]
