"""A store moves between servers of different versions, and a failover during a move loses nothing."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fleet import Fleet, copied_database
from tests.support.standby import Pair, needs_standby

from stoa.cluster.distribution import Step
from stoa.db.migrate import migrate
from stoa.settings import Settings
from stoa.shards import membership, moving
from stoa.shards.global_tables import PUBLICATION
from stoa.shards.registry import ShardRefused
from stoa.shards.subscriptions import unsubscribe

pytestmark = [pytest.mark.timeout(300), needs_standby]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the user of the servers can enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="stoa-shards-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.long
async def test_a_store_moves_from_15_to_18(folder: Path, replicating: str, settings: Settings) -> None:
    newer = await copied_database(replicating, "newer")
    with Pair(folder / "older", synchronous=False, settings=["wal_level=logical"]) as older:
        await migrate(older.primary_url)
        fleet = Fleet(settings, older.primary_url, {"newer": newer})
        await fleet.add_shards()
        shop = await fleet.open_shop()
        before = await fleet.contents("", shop)
        await fleet.move(shop, "newer")
        assert (await fleet.holders(shop), await fleet.contents("newer", shop)) == (["newer"], before)
        async with fleet.connection("newer") as db:  # the directory ends before it
            await unsubscribe(db, PUBLICATION)


@pytest.mark.long
async def test_a_move_from_a_server_that_failed_over_begins_again(
    folder: Path, replicating: str, settings: Settings
) -> None:
    newer = await copied_database(replicating, "failed_over")
    with Pair(folder / "older", settings=["wal_level=logical"]) as older:
        await migrate(older.primary_url)
        fleet = Fleet(settings, older.url, {"newer": newer})
        await fleet.add_shards()
        shop = await fleet.open_shop()
        before = await fleet.contents("", shop)

        async def lose_primary(step: Step) -> None:
            if step.action == "copied":
                older.lose_primary()
                older.promote()

        with pytest.raises(Exception, match=r"clos|lost|reset|terminat|shut"):
            await moving.move(fleet.ask(shop, "newer"), lose_primary)
        assert (await fleet.holders(shop), await fleet.contents("", shop)) == ([""], before)
        # The standby of this version has no replication slots, so the copy cannot go on.
        with pytest.raises(ShardRefused, match="slot of this move is lost; undo the move"):
            await moving.move(fleet.ask(shop, "newer"))
        await moving.undo(fleet.ask(shop, "newer"))
        async with fleet.operator() as by:
            with pytest.raises(ShardRefused, match="the replication slot of newer is lost"):
                await membership.add(by, newer, "newer")
            await membership.remove(by, "newer")
        assert (await fleet.holders(shop), await fleet.contents("", shop)) == ([""], before)
