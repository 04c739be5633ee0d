"""A customer who was erased after a backup does not come back when that backup is restored."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from stoa.app import Application
from stoa.backup import invariants
from stoa.backup.archive import BackupRefused
from stoa.backup.erasures import (
    BEGINNING,
    CREATED_AT,
    FORMAT,
    Erased,
    ErasedOfStore,
    ErasureList,
    Replayed,
    collect,
    from_bytes,
    not_repeated,
    replay,
    to_bytes,
)
from stoa.backup.restoring import restore
from stoa.backup.saving import save
from stoa.cli import cli
from stoa.db import migrate
from stoa.db.pool import Database
from stoa.db.service_facts import NOTE, TO_REPEAT
from stoa.imports.runner import run_pending
from stoa.secret_keys import read_keys
from stoa.settings import Settings, load
from tests.conftest import SECRET_KEY
from tests.support.canaries import traces
from tests.support.service import Account, Service, migrated_database, new_database
from tests.support.shops import SHIRT, Shop, open_shop

CANARIES = ("canarina", "canary@song.example", "canary.old@song.example", "15550100777", "warbler lane")
CANARY: dict[str, Any] = {
    "email": "canary.old@song.example",
    "phone": "+15550100777",
    "first_name": "Canarina",
    "addresses": [{"address1": "7 Warbler Lane", "country_code": "ES"}],
}


async def traces_in(url: str) -> list[str]:
    db = Database(url, size=1)
    try:
        return await traces(db, CANARIES)
    finally:
        await db.close()


async def write_person(account: Account) -> int:
    """A customer with a former email address and an order, and another one who stays."""
    async with account.client() as client:
        body = {**SHIRT, "options": [], "variants": [{"sku": "S-1", "stock": {"on_hand": 9}}]}
        assert (await client.post("/products", json=body)).status_code == 201
        made = await client.post("/customers", json=CANARY, headers={"idempotency-key": "create"})
        customer_id = made.json()["data"]["id"]
        changed = await client.patch(f"/customers/{customer_id}", json={"email": "canary@song.example"})
        assert changed.status_code == 200, changed.text
        order = {"customer_id": customer_id, "line_items": [{"sku": "S-1", "quantity": 1}]}
        assert (await client.post("/orders", json=order)).status_code == 201
        assert (await client.post("/customers", json={"email": "stays@song.example"})).status_code == 201
    return customer_id


async def replayed(url: str, erasures: ErasureList) -> Replayed:
    db = Database(url, size=1)
    try:
        return await replay(db, [erasures], "req_tests")
    finally:
        await db.close()


@pytest.mark.timeout(300)  # several commands and services, one after another
async def test_erasures_survive_a_restore(tmp_path: Path, worker_id: str) -> None:
    name = f"erased_{worker_id}_{os.getpid()}"
    url, empty = await migrated_database(name), await new_database(f"{name}_new")
    backup, exported, damaged = (tmp_path / name for name in ("stoa.backup", "erasures.json", "damaged.json"))
    first, second = (
        Service(tmp_path / name, database_url=url, workers=1, options=["--no-background"])
        for name, url in (("first", url), ("second", empty))
    )
    with first:
        account = await first.account("songs")
        customer_id = await write_person(account)
        with backup.open("wb") as file:
            await save(url, load(first.environment), file)
        async with account.client() as client:
            later = (await client.post("/customers", json={"email": "later@song.example"})).json()["data"]["id"]
            for erased in (customer_id, later):
                assert (await client.delete(f"/customers/{erased}")).status_code == 204
        made = await asyncio.to_thread(first.run, "erasures", "export", str(exported), "--json")
        assert msgspec.json.decode(made.stdout) == {"file": str(exported), "stores": 1, "customers": 2}, made.stderr
    assert "song.example" not in exported.read_text()
    erasures = from_bytes(exported.read_bytes(), "")

    # The replaced database knows its erasures.
    restored = await asyncio.to_thread(first.run, "restore", str(backup), "--replace", "--json")
    assert restored.returncode == 0, restored.stderr
    assert msgspec.json.decode(restored.stdout)["erasures"] == {
        "erased": 1,
        "absent": 1,
        "others": 0,
        "unknown_stores": [],
    }
    assert await traces_in(url) == []

    # The database is lost, so the operator must decide. A damaged list changes nothing.
    damaged.write_text(exported.read_text().replace(f'"customer_id":{customer_id}', '"customer_id":9999'))
    refused, wrong = await asyncio.gather(
        asyncio.to_thread(second.run, "restore", str(backup)),
        asyncio.to_thread(second.run, "restore", str(backup), "--erasures", str(damaged)),
    )
    assert (refused.returncode, "--no-erasures" in refused.stderr) == (2, True)
    assert (wrong.returncode, "is damaged" in wrong.stderr) == (1, True)
    await restore(empty, load(second.environment), backup, replace=False)
    assert await traces_in(empty), "the backup contains the person"

    with second:
        done = await asyncio.to_thread(second.run, "erasures", "replay", str(exported), "--json")
        assert msgspec.json.decode(done.stdout) == {"erased": 1, "absent": 1, "others": 0, "unknown_stores": []}, (
            done.stderr
        )
        assert await traces_in(empty) == []
        # A new customer gets the id of an erased one whom the backup does not contain, and stays.
        moved = Account(second, account.handle, account.client_id, account.client_secret, account.token)
        async with moved.client() as client:
            new = (await client.post("/customers", json={"email": "new@song.example"})).json()["data"]["id"]
            assert new == later
            assert await replayed(empty, erasures) == Replayed(0, 1, 1, [])
            page = (await client.get("/customers")).json()
            assert {each["email"] for each in page["data"]} == {"stays@song.example", "new@song.example"}
    db = Database(empty, size=1)
    assert {each.broken for each in await invariants.check(db, read_keys(SECRET_KEY))} == {0}
    await db.close()


async def test_an_interrupted_restore_repeats_the_erasures_when_it_runs_again(
    tmp_path: Path, worker_id: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await migrated_database(f"again_{worker_id}_{os.getpid()}")
    application, db = Application(msgspec.structs.replace(settings, database_url=url)), Database(url, size=2)
    shop = await open_shop(application, db)
    customer_id = (await shop.client.post("/customers", json=CANARY)).json()["data"]["id"]
    with (tmp_path / "stoa.backup").open("wb") as file:
        await save(url, settings, file)
    assert (await shop.client.delete(f"/customers/{customer_id}")).status_code == 204
    await application.close()
    await db.close()

    async def fail(_: str) -> None:
        raise ConnectionAbortedError

    words = ["restore", str(tmp_path / "stoa.backup"), "--replace", "--json"]
    environment = {"STOA_DATABASE_URL": url, "STOA_SECRET_KEY": SECRET_KEY, "STOA_DATA_DIR": str(tmp_path / "data")}
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(migrate, "migrate", fail)
            begun = await asyncio.to_thread(CliRunner().invoke, cli, words, env=environment)
        assert isinstance(begun.exception, ConnectionAbortedError), begun.output
        assert await traces_in(url), "the restore was interrupted after its commit"
    again = await asyncio.to_thread(CliRunner().invoke, cli, words, env=environment)
    assert again.exit_code == 0, again.output
    assert await traces_in(url) == []
    assert msgspec.json.decode(again.stdout)["erasures"]["erased"] == 1
    # Nothing is left to repeat.
    last = await asyncio.to_thread(CliRunner().invoke, cli, words, env=environment)
    assert msgspec.json.decode(last.stdout)["erasures"]["erased"] == 1
    opened = Database(url, size=1)
    assert await not_repeated(opened) == []
    await opened.close()


@pytest.mark.timeout(300)  # several commands, one after another
async def test_no_service_starts_before_an_interrupted_restore_has_repeated_the_erasures(
    tmp_path: Path, worker_id: str, settings: Settings
) -> None:
    url = await migrated_database(f"left_{worker_id}_{os.getpid()}")
    application, db = Application(msgspec.structs.replace(settings, database_url=url)), Database(url, size=2)
    shop = await open_shop(application, db)
    customer_id = (await shop.client.post("/customers", json=CANARY)).json()["data"]["id"]
    left = lists_of(shop, await CREATED_AT.one(db, shop.store_id), Erased(customer_id, datetime.now(UTC)))
    await NOTE.run(db, TO_REPEAT, msgspec.json.encode(left).decode())
    await application.close()
    await db.close()
    service = Service(tmp_path, database_url=url, workers=1)
    for command in ("serve", "worker"):
        refused = await asyncio.to_thread(service.run, command)
        assert (refused.returncode, "stoa erasures replay" in refused.stderr) == (2, True), refused.stderr
    found = msgspec.json.decode((await asyncio.to_thread(service.run, "doctor", "--json")).stdout)
    assert {each["check"]: each["status"] for each in found}["restore"] == "problem"
    done = await asyncio.to_thread(service.run, "erasures", "replay", "--json")
    assert (done.returncode, msgspec.json.decode(done.stdout)["erased"]) == (0, 1), done.stderr
    assert await traces_in(url) == []
    with service:
        assert service.status("/ready") == 200


async def test_a_store_of_another_service_is_reported_and_not_touched(shop: Shop) -> None:
    made = await shop.client.post("/customers", json={"email": "same@song.example"})
    customer_id = made.json()["data"]["id"]
    now = datetime.now(UTC)
    stranger = ErasedOfStore(shop.store_id, "stranger", now, [Erased(customer_id, now + timedelta(days=1))])
    assert await replay(shop.db, [ErasureList(FORMAT, now, now, [stranger])], "req_tests") == Replayed(
        0, 0, 0, ["stranger"]
    )
    assert (await shop.client.get(f"/customers/{customer_id}")).status_code == 200


def lists_of(shop: Shop, created_at: datetime, *erased: Erased) -> list[ErasureList]:
    now = datetime.now(UTC)
    return [ErasureList(FORMAT, now, now, [ErasedOfStore(shop.store_id, "shop", created_at, list(erased))])]


async def imported(shop: Shop, email: str) -> int:
    """A customer of another shop, with the time at which that one created it."""
    row = msgspec.json.encode({"email": email, "created_at": "2020-01-31T12:00:00Z"})
    media = {"content-type": "application/x-ndjson"}
    assert (await shop.client.post("/customers/imports", content=row, headers=media)).status_code == 202
    await run_pending(shop.db)
    [found] = (await shop.client.get("/customers", params={"email": email})).json()["data"]
    assert found["created_at"].startswith("2020-01-31")
    return found["id"]


@pytest.mark.parametrize("recorded", [True, False], ids=["a list of this release", "a list of 0.3.0"])
async def test_an_imported_customer_with_the_id_of_an_erased_one_stays(shop: Shop, *, recorded: bool) -> None:
    created_at = await CREATED_AT.one(shop.db, shop.store_id)
    before = datetime.now(UTC)
    customer_id = await imported(shop, "backdated@song.example")
    erased = Erased(customer_id, before, before if recorded else None)
    assert await replay(shop.db, lists_of(shop, created_at, erased), "req_tests") == Replayed(0, 0, 1, [])
    assert (await shop.client.get(f"/customers/{customer_id}")).status_code == 200


async def test_a_customer_who_had_the_id_before_an_erased_one_stays(shop: Shop) -> None:
    """After the restore of an older backup, another customer got the id and was erased; then a newer backup was restored."""
    created_at = await CREATED_AT.one(shop.db, shop.store_id)
    customer_id = (await shop.client.post("/customers", json={"email": "first@song.example"})).json()["data"]["id"]
    later = datetime.now(UTC) + timedelta(hours=1)
    second = Erased(customer_id, later, later - timedelta(minutes=1))
    assert await replay(shop.db, lists_of(shop, created_at, second), "req_tests") == Replayed(0, 0, 1, [])
    assert (await shop.client.get(f"/customers/{customer_id}")).status_code == 200


async def test_a_list_names_when_an_erased_customer_was_inserted(shop: Shop) -> None:
    customer_id = await imported(shop, "listed@song.example")
    [[inserted_at]] = await shop.db.fetch(
        "SELECT inserted_at FROM customers WHERE store_id = $1 AND id = $2", shop.store_id, customer_id
    )
    assert (await shop.client.delete(f"/customers/{customer_id}")).status_code == 204
    (ours,) = [store for store in (await collect(shop.db)).stores if store.store_id == shop.store_id]
    assert [(each.customer_id, each.inserted_at) for each in ours.customers] == [(customer_id, inserted_at)]


async def test_a_customer_of_0_3_0_is_recognized_by_its_creation(shop: Shop) -> None:
    """Rows of 0.3.0 have no time of insertion: it was always that of their creation."""
    customer_id = (await shop.client.post("/customers", json={"email": "old@song.example"})).json()["data"]["id"]
    [[moment]] = await shop.db.fetch(
        """UPDATE customers SET inserted_at = NULL, created_at = now() - interval '1 year'
            WHERE store_id = $1 AND id = $2 RETURNING created_at""",
        shop.store_id,
        customer_id,
    )
    created_at = await CREATED_AT.one(shop.db, shop.store_id)
    for erased, expected in (
        (Erased(customer_id, moment - timedelta(hours=1)), Replayed(0, 0, 1, [])),
        (Erased(customer_id, datetime.now(UTC)), Replayed(1, 0, 0, [])),
    ):
        assert await replay(shop.db, lists_of(shop, created_at, erased), "req_tests") == expected


async def test_a_list_contains_the_erasures_since_a_moment(shop: Shop) -> None:
    erased = (await shop.client.post("/customers", json={"email": "gone@song.example"})).json()["data"]["id"]
    assert (await shop.client.delete(f"/customers/{erased}")).status_code == 204
    (ours,) = [store for store in (await collect(shop.db)).stores if store.store_id == shop.store_id]
    assert [each.customer_id for each in ours.customers] == [erased]
    assert (await collect(shop.db, datetime.now(UTC) + timedelta(days=1))).stores == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"not JSON", to_bytes(ErasureList(FORMAT, BEGINNING, BEGINNING, []))[:-3],
     to_bytes(ErasureList(FORMAT, BEGINNING, BEGINNING, [])).replace(b"1970", b"1971"),
     to_bytes(ErasureList(FORMAT + 1, BEGINNING, BEGINNING, []))],
)  # fmt: skip
def test_a_file_that_is_no_list_or_a_damaged_one_is_refused(content: bytes) -> None:
    with pytest.raises(BackupRefused):
        from_bytes(content, "erasures.json")
