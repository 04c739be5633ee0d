"""`stoa shard`: what its commands print for people and for programs, their refusals, and the lines of `stoa doctor`."""

import asyncio
import json
import os
import shlex
from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tests.docs.pages import OPERATIONS, blocks
from tests.support.databases import sibling
from tests.support.fleet import Fleet, copied_database
from tests.support.shops import Shop

from stoa.access.console import open_console
from stoa.cluster.distribution import DistributionRefused, distribute
from stoa.db.connection import connect
from stoa.operations.finding import Finding
from stoa.operations.shard_checks import check_shards
from stoa.shards import moving
from stoa.shards.commands import COMMANDS

pytestmark = pytest.mark.timeout(300)
Stoa = Callable[..., Result]


@pytest.fixture(autouse=True)
def without_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are deleted at once after a switch: nobody reads these stores."""
    monkeypatch.setattr(moving, "GRACE_S", 0.0)


@pytest.fixture
def stoa(fleet: Fleet) -> Stoa:
    group, console = click.Group(commands=COMMANDS), open_console(fleet.settings)

    def run(*words: str) -> Result:
        return CliRunner().invoke(group, ["shard", *words], obj=console)

    return run


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def shop_of(fleet: Fleet) -> Shop:
    return asyncio.run(fleet.open_shop(filled=False))


def holders(fleet: Fleet, shop: Shop) -> list[str]:
    return asyncio.run(fleet.holders(shop))


def test_a_store_moves_there_and_back(fleet: Fleet, stoa: Stoa) -> None:
    shop = shop_of(fleet)
    handle = shop.store.handle
    plan = parsed(stoa("move", handle, "--to", "east", "--plan", "--json"))
    assert [step["action"] for step in plan][-1] == "delete its rows in directory"
    assert holders(fleet, shop) == [""]
    moved = stoa("move", handle, "--to", "east")
    assert f"store {handle}: switched" in moved.output, moved.output
    assert holders(fleet, shop) == ["east"]
    [again] = parsed(stoa("move", handle, "--to", "directory", "--json"))
    assert (again["store"], again["source"], again["target"], again["state"]) == (handle, "east", "directory", "done")
    assert again["pause_ms"] > 0
    assert stoa("move", handle, "--to", "directory").output == f"Nothing to do: {handle} is in directory.\n"
    assert stoa("move", handle, "--to", "east", "--undo").output == f"{handle} does not move.\n"


def test_the_shards_are_listed_with_their_stores(fleet: Fleet, stoa: Stoa) -> None:
    found = parsed(stoa("list", "--json"))
    assert [shard["name"] for shard in found["shards"]][:3] == ["directory", "east", "west"]
    assert {shard["problem"] for shard in found["shards"]} == {""}
    assert "stoa:secret" not in stoa("list").output
    assert "east" in stoa("list").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("move", "nobody", "--to", "east"), 'there is no store "nobody"'),
        (("remove", "south"), 'there is no shard "south"; choose one of directory, east, west'),
        (("remove", "directory"), "the directory cannot be removed"),
        (("drain", "directory"), "the directory is not drained"),
        (("drain", "south"), 'there is no shard "south"'),
    ],
)
def test_a_command_refuses_what_is_not_known(stoa: Stoa, words: tuple[str, ...], message: str) -> None:
    refused = stoa(*words)
    assert refused.exit_code == 1
    assert message in refused.output


def test_a_shard_is_drained_and_takes_no_more_stores(replicating: str, fleet: Fleet, stoa: Stoa) -> None:
    name = f"south_{os.getpid()}"
    url = asyncio.run(copied_database(replicating, name))
    done = stoa("add", url, "--name", "south")
    assert "shard south: copy the global tables" in done.output, done.output
    shop = shop_of(fleet)
    assert stoa("move", shop.store.handle, "--to", "south").exit_code == 0
    planned = parsed(stoa("drain", "south", "--plan", "--json"))
    assert [(move["store"], move["source"]) for move in planned] == [(shop.store.handle, "south")]
    [drained] = parsed(stoa("drain", "south", "--json"))
    assert (drained["store"], drained["source"], drained["state"]) == (shop.store.handle, "south", "done")
    assert "south is being drained; choose another shard" in stoa("move", shop.store.handle, "--to", "south").output
    assert stoa("drain", "south").output == "south has no stores.\n"
    assert parsed(stoa("drain", "south", "--undo", "--json")) == [
        {"subject": "shard south", "action": "take stores again"}
    ]
    assert "south is not being drained" in stoa("drain", "south", "--undo").output
    assert parsed(stoa("move", shop.store.handle, "--to", "south", "--plan", "--json"))
    assert parsed(stoa("remove", "south", "--plan", "--json"))
    assert stoa("remove", "south").exit_code == 0
    asyncio.run(_drop(replicating, name))


async def _drop(server: str, name: str) -> None:
    db = await connect(sibling(server, "postgres"), statement_timeout_ms=0)
    await db.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await db.close()


def test_a_database_with_shards_is_not_distributed(fleet: Fleet) -> None:
    for url in (fleet.directory.url, fleet.shards["east"].url):
        with pytest.raises(DistributionRefused, match="either distributed by Citus or in a shard"):
            asyncio.run(distribute(url))


def test_a_balance_is_planned_first(fleet: Fleet, stoa: Stoa) -> None:
    planned = parsed(stoa("balance", "--plan", "--json"))
    assert all(move["source"] != move["target"] for move in planned)


async def test_the_doctor_examines_every_shard(fleet: Fleet) -> None:
    async with fleet.operator() as by:
        found = {each.check: each for each in await check_shards(by.db, fleet.settings)}
        assert {found[f"shard {name}"].status for name in ("east", "west")} == {"ok"}
        assert "no delivery worker" in found["queues of shard east"].detail
        async with fleet.connection("east") as db:
            await db.execute("ALTER SUBSCRIPTION stoa_global DISABLE")
            try:
                while (await east(by.db, fleet)).status == "ok":
                    await asyncio.sleep(0.05)
                assert "does not fetch the changes" in (await east(by.db, fleet)).detail
            finally:
                await db.execute("ALTER SUBSCRIPTION stoa_global ENABLE")
        while (await east(by.db, fleet)).status != "ok":
            await asyncio.sleep(0.05)


async def east(db: Any, fleet: Fleet) -> Finding:
    return next(each for each in await check_shards(db, fleet.settings) if each.check == "shard east")


def test_the_commands_of_the_page_run_as_written(replicating: str, fleet: Fleet, stoa: Stoa) -> None:
    name = f"page_{os.getpid()}"
    shop, url = shop_of(fleet), asyncio.run(copied_database(replicating, name))
    words = {"postgresql://stoa:secret@db2.example.com/stoa": url, "east": "page", "acme": shop.store.handle}
    lines = [line for block in blocks(OPERATIONS / "shards.md", "bash") for line in block.text.splitlines()]
    # Stores are created and backups restored in tests/shards/test_operations.py.
    lines = [line for line in lines if line.startswith("stoa shard ") and " restore " not in line]
    assert len(lines) == 11
    for line in lines:
        program, group, *given = shlex.split(line)
        assert (program, group) == ("stoa", "shard")
        if given == ["balance"]:
            continue  # it would move the stores of the other tests
        done = stoa(*(words.get(word, word) for word in given))
        assert done.exit_code == 0, f"{line}: {done.output}"
    assert holders(fleet, shop) != ["page"]
    asyncio.run(_drop(replicating, name))
