"""`stoa doctor` finds real failures, says what to do about each, and reports them by its exit code."""

import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoa.db.connection import Connection, connect
from stoa.operations.doctor import examine, unreachable
from stoa.operations.finding import Finding
from stoa.settings import Settings
from tests.support.service import Service, migrated_database, sibling, until

NAME = f"doctor_{os.getpid()}"
CHECKS = {"settings", "disk", "pictures", "database", "version", "server settings", "writes", "key", "connections", "migrations",
          "clock", "delivery workers", "deliveries", "imports", "backup"}  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A healthy service with an embedded database."""
    with Service(tmp_path_factory.mktemp("doctor"), workers=1, webhook_allow="127.0.0.0/8") as running:
        yield running


@pytest.fixture
async def patient(settings: Settings, tmp_path: Path) -> Settings:
    """The settings of a service whose database the test may damage."""
    url = await migrated_database(NAME)
    return msgspec.structs.replace(settings, database_url=url, data_dir=tmp_path)


@pytest.fixture
async def db(patient: Settings) -> AsyncIterator[Connection]:
    connection = await connect(patient.database_url)
    yield connection
    await connection.close()


async def diagnose(settings: Settings) -> dict[str, Finding]:
    return {each.check: each for each in await examine(settings.database_url, settings)}


def doctor(service: Service, **settings: object) -> tuple[int, dict[str, dict[str, Any]]]:
    done = service.run("doctor", "--json", **settings)
    assert not done.stderr, done.stderr
    return done.returncode, {each["check"]: each for each in json.loads(done.stdout)}


def test_a_healthy_service_passes_every_check(service: Service) -> None:
    assert service.run("backup", str(service.folder / "one.backup"), "--overwrite").returncode == 0
    until(lambda: doctor(service)[1]["delivery workers"]["status"] == "ok", "a delivery worker is connected")
    code, found = doctor(service)
    assert code == 0, found
    assert {each["status"] for each in found.values()} == {"ok"}, found
    assert set(found) == {*CHECKS, "receivers"}
    text = service.run("doctor").stdout
    assert "0 problems, 0 warnings" in text


async def test_receivers_are_reached_through_the_address_guard(service: Service) -> None:
    account = await service.account("receivers")
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        reached, refused = (each.getsockname()[1] for each in (listening, closed))
        async with account.client() as client:
            for port in (reached, refused):
                body = {"url": f"http://127.0.0.1:{port}/hook", "events": ["product.*"]}
                assert (await client.post("/webhooks", json=body)).status_code == 201
        code, found = doctor(service)
        assert code == 0, "a receiver is not the operator's problem"
        assert found[f"receiver 127.0.0.1:{reached}"]["status"] == "ok"
        assert found[f"receiver 127.0.0.1:{refused}"]["detail"] == "it refuses connections"


async def test_receivers_are_judged_by_the_list_of_the_service(service: Service) -> None:
    account = await service.account("listed")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        async with account.client() as client:
            body = {"url": f"http://127.0.0.1:{port}/hook", "events": ["product.*"]}
            assert (await client.post("/webhooks", json=body)).status_code == 201
        assert "allowed addresses" not in doctor(service)[1]
        for here, status in (("", "ok"), ("10.0.0.0/8", "warning")):
            _, found = doctor(service, webhook_allow=here)
            assert found[f"receiver 127.0.0.1:{port}"]["status"] == "ok"
            assert found["allowed addresses"]["status"] == status
            assert "STOA_WEBHOOK_ALLOW='127.0.0.0/8'" in found["allowed addresses"]["detail"]


async def test_a_list_that_the_service_refuses_opens_no_address_to_the_doctor(service: Service) -> None:
    account = await service.account("guarded")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        port = listening.getsockname()[1]
        async with account.client() as client:
            body = {"url": f"http://127.0.0.1:{port}/hook", "events": ["product.*"]}
            assert (await client.post("/webhooks", json=body)).status_code == 201
        code, found = doctor(service, host="0.0.0.0")  # noqa: S104
        assert (code, found["settings"]["status"]) == (1, "problem")
        assert "STOA_WEBHOOK_ALLOW" in found["settings"]["detail"]
        assert "address guard" in found[f"receiver 127.0.0.1:{port}"]["action"]
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_a_wrong_key_is_found(service: Service) -> None:
    code, found = doctor(service, secret_key=secrets.token_hex(32))
    assert (code, found["key"]["status"]) == (1, "problem")
    assert "stoa accept-key" in found["key"]["action"]


def test_a_database_that_cannot_be_reached_is_found(service: Service) -> None:
    code, found = doctor(service, database_url="postgresql://127.0.0.1:1/stoa")
    assert (code, found["database"]["status"]) == (3, "problem")
    assert "STOA_DATABASE_URL" in found["database"]["action"]
    assert set(found) == {"settings", "disk", "pictures", "database"}


def test_too_many_connections_are_found(service: Service) -> None:
    code, found = doctor(service, workers=40)
    assert (code, found["connections"]["status"]) == (1, "problem")
    assert "40 web workers" in found["connections"]["detail"]
    assert "max_connections is 300" in found["connections"]["action"]


def test_nothing_is_created_where_no_service_was_started(tmp_path: Path) -> None:
    service = Service(tmp_path / "nothing")
    done = service.run("doctor")
    assert done.returncode == 1
    assert "no service was ever started" in done.stderr
    assert not service.folder.exists()


async def test_a_damaged_schema_is_found(patient: Settings, db: Connection) -> None:
    await db.execute("UPDATE stored_functions SET digest = 'other' WHERE name = 'place_orders'")
    found = await diagnose(patient)
    assert (found["migrations"].status, found["migrations"].action) == ("problem", "Run `stoa migrate`.")
    assert "1 functions are outdated" in found["migrations"].detail


async def test_unsafe_settings_of_the_server_are_found(patient: Settings, db: Connection) -> None:
    await db.execute(f"ALTER DATABASE {NAME} SET synchronous_commit = off")
    found = await diagnose(patient)
    assert found["server settings"].status == "problem"
    assert "synchronous_commit=off" in found["server settings"].detail


async def test_a_read_only_database_is_found(patient: Settings, db: Connection) -> None:
    await db.execute(f"ALTER DATABASE {NAME} SET default_transaction_read_only = on")
    found = await diagnose(patient)
    assert found["writes"].status == "problem"
    assert "target_session_attrs=read-write" in found["writes"].action
    assert not unreachable(list(found.values()))


async def test_missing_workers_and_late_queues_are_found(patient: Settings, db: Connection) -> None:
    await db.execute("INSERT INTO stores (handle, name, currency) VALUES ('late', 'Late', 'USD')")
    await db.execute(
        """INSERT INTO events (store_id, id, type, resource_type, resource_id, resource_version, actor, changes, data,
                               request_id, created_at)
           SELECT id, 'evt_1', 'product.updated', 'product', 1, 1, '{"type":"operator"}', '{}', '{}', 'req',
                  now() - interval '5 minutes' FROM stores"""
    )
    await db.execute("INSERT INTO service_facts VALUES ('backup', '', now() - interval '3 days')")
    found = await diagnose(patient)
    assert found["delivery workers"].status == found["deliveries"].status == "problem"
    assert "stoa worker" in found["delivery workers"].action
    assert "has waited 300 s" in found["deliveries"].detail
    assert (found["backup"].status, found["backup"].detail) == ("warning", "the last one was taken 72.0 hours ago")


async def test_a_wrong_clock_and_a_full_disk_are_found(patient: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    real, usage = time.time, shutil.disk_usage(patient.data_dir)
    monkeypatch.setattr(time, "time", lambda: real() + 90)

    def almost_full(_: object) -> Any:
        return usage._replace(free=usage.total // 50)

    monkeypatch.setattr(shutil, "disk_usage", almost_full)
    found = await diagnose(patient)
    assert found["clock"].status == found["disk"].status == "problem"
    assert "+90.0 s" in found["clock"].detail
    assert "NTP" in found["clock"].action
    assert "every write fails" in found["disk"].action


async def test_a_limit_of_the_database_is_found(patient: Settings, db: Connection) -> None:
    await db.execute(f"ALTER DATABASE {NAME} CONNECTION LIMIT 9")
    found = await diagnose(patient)
    assert found["connections"].status == "problem"
    assert "the database's CONNECTION LIMIT is 9" in found["connections"].action
    assert sibling(patient.database_url, NAME) == patient.database_url
