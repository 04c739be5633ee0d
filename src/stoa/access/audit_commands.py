"""The commands that read and verify the audit log."""

from typing import Any

import click
import msgspec

from stoa.access import audit, stores
from stoa.access.console import Console, Refused, print_one, print_rows, progress
from stoa.access.operator import Operator, find_store
from stoa.access.options import json_option

_SERVICE = "-"  # the name of the service's own chain; no store handle starts with a hyphen


class Chain(msgspec.Struct):
    """The result of verifying one chain; `note` is its end, to be kept elsewhere and compared later."""

    chain: str
    entries: int
    first_bad: int | None
    note: str


@click.group("audit")
def audit_log() -> None:
    """Read and verify the audit log, a hash chain in which each entry seals the previous one.

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
        return await audit.newest(by.db, await _chain_id(by, handle or _SERVICE), limit)

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
@click.option("--noted", multiple=True, help="A note from an earlier run, which must still match.")
@json_option
@click.pass_obj
def verify_chains(console: Console, handle: str | None, noted: tuple[str, ...], *, as_json: bool) -> None:
    """Check that no entry was altered or removed; exits with 1 if one was.

    The chain reveals changes inside it. To detect that its end was cut off, or that the whole chain was rewritten,
    keep the printed notes somewhere else and pass them with --noted.

    \b
    Examples:
      stoa audit verify
      stoa audit verify --noted demo:17:9f86d081884c7d65...
    """
    earlier = [_read_note(note) for note in noted]

    async def walk(by: Operator) -> tuple[list[Chain], list[str]]:
        names = [handle] if handle else [_SERVICE, *(store.handle for store in await stores.list_stores(by))]
        broken = [
            f"{name}:{head.position}"
            for name, head in earlier
            if not await audit.holds(by.db, await _chain_id(by, name), head)
        ]
        walked: list[Chain] = []
        with progress(quiet=as_json) as shown:
            for name in shown.track(names, description="Verifying"):
                walked.append(await _walk(by, name))
        return walked, broken

    chains, broken = console.run(walk)
    if handle:
        print_one(chains[0], as_json=as_json)
    else:
        print_rows(chains, as_json=as_json, none="")
    bad = [f"{chain.chain}:{chain.first_bad}" for chain in chains if chain.first_bad is not None]
    if bad or broken:
        where = ", ".join([*bad, *broken])
        raise Refused(f"the audit log was altered at {where}; compare it with a backup")


async def _walk(by: Operator, name: str) -> Chain:
    store_id = await _chain_id(by, name)
    first_bad = await audit.verify(by.db, store_id)
    head = await audit.head(by.db, store_id)
    return Chain(name, head.position, first_bad, f"{name}:{head.position}:{head.seal.hex()}")


async def _chain_id(by: Operator, name: str) -> int | None:
    return audit.SERVICE if name == _SERVICE else (await find_store(by.db, name)).id


def _read_note(note: str) -> tuple[str, audit.Head]:
    try:
        name, position, seal = note.split(":")
        return name, audit.Head(int(position), bytes.fromhex(seal))
    except ValueError:
        raise click.BadParameter(
            "a note has the form CHAIN:POSITION:SEAL, as printed by verify", param_hint="--noted"
        ) from None


COMMANDS: list[click.Command] = [audit_log]
