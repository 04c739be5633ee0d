"""A real standby serves reads: every caller sees its own writes, no read is older than one before, and no request fails."""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoa.db.pool import Database
from stoa.db.replica import Fence, Replica, problem_of
from stoa.settings import WrongSetting, load
from tests.support.metrics import metric, scrape
from tests.support.service import Account, Service, free_port
from tests.support.standby import Pair, needs_standby

READERS = 4
PAUSES = 3  # of the replay, each while apps read and write
BESIDE_PREFETCHING = 1_000  # a bucket of this size has too few tokens to take some in advance


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with tempfile.TemporaryDirectory(prefix="stoa-replica-") as made:
        Path(made).chmod(0o755)
        with Pair(Path(made) / "servers", synchronous=False) as running:
            yield running


@pytest.fixture(scope="module")
def service(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two workers, which share nothing but the database."""
    with Service(
        tmp_path_factory.mktemp("replica"),
        database_url=pair.primary_url,
        database_read_url=pair.standby_url,
        background=False,
        metrics=f"127.0.0.1:{free_port()}",
    ) as running:
        yield running


class Title:
    """A product whose name is a number that only grows, and the last number that was acknowledged."""

    def __init__(self, account: Account, product_id: int) -> None:
        self._account = account
        self._path = f"/products/{product_id}"
        self.acknowledged = 0
        self.over = False

    async def write(self) -> None:
        async with self._account.client() as client:
            number = self.acknowledged + 1
            answer = await client.patch(self._path, json={"name": f"Edition {number}"})
            assert answer.status_code == 200, answer.text
            self.acknowledged = number

    async def read(self) -> int:
        """Read it on a new connection, which any worker may accept."""
        async with self._account.client() as client:
            answer = await client.get(self._path)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["data"]["name"].split()[1])

    async def write_on(self) -> None:
        while not self.over:
            await self.write()

    async def read_on(self) -> None:
        """Each read shows what was acknowledged before it, and nothing older than the read before."""
        seen = 0
        while not self.over:
            least = max(seen, self.acknowledged)
            seen = await self.read()
            assert seen >= least


async def title_of(account: Account) -> Title:
    async with account.client() as client:
        made = await client.post("/products", json={"name": "Edition 0", "price": "9.90"})
    return Title(account, made.json()["data"]["id"])


async def reads(service: Service, server: str) -> float:
    return metric(await scrape(service), "stoa_reads_total", server=server)


async def served_by_replica(service: Service, title: Title) -> None:
    """Read until the replica has served a read of this service that began now."""
    before = await reads(service, "replica")
    async with asyncio.timeout(60):
        while await reads(service, "replica") <= before:
            await title.read()
            await asyncio.sleep(0.05)


@needs_standby
@pytest.mark.parametrize("burst", [pytest.param(BESIDE_PREFETCHING, marks=pytest.mark.long), 100_000])
async def test_every_worker_shows_what_any_worker_has_written(service: Service, burst: int) -> None:
    title = await title_of(await service.account(f"written-{burst}", burst=burst, refill=burst))
    await served_by_replica(service, title)
    before = await reads(service, "replica")
    for _ in range(20):
        await title.write()
        assert await title.read() == title.acknowledged
    async with asyncio.timeout(60):  # the counts are published twice a second
        while await reads(service, "replica") <= before:
            await asyncio.sleep(0.05)


@needs_standby
async def test_no_read_is_older_than_a_write_or_a_read_before_it_while_the_replica_lags(
    service: Service, pair: Pair
) -> None:
    title = await title_of(await service.account("lagging", burst=BESIDE_PREFETCHING, refill=BESIDE_PREFETCHING))
    await served_by_replica(service, title)
    before = {server: await reads(service, server) for server in ("replica", "primary")}
    tasks = [asyncio.create_task(title.write_on()), *(asyncio.create_task(title.read_on()) for _ in range(READERS))]
    for _ in range(PAUSES):
        for command in ("pg_wal_replay_pause", "pg_wal_replay_resume"):
            await asyncio.to_thread(pair.ask_standby, f"SELECT {command}()")
            await asyncio.sleep(0.25)
    title.over = True
    await asyncio.gather(*tasks)
    assert title.acknowledged > PAUSES
    await served_by_replica(service, title)
    assert await title.read() == title.acknowledged
    after = {server: await reads(service, server) for server in ("replica", "primary")}
    assert all(after[server] > before[server] for server in after), (before, after)
    assert metric(await scrape(service), "stoa_replica_fallbacks_total", reason="behind") > 0


@needs_standby
async def test_a_lost_replica_fails_no_request_and_serves_again_when_it_is_back(service: Service, pair: Pair) -> None:
    title = await title_of(await service.account("lost"))
    await served_by_replica(service, title)
    tasks = [asyncio.create_task(title.write_on()), *(asyncio.create_task(title.read_on()) for _ in range(READERS))]
    await asyncio.sleep(0.2)
    await asyncio.to_thread(pair.lose_standby)
    await asyncio.sleep(0.5)
    assert service.status("/ready") == 200
    title.over = True
    await asyncio.gather(*tasks)
    done = await asyncio.to_thread(service.run, "doctor", "--json")
    [finding] = [each for each in json.loads(done.stdout) if each["check"] == "replica"]
    assert (finding["status"], "reads use the primary" in finding["detail"]) == ("warning", True)
    await asyncio.to_thread(pair.start_standby)
    await served_by_replica(service, title)
    assert await title.read() == title.acknowledged


@needs_standby
async def test_only_a_standby_of_this_database_serves_reads(pair: Pair, database_url: str) -> None:
    primary, other = Database(pair.primary_url, size=1), Database(database_url, size=1)
    replica = Replica(pair.standby_url, primary, size=1)
    try:
        assert await problem_of(pair.standby_url, primary) is None
        assert await problem_of(pair.primary_url, primary) == "it is not a standby"
        assert "synchronous_commit" in (await problem_of(pair.standby_url, other) or "")
        await other.execute("SELECT set_config('synchronous_commit', 'on', false)")
        assert await problem_of(pair.standby_url, other) == "it is not a copy of the primary"
        fence = await replica.fence()
        assert await replica.fetch(fence, "SELECT 1")
        # After a promotion, the log continues on another timeline, of which this standby knows nothing.
        promoted = Fence("000000FF", fence.position)
        assert await replica.fetch(promoted, "SELECT 1") is None
        assert replica.fallbacks == {"away": 1}
    finally:
        for each in (replica, primary, other):
            await each.close()


def test_a_replica_needs_a_primary_and_is_one_server() -> None:
    primary = {"STOA_DATABASE_URL": "postgresql://db1/stoa"}
    with pytest.raises(WrongSetting, match="embedded server has no standby"):
        load({"STOA_DATABASE_READ_URL": "postgresql://db2/stoa"})
    with pytest.raises(WrongSetting, match="must name one server"):
        load({**primary, "STOA_DATABASE_READ_URL": "postgresql://stoa@db2,db3/stoa"})
    assert load({**primary, "STOA_DATABASE_READ_URL": "postgresql://a:b,c@db2/stoa?x=1,2"}).database_read_url
