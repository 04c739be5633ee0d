"""Migrations run concurrently, refuse edited files, and work on the oldest supported PostgreSQL."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT

import pytest

from stoa.db.connection import connect
from stoa.db.errors import Unavailable
from stoa.db.migrate import LATEST, migrate
from stoa.db.placement import CITUS_CATALOG
from stoa.db.pool import Database
from tests.contract.test_statements import ALL, LISTINGS, shapes
from tests.support.service import PATIENCE_S, Service, free_port, new_database

DEBIAN = Path("/usr/lib/postgresql/15/bin")


async def test_several_processes_may_migrate_an_empty_database_at_once(tmp_path: Path) -> None:
    service = Service(tmp_path, database_url=await new_database(f"race_{os.getpid()}"))
    ended = await asyncio.gather(*(asyncio.to_thread(service.run, "migrate") for _ in range(3)))
    assert [each.returncode for each in ended] == [0, 0, 0], ended
    output = "".join(each.stdout for each in ended)
    assert output.count("applied 0001") == 1
    assert output.count(f"The schema is at version {LATEST}.") == 3


async def test_a_migration_edited_after_it_was_applied_is_refused(tmp_path: Path) -> None:
    service = Service(tmp_path, database_url=await new_database(f"edited_{os.getpid()}"))
    await migrate(service.database_url)
    db = await connect(service.database_url)
    await db.execute("UPDATE schema_migrations SET digest = 'of another text' WHERE version = 1")
    await db.close()
    for command in ("migrate", "serve"):
        ended = service.run(command)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.startswith("error: Migration 0001 (initial) differs")
        assert len(ended.stderr.splitlines()) == 1


@contextmanager
def debian_postgres(folder: Path) -> Generator[str]:
    """PostgreSQL 15 from Debian, on loopback, run by an ordinary user."""
    user = "nobody" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    port, data = free_port(), folder / "data"
    initdb = [DEBIAN / "initdb", "-D", data, "-U", "stoa", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
    settings = (f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "fsync=off")
    postgres = [DEBIAN / "postgres", "-D", data, *(f"-c{setting}" for setting in settings)]
    with (folder / "log").open("wb") as log:
        subprocess.run(initdb, cwd=folder, stdout=log, stderr=log, user=user, check=True)
        server = subprocess.Popen(postgres, cwd=folder, stdout=log, stderr=log, user=user)
    try:
        yield f"postgresql://stoa@127.0.0.1:{port}/postgres"
    finally:
        server.send_signal(SIGINT)
        server.wait(PATIENCE_S)


async def accepts_connections(url: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await (await connect(url)).close()
            except Unavailable:
                await asyncio.sleep(0.05)
            else:
                return


@pytest.mark.skipif(not DEBIAN.exists(), reason="Debian's PostgreSQL 15 is not installed")
@pytest.mark.long
async def test_the_schema_every_statement_and_the_service_work_on_postgresql_15(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, debian_postgres(Path(folder)) as server:
        await accepts_connections(server)
        url = await new_database("stoa", server)
        assert [migration.version for migration in await migrate(url)][-1] == LATEST
        db = Database(url, size=1)
        async with db.transaction() as connection:
            [[version]] = await connection.fetch("SHOW server_version")
            assert version.startswith("15.")
            for _, query in ALL:
                if query.unbound != CITUS_CATALOG:
                    await connection.prepare(query.sql)
            for listing, _ in LISTINGS:
                for shape in set(shapes(listing, list(listing.sorts))):
                    await connection.prepare(listing.statement(shape))
        await db.close()
        with Service(tmp_path, database_url=url, background=False) as service:
            assert await (await service.account("fifteen")).statuses(4) == {200}
