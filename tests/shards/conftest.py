"""One server with logical replication for each test process, and on it a directory with two shards."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.fleet import Fleet, copied_database, replicating_server
from tests.support.sharded import as_superuser

from stoa.settings import Settings


@pytest.fixture(scope="package")
def replicating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server whose databases can be shards."""
    server = replicating_server(tmp_path_factory.mktemp("shards") / "postgres")
    with ThreadPoolExecutor(1) as thread:  # the template is migrated in a loop of its own
        thread.submit(server.start).result()
    yield as_superuser(server.dsn)
    server.stop()


@pytest.fixture(scope="package")
async def fleet(replicating: str, settings: Settings) -> Fleet:
    """A directory with the shards east and west."""
    names = ("directory", "east", "west")
    urls = {name: await copied_database(replicating, f"{name}_{os.getpid()}") for name in names}
    made = Fleet(settings, urls.pop("directory"), urls)
    await made.add_shards()
    return made
