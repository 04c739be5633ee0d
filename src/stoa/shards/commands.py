"""The commands that add shards, move stores between them, and show what they hold."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from stoa.access.console import WRONG_USAGE, Console, Refused, print_one, print_rows, progress
from stoa.access.contract import AccessRefused
from stoa.access.operator import Operator
from stoa.access.options import json_option
from stoa.backup.archive import BackupRefused
from stoa.backup.erasure_commands import read_list
from stoa.backup.restoring import ErasuresUnknown
from stoa.cluster.distribution import Step
from stoa.shards import membership, moving, registry
from stoa.shards.balance import STORES, Placed, PlannedMove, StoreLoad, loads_of, plan_balance, plan_drain, weigh
from stoa.shards.global_tables import Progress
from stoa.shards.membership import ShardStatus, directory_of
from stoa.shards.moves import OPEN_MOVE, RECENT, MoveStatus, find_store
from stoa.shards.moving import Ask
from stoa.shards.registry import DIRECTORY, ShardRefused, session, shards_of
from stoa.shards.restoring import restore_shard
from stoa.shards.subscriptions import Copied

T = TypeVar("T")
plan_option = click.option("--plan", "only_plan", is_flag=True, help="Show what would be done, and change nothing.")


class Overview(msgspec.Struct):
    """The shards, and the moves of the last day."""

    shards: list[ShardStatus]
    moves: list[MoveStatus]


@click.group()
def shard() -> None:
    """Spread the stores over several database servers, and move them while they are served.

    \b
    Examples:
      stoa shard add postgresql://stoa:secret@db2.example.com/stoa --name east
      stoa shard move acme --to east
      stoa shard list
    """


@shard.command("add")
@click.argument("url")
@click.option("--name", required=True, help="The name of the shard: lowercase letters, digits and hyphens.")
@plan_option
@json_option
@click.pass_obj
def add_shard(console: Console, url: str, *, name: str, only_plan: bool, as_json: bool) -> None:
    """Make an empty PostgreSQL database a shard, and copy the global tables to it.

    Its server and that of the directory need wal_level = logical, and each connects to the other by the URL that Stoa uses.
    The URL is stored encrypted. After a failure, run it again.

    \b
    Examples:
      stoa shard add postgresql://stoa:secret@db2.example.com/stoa --name east --plan
      stoa shard add postgresql://stoa:secret@db2.example.com/stoa --name east
    """
    if only_plan:
        print_rows(console.run(lambda by: membership.plan_to_add(by, url, name)), as_json=as_json, none="")
        return
    with _copying(as_json=as_json) as shown:
        done = console.run(lambda by: membership.add(by, url, name, _printer(as_json=as_json), shown))
    if as_json:
        print_rows(done, as_json=True, none="")


@shard.command("list")
@json_option
@click.pass_obj
def list_shards(console: Console, *, as_json: bool) -> None:
    """Show the shards with their stores, sizes and delays, and the moves of the last day.

    \b
    Examples:
      stoa shard list
      stoa shard list --json
    """

    async def read(by: Operator) -> Overview:
        return Overview(await membership.statuses(by), await RECENT.all(by.db))

    found = console.run(read)
    if as_json:
        print_one(found, as_json=True)
        return
    print_rows(found.shards, as_json=False, none="")
    print_rows(found.moves, as_json=False, none="No store moved in the last day.")


@shard.command("remove")
@click.argument("name")
@click.option("--lost", is_flag=True, help="Its server does not come back: forget it without a connection.")
@plan_option
@json_option
@click.pass_obj
def remove_shard(console: Console, name: str, *, lost: bool, only_plan: bool, as_json: bool) -> None:
    """Remove a shard without stores. Its database stays, and can be dropped afterwards.

    With --lost, moves from and to it end: each store stays in the other shard.

    \b
    Example:
      stoa shard remove east
    """
    steps = [Step(f"shard {name}", "end its replication, and forget it")]

    async def work(by: Operator) -> None:
        if only_plan:
            await membership.check_removal(by, name, by.db, lost=lost)
        else:
            await membership.remove(by, name, lost=lost)

    console.run(work)
    print_rows(steps, as_json=as_json, none="")


@shard.command("move")
@click.argument("store")
@click.option(
    "--to", "target", required=True, help="The shard that the store moves to; `directory` is the first database."
)
@click.option("--undo", is_flag=True, help="Give up a move that has not switched yet: the store stays where it is.")
@plan_option
@json_option
@click.pass_obj
def move_store(console: Console, store: str, *, target: str, undo: bool, only_plan: bool, as_json: bool) -> None:
    """Move a store to another shard while it is served; its writes wait for a moment at the end.

    If it is interrupted, run it again: it continues. Until the switch, --undo gives it up, also if the target does not answer.

    \b
    Examples:
      stoa shard move acme --to east --plan
      stoa shard move acme --to east
      stoa shard move acme --to east --undo
    """
    ask = console.run(lambda by: _ask(by, store, target))
    if only_plan:
        steps = _run(moving.plan(ask))
        print_rows(steps, as_json=as_json, none=f"Nothing to do: {store} is in {ask.target.shown}.")
        return
    report = _reporter(as_json=as_json)
    if undo:
        done = _run(moving.undo(ask, report))
    else:
        with _copying(as_json=as_json) as shown:
            done = _run(moving.move(ask, report, shown))
    nothing = f"{store} does not move." if undo else f"Nothing to do: {store} is in {ask.target.shown}."
    _print_moves(console, [store] if done else [], as_json=as_json, none=nothing)


@shard.command("drain")
@click.argument("name")
@click.option("--undo", is_flag=True, help="Let the shard take stores again. Those that have left stay where they are.")
@plan_option
@json_option
@click.pass_obj
def drain_shard(console: Console, name: str, *, undo: bool, only_plan: bool, as_json: bool) -> None:
    """Move all stores of a shard to the others, and no store to it any more. Run it again after an interruption.

    \b
    Examples:
      stoa shard drain east --plan
      stoa shard drain east
      stoa shard drain east --undo
    """

    async def plan(by: Operator) -> list[PlannedMove]:
        shards = await shards_of(by.db, by.key)
        drained = registry.find(name, shards, "")
        if not drained.name:
            raise ShardRefused("the directory is not drained; balance its stores over the shards instead")
        others = ["", *(each.name for each in shards if each.name != name and each.state == "active")]
        # From here on it gets no store, so the plan has all of them.
        if not only_plan and drained.state == "active":
            async with by.db.transaction() as db:
                await registry.set_state(db, name, "draining")
                await by.record(db, None, "shard.drained", f"shard:{name}")
        return plan_drain(await _placed(by), name, others)

    if undo:
        console.run(lambda by: membership.take_stores_again(by, name, only_plan=only_plan))
        print_rows([Step(f"shard {name}", "take stores again")], as_json=as_json, none="")
        return
    _move_all(console, console.run(plan), only_plan=only_plan, as_json=as_json, none=f"{name} has no stores.")


@shard.command("balance")
@plan_option
@json_option
@click.pass_obj
def balance_shards(console: Console, *, only_plan: bool, as_json: bool) -> None:
    """Move stores from the fullest shards to the emptiest, by their size and by their requests of the last day.

    \b
    Examples:
      stoa shard balance --plan
      stoa shard balance
    """

    async def plan(by: Operator) -> list[PlannedMove]:
        active = [each.name for each in await shards_of(by.db, by.key) if each.state == "active"]
        return plan_balance(await _placed(by), ["", *active])

    _move_all(console, console.run(plan), only_plan=only_plan, as_json=as_json, none="The shards are balanced.")


async def _placed(by: Operator) -> list[Placed]:
    loads: dict[str, dict[int, StoreLoad]] = {}
    for each in [directory_of(by), *await shards_of(by.db, by.key)]:
        async with session(each.url) as db:
            loads[each.name] = await loads_of(db)
    return weigh(await STORES.all(by.db), loads)


async def _ask(by: Operator, store: str, target: str, *, resume: bool = False) -> Ask:
    """What a move needs to know. With `resume`, a move that was interrupted goes on to the shard that it began with."""
    directory, shards = directory_of(by), await shards_of(by.db, by.key)
    found = await find_store(by.db, store)
    begun = await OPEN_MOVE.maybe(by.db, found.id)
    source = registry.find(begun.source if begun else found.shard, shards, directory.url)
    target = begun.target if begun and resume else target
    return Ask(
        store,
        source,
        registry.find(target, shards, directory.url),
        directory,
        actor=by.actor,
        request_id=by.request_id,
        grace_s=moving.GRACE_S,
    )


def _move_all(console: Console, moves: Sequence[PlannedMove], *, only_plan: bool, as_json: bool, none: str) -> None:
    if only_plan:
        shown = [PlannedMove(each.store, each.source or DIRECTORY, each.target or DIRECTORY) for each in moves]
        print_rows(shown, as_json=as_json, none=none)
        return
    report = _reporter(as_json=as_json)
    for each in moves:
        ask = console.run(lambda by, each=each: _ask(by, each.store, each.target, resume=True))
        with _copying(as_json=as_json) as shown:
            _run(moving.move(ask, report, shown))
    _print_moves(console, [each.store for each in moves], as_json=as_json, none=none)


def _print_moves(console: Console, stores: Sequence[str], *, as_json: bool, none: str) -> None:
    """Show the last move of each store."""
    last = {each.store: each for each in reversed(console.run(lambda by: RECENT.all(by.db)))} if stores else {}
    print_rows([last[store] for store in stores if store in last], as_json=as_json, none=none)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a move without the connections of the console: a move waits for sessions that do not fence their writes."""
    try:
        return asyncio.run(work)
    except AccessRefused as refusal:
        raise Refused(str(refusal)) from refusal


def _printer(*, as_json: bool) -> Callable[[Step], None]:
    def report(step: Step) -> None:
        if not as_json:
            click.echo(f"{step.subject}: {step.action}")

    return report


def _reporter(*, as_json: bool) -> moving.Report:
    report = _printer(as_json=as_json)

    async def later(step: Step) -> None:
        report(step)

    return later


@contextmanager
def _copying(*, as_json: bool) -> Generator[Progress]:
    """A bar on stderr that shows how many tables are copied."""
    with progress(quiet=as_json) as bars:
        bar = bars.add_task("Copying tables", total=None)

        async def show(done: Copied) -> None:
            bars.update(bar, completed=done.copied, total=done.tables)

        yield show


@shard.command("restore")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--replace", is_flag=True, required=True, help="Confirm that the backup replaces the stores of the shard."
)
@click.option(
    "--erasures",
    type=click.Path(path_type=Path),
    help="Erase the customers in this list of `stoa erasures export` again.",
)
@click.option("--no-erasures", is_flag=True, help="Confirm that nobody was erased since the backup.")
@json_option
@click.pass_obj
def restore_one_shard(
    console: Console,
    name: str,
    file: Path,
    erasures: Path | None,
    *,
    replace: bool,
    no_erasures: bool,
    as_json: bool,
) -> None:
    """Replace the stores of a shard by those in FILE, a backup of this shard; stop the service first.

    Apps, tokens and where each store is stay as the directory has them. Erasures that the shard knows are repeated; if its
    database is lost, pass the list of `stoa erasures export`, or --no-erasures.

    \b
    Examples:
      stoa shard restore east stoa-2026-11-15/east.backup --replace
      stoa shard restore east stoa-2026-11-15/east.backup --replace --erasures erasures.json
    """
    with _copying(as_json=as_json) as shown:
        try:
            given = [read_list(erasures)] if erasures else []
            done = console.run(lambda by: restore_shard(by, name, file, given, shown, sure=no_erasures))
        except ErasuresUnknown as refusal:
            raise Refused(str(refusal), WRONG_USAGE) from refusal
        except BackupRefused as refusal:
            raise Refused(str(refusal)) from refusal
    print_one(done, as_json=as_json)


COMMANDS: list[click.Command] = [shard]
