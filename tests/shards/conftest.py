"""One server with logical replication for each test process, and on it a directory with two shards."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.fleet import Fleet, copied_database, replicating_server, unused
from tests.support.sharded import Sharded, as_superuser, sharded
from tests.support.shops import Shop

from stoa.settings import Settings


@pytest.fixture(scope="package")
def replicating() -> Iterator[str]:
    """The URL of a server whose databases can be shards. Servers of other versions can enter its folder."""
    with tempfile.TemporaryDirectory(prefix="stoa-shards-") as folder:
        Path(folder).chmod(0o755)
        server = replicating_server(Path(folder) / "postgres")
        with ThreadPoolExecutor(1) as thread:  # the template is migrated in a loop of its own
            thread.submit(server.start).result()
        yield as_superuser(server.dsn)
        server.stop()


@pytest.fixture(scope="package")
async def fleet(replicating: str, settings: Settings) -> Fleet:
    """A directory with the shards east and west."""
    names = ("directory", "east", "west")
    urls = {name: await copied_database(replicating, unused(name)) for name in names}
    made = Fleet(settings, urls.pop("directory"), urls)
    await made.add_shards()
    return made


@pytest.fixture(scope="module")
async def service(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sharded]:
    """An application with a directory and one shard, on a server of its own."""
    async with sharded(tmp_path_factory.mktemp("sharded") / "postgres", settings) as found:
        found.shard.fence()
        yield found


@pytest.fixture
async def shop(service: Sharded) -> AsyncIterator[Shop]:
    """A new store in the shard of `service`."""
    opened = await service.open_shop()
    yield opened
    await opened.client.aclose()
