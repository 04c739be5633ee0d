"""The commands that read and verify the audit log."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from stoa.access import audit, audit_heads, stores
from stoa.access.console import Console, Refused, print_one, print_rows, progress
from stoa.access.operator import Operator, find_store
from stoa.access.options import json_option
from stoa.db.query import Executor

_LOGGED = "audit head"  # the event of the service's log lines


class Chain(msgspec.Struct):
    """The result of verifying one chain: how many entries a seal covers, and its end, to be kept elsewhere and compared."""

    chain: str
    entries: int
    sealed: int
    first_bad: int | None
    note: str


class _Note(msgspec.Struct, frozen=True):
    """An end that was noted earlier. Notes of release 0.3.0 lack the store, and belong to the one that has the name now."""

    name: str
    head: audit.Head
    store_id: int | None

    @property
    def shown(self) -> str:
        return f"{self.name}:{self.head.position}"


class _LogLine(msgspec.Struct):
    event: str = ""
    note: str = ""


@click.group("audit")
def audit_log() -> None:
    """Read and verify the audit log, a hash chain in which each entry seals the previous one.

    The service seals the end of each chain with a key derived from STOA_SECRET_KEY, and writes it to its log.

    \b
    Examples:
      stoa audit list --store demo
      stoa audit verify
    """


@audit_log.command("list")
@click.option("--store", "handle", help="Read this store's chain; default: the service's.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Maximum number of entries."
)
@json_option
@click.pass_obj
def list_entries(console: Console, handle: str | None, limit: int, *, as_json: bool) -> None:
    """Show the newest entries, newest first.

    \b
    Example:
      stoa audit list --store demo --limit 10
    """

    async def read(by: Operator) -> list[audit.Entry]:
        return await audit.newest(*await _chain(by, handle or audit.SERVICE_NAME), limit)

    entries = [_shown(entry) for entry in console.run(read)]
    print_rows(entries, as_json=as_json, none="The log has no entries yet.")


def _shown(entry: audit.Entry) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(entry),
        "detail": msgspec.Raw(entry.detail.encode()),
        "seal": entry.seal.hex(),
    }


@audit_log.command("verify")
@click.option("--store", "handle", help="Verify only this store's chain; default: every store's and the service's.")
@click.option("--noted", multiple=True, help="A note from an earlier run or from the log, which must still match.")
@click.option(
    "--log", "log_file", type=click.Path(path_type=Path), help="Compare with each end in this JSON log of the service."
)
@json_option
@click.pass_obj
def verify_chains(
    console: Console, handle: str | None, noted: tuple[str, ...], log_file: Path | None, *, as_json: bool
) -> None:
    """Check that no entry was altered or removed; exits with 1 if one was.

    The sealed end of a chain reveals a rewritten or shortened chain. An older seal may have been put back by somebody who
    had access to the database before. To detect this too, keep the log of the service, or the printed notes, somewhere
    else, and compare with them.

    \b
    Examples:
      stoa audit verify
      stoa audit verify --log stoa.log
      stoa audit verify --noted demo:17:9f86d081884c7d65...:1
    """
    earlier, logged = [_read_note(note) for note in noted], [_read_note(note) for note in _notes_in(log_file)]

    async def walk(by: Operator) -> tuple[list[Chain], list[str]]:
        names = [handle] if handle else [audit.SERVICE_NAME, *(store.handle for store in await stores.list_stores(by))]
        found = {each: await _holds(by, each) for each in (*earlier, *(each for each in logged if each.name in names))}
        if of_erased := [each for each in earlier if found[each] is None]:
            raise Refused(f"the store of the note {of_erased[0].shown} was erased; another one has its name now")
        broken = [each.shown for each, holds in found.items() if holds is False]
        walked: list[Chain] = []
        with progress(quiet=as_json) as shown:
            for name in shown.track(names, description="Verifying"):
                walked.append(await _walk(by, name))
        return walked, broken

    chains, broken = console.run(walk)
    unsealed = [chain.chain for chain in chains if chain.entries and not chain.sealed and chain.first_bad is None]
    if unsealed and not as_json:
        click.echo(
            f"No seal covers {', '.join(unsealed)}: no service of this release has run since. It seals them within a minute.",
            err=True,
        )
    if handle:
        print_one(chains[0], as_json=as_json)
    else:
        print_rows(chains, as_json=as_json, none="")
    bad = [f"{chain.chain}:{chain.first_bad}" for chain in chains if chain.first_bad is not None]
    if bad or broken:
        where = ", ".join(dict.fromkeys([*bad, *broken]))
        raise Refused(f"the audit log was altered at or before {where}; compare it with a backup")


async def _walk(by: Operator, name: str) -> Chain:
    db, store_id = await _chain(by, name)
    found = await audit_heads.verify(db, by.key, store_id)
    note = audit.note_of(name, store_id, await audit.head(db, store_id))
    return Chain(name, found.entries, found.sealed, found.first_bad, note)


def _notes_in(log: Path | None) -> list[str]:
    """The ends of chains in a log, of which other lines may have any form; an end that a later line repeats is read once."""
    if log is None:
        return []
    notes: dict[str, None] = {}
    try:
        with log.open("rb") as lines:
            for line in lines:
                with suppress(msgspec.DecodeError):
                    found = msgspec.json.decode(line, type=_LogLine)
                    if found.event == _LOGGED:
                        notes[found.note] = None
    except OSError as error:
        raise Refused(f"{log} cannot be read: {error.strerror}") from error
    return list(notes)


async def _chain(by: Operator, name: str) -> tuple[Executor, int | None]:
    """The database of a chain, and the store that it belongs to, if any."""
    if name == audit.SERVICE_NAME:
        return by.db, audit.SERVICE
    by = await by.at_store(name)
    return by.db, (await find_store(by.db, name)).id


async def _holds(by: Operator, note: _Note) -> bool | None:
    """Whether a chain still has an end; None if another store has the name of its store now."""
    db, store_id = await _chain(by, note.name)
    return await audit.holds(db, store_id, note.head) if note.store_id in (None, store_id) else None


def _read_note(note: str) -> _Note:
    try:
        name, position, seal, *store_id = note.split(":")
        [number] = map(int, store_id) if store_id else [None]
        return _Note(name, audit.Head(int(position), bytes.fromhex(seal)), number)
    except ValueError:
        raise click.BadParameter(
            "a note has the form CHAIN:POSITION:SEAL:STORE, as printed by verify", param_hint="--noted"
        ) from None


COMMANDS: list[click.Command] = [audit_log]
