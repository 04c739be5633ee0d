"""A key that does not belong to the database is refused before it does any harm."""

import json
import os
import secrets
import subprocess
from pathlib import Path

import pytest

from stoa.db.connection import connect
from stoa.secret_keys import key_fingerprint
from tests.conftest import SECRET_KEY
from tests.support.service import Account, Service, migrated_database, new_database, until

OTHER = secrets.token_hex(32)


@pytest.fixture(scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    """A stopped service, whose first start recorded its key."""
    url = await migrated_database(f"key_{os.getpid()}")
    running = Service(tmp_path_factory.mktemp("key"), database_url=url, background=False, workers=1)
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


@pytest.mark.long
async def test_the_first_credential_records_the_key_before_any_service_starts(tmp_path: Path) -> None:
    service = Service(tmp_path, database_url=await new_database(f"first_key_{os.getpid()}"))
    create = ["app", "create", "Sync", "--scopes", "products:read"]
    assert service.run("migrate").returncode == 0
    assert service.run("app", "list", secret_key=OTHER).returncode == 0  # reading binds the database to no key
    assert service.run(*create).returncode == 0
    assert "STOA_SECRET_KEY is not the key" in refusal(service.run(*create, secret_key=OTHER))


def test_a_key_of_zeros_is_refused_with_the_way_to_make_one(tmp_path: Path) -> None:
    line = refusal(Service(tmp_path).run("serve", secret_key="0" * 64))
    assert "openssl rand -hex 32" in line


@pytest.mark.long
async def test_an_operator_replaces_the_key_of_a_running_service(tmp_path: Path) -> None:
    """The walk-through of docs/operations/running.md, on one machine."""
    url, new = await migrated_database(f"rotated_{os.getpid()}"), secrets.token_hex(32)
    with Service(tmp_path, database_url=url, workers=1, background=False) as first:
        account = await first.account("rotated")
    both = f"{new},{SECRET_KEY}"
    with Service(tmp_path, database_url=url, workers=2, secret_key=both, background=False) as second:
        moved = Account(second, account.handle, account.client_id, account.client_secret, account.token)
        assert await moved.statuses() == {200}

        def old_key_can_go() -> bool:
            found = {each["check"]: each for each in json.loads(second.run("doctor", "--json").stdout)}
            return "can go" in found["key"]["detail"]

        until(old_key_can_go, "every secret is encrypted with the new key")
    with Service(tmp_path, database_url=url, workers=1, secret_key=new, background=False) as third:
        moved = Account(third, account.handle, account.client_id, account.client_secret, account.token)
        assert await moved.statuses() == {200}
        given = {"grant_type": "client_credentials"}
        async with third.client() as client:
            issued = await client.post("/oauth/token", data=given, auth=(account.client_id, account.client_secret))
        assert issued.status_code == 200, issued.text
        until(lambda: "audit head" in third.output(), "the ends of the chains are logged")
        log = tmp_path / "kept.log"
        log.write_text(third.output())
        verified = third.run("audit", "verify", "--log", str(log))
        assert verified.returncode == 0, verified.stderr
        db = await connect(url)
        await db.execute("DELETE FROM service_audit_entries WHERE position > 1")
        await db.execute("DELETE FROM audit_heads")  # and with it the encrypts
        await db.execute("DELETE FROM service_facts WHERE name = 'audit_scan'")
        await db.close()
        cut = third.run("audit", "verify", "--log", str(log))
        assert (cut.returncode, "was altered at or before -:" in cut.stderr) == (1, True)
    assert "STOA_SECRET_KEY is not the key" in refusal(first.run("app", "list"))


async def test_a_lost_key_can_be_replaced_on_purpose(service: Service) -> None:
    assert service.run("accept-key", secret_key=OTHER).returncode == 2
    assert service.run("accept-key", "--yes", secret_key=OTHER).returncode == 0
    assert service.run("app", "list", secret_key=OTHER).returncode == 0
    assert "STOA_SECRET_KEY is not the key" in refusal(service.run("app", "list"))
    assert service.run("accept-key", "--yes").returncode == 0
