"""A key that does not belong to the database is refused before it does any harm."""

import os
import subprocess
from pathlib import Path

import pytest

from stoa.db.pool import connect
from stoa.db.service_facts import key_fingerprint
from tests.conftest import SECRET_KEY
from tests.support.service import Service, new_database

OTHER = "0f" * 32


@pytest.fixture(scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    """A stopped service, whose first start recorded its key."""
    running = Service(tmp_path_factory.mktemp("key"), database_url=await new_database(f"key_{os.getpid()}"), workers=1)
    with running:
        assert running.status("/ready") == 200
    return running


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stderr
    [line] = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("command", [
    ["serve"],
    ["worker"],
    ["app", "create", "Sync", "--scopes", "products:read"],
    ["backup", "refused.backup"],
])  # fmt: skip
async def test_another_key_is_refused_with_both_fingerprints(service: Service, command: list[str]) -> None:
    line = refusal(service.run(*command, secret_key=OTHER))
    for key in (OTHER, SECRET_KEY):
        assert key_fingerprint(bytes.fromhex(key))[:8] in line
        assert key not in line
    assert not Path("refused.backup").exists()
    db = await connect(service.database_url)
    assert [tuple(row) for row in await db.fetch("SELECT count(*) FROM apps")] == [(0,)]
    await db.close()


async def test_a_lost_key_can_be_replaced_on_purpose(service: Service) -> None:
    assert service.run("accept-key", secret_key=OTHER).returncode == 2
    assert service.run("accept-key", "--yes", secret_key=OTHER).returncode == 0
    assert service.run("app", "list", secret_key=OTHER).returncode == 0
    assert "STOA_SECRET_KEY is not the key" in refusal(service.run("app", "list"))
    assert service.run("accept-key", "--yes").returncode == 0
