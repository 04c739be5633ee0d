"""Backups are taken under load, restored atomically, and rehearsed in a temporary database."""

import asyncio
import io
import itertools
import os
import secrets
import shutil
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from stoa.access.apps import create_app
from stoa.access.contract import SCOPES
from stoa.access.grants import install
from stoa.access.stores import create_store
from stoa.backup import invariants
from stoa.backup.archive import DUMP, KEY, MANIFEST, BackupRefused
from stoa.backup.programs import _connection, _program  # pyright: ignore[reportPrivateUsage]
from stoa.backup.restoring import restore, without_versions
from stoa.backup.saving import save
from stoa.db.connection import connect
from stoa.db.embedded import binary
from stoa.db.migrate import LATEST, migrate
from stoa.db.pool import Database
from stoa.secret_keys import read_keys
from stoa.settings import Settings, load
from tests.conftest import SECRET_KEY
from tests.fault.test_migrations import DEBIAN, accepts_connections, debian_postgres
from tests.pictures.samples import picture, upload
from tests.support.data_folders import copy_migrated
from tests.support.service import Account, Service, migrated_database, new_database
from tests.support.shops import SHIRT, operator_of

OTHER_KEY = secrets.token_hex(32)
_numbers = itertools.count(1)  # autovacuum may hold a used database, which then cannot be dropped


@pytest.fixture
async def source(worker_id: str) -> str:
    """A small database with a store, an app and their audit log."""
    url = await migrated_database(f"backup_{worker_id}_{os.getpid()}_{next(_numbers)}")
    await fill(url)
    return url


async def fill(url: str) -> None:
    db = Database(url, size=1)
    operator = operator_of(db, load({}, database_url=url, secret_key=SECRET_KEY))
    await create_store(operator, "saved", "A store", "USD")
    app = await create_app(operator, "An app", list(SCOPES))
    await install(operator, app.client_id, "saved")
    await db.close()


@pytest.fixture
async def target(worker_id: str) -> str:
    """An empty database to restore into."""
    return await new_database(f"restored_{worker_id}_{os.getpid()}_{next(_numbers)}")


def settings_for(folder: Path, key: str = SECRET_KEY) -> Settings:
    return load({}, data_dir=folder, secret_key=key or None)


async def saved(url: str, folder: Path, key: str = SECRET_KEY) -> Path:
    file = folder / "stoa.backup"
    with file.open("wb") as handle:
        await save(url, settings_for(folder, key), handle)
    return file


async def stores(url: str) -> list[str]:
    db = await connect(url)
    try:
        if (await db.fetch("SELECT to_regclass('stores')"))[0][0] is None:
            return []
        return [row[0] for row in await db.fetch("SELECT handle FROM stores ORDER BY 1")]
    finally:
        await db.close()


async def broken(url: str) -> dict[str, int]:
    db = Database(url, size=1)
    found = {each.invariant: each.broken for each in await invariants.check(db, read_keys(SECRET_KEY))}
    await db.close()
    return {name: times for name, times in found.items() if times}


def altered(file: Path, **members: Any) -> Path:
    """The same backup with another manifest."""
    made = file.with_name("altered.backup")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(made, "w") as new:
        manifest = msgspec.json.decode(old.read(MANIFEST)) | members
        for name in old.namelist():
            new.writestr(name, msgspec.json.encode(manifest) if name == MANIFEST else old.read(name))
    return made


async def test_a_backup_is_restored_unchanged(source: str, target: str, tmp_path: Path) -> None:
    file = await saved(source, tmp_path)
    manifest = await restore(target, settings_for(tmp_path), file, replace=False)
    assert await stores(target) == ["saved"]
    assert await broken(target) == {}
    assert manifest.tables["stores"] == 1
    assert manifest.tables["audit_entries"] > 0


async def test_a_restore_replaces_everything_written_after_the_backup(source: str, tmp_path: Path) -> None:
    file = await saved(source, tmp_path)
    db = Database(source, size=1)
    await create_store(operator_of(db, settings_for(tmp_path)), "later", "A store", "USD")
    await db.execute("CREATE TABLE of_a_later_release (id int)")
    await db.close()
    await restore(source, settings_for(tmp_path), file, replace=True)
    assert await stores(source) == ["saved"]
    again = await connect(source)
    assert (await again.fetch("SELECT to_regclass('of_a_later_release')"))[0][0] is None
    await again.close()


async def test_sequences_continue_after_a_restore(source: str, target: str, tmp_path: Path) -> None:
    await restore(target, settings_for(tmp_path), await saved(source, tmp_path), replace=False)
    db = Database(target, size=1)
    row = await create_store(operator_of(db, settings_for(tmp_path)), "next", "A store", "USD")
    [[first]] = await db.fetch("SELECT id FROM stores WHERE handle = 'saved'")
    await db.close()
    assert row.id > first
    assert await broken(target) == {}


async def test_existing_stores_are_not_replaced_by_accident(source: str, tmp_path: Path) -> None:
    file = await saved(source, tmp_path)
    with pytest.raises(BackupRefused, match="--replace"):
        await restore(source, settings_for(tmp_path), file, replace=False)
    assert await stores(source) == ["saved"]


async def test_a_database_in_use_by_a_service_is_refused(source: str, tmp_path: Path) -> None:
    file = await saved(source, tmp_path)
    served = await connect(source)
    with pytest.raises(BackupRefused, match="stop every service"):
        await restore(source, settings_for(tmp_path), file, replace=True)
    await served.close()


@pytest.mark.parametrize("index", [100, 2_000, -200, -20])
async def test_a_damaged_backup_is_detected_before_anything_is_changed(source: str, tmp_path: Path, index: int) -> None:
    file = await saved(source, tmp_path)
    content = bytearray(file.read_bytes())
    content[index] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(BackupRefused):
        await restore(source, settings_for(tmp_path), file, replace=True)
    assert await stores(source) == ["saved"]


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x05\x06" + bytes(18)])
async def test_a_file_that_is_no_backup_is_refused(source: str, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "stoa.backup"
    file.write_bytes(content)
    with pytest.raises(BackupRefused, match="is not a backup"):
        await restore(source, settings_for(tmp_path), file, replace=True)


@pytest.mark.parametrize("name", ["missing.backup", "."])
async def test_an_unreadable_file_is_reported(source: str, tmp_path: Path, name: str) -> None:
    with pytest.raises(BackupRefused, match="cannot be read"):
        await restore(source, settings_for(tmp_path), tmp_path / name, replace=True)


async def test_a_truncated_dump_changes_nothing(source: str, tmp_path: Path) -> None:
    file = await saved(source, tmp_path)
    half = tmp_path / "half.backup"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(half, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content[: len(content) // 2] if name == DUMP else content)
    with pytest.raises(BackupRefused):
        await restore(source, settings_for(tmp_path), half, replace=True)
    assert await stores(source) == ["saved"]


async def test_missing_rows_roll_the_restore_back(source: str, tmp_path: Path) -> None:
    file = await saved(source, tmp_path)
    with zipfile.ZipFile(file) as archive:
        tables = msgspec.json.decode(archive.read(MANIFEST))["tables"]
    with pytest.raises(BackupRefused, match="apps is not complete"):
        await restore(source, settings_for(tmp_path), altered(file, tables=tables | {"apps": 7}), replace=True)
    assert await stores(source) == ["saved"]


async def test_a_backup_of_a_newer_release_is_refused(source: str, tmp_path: Path) -> None:
    file = altered(await saved(source, tmp_path), schema=LATEST + 1)
    with pytest.raises(BackupRefused, match="newer release"):
        await restore(source, settings_for(tmp_path), file, replace=True)


async def test_a_backup_with_other_migrations_is_refused(source: str, tmp_path: Path) -> None:
    file = altered(await saved(source, tmp_path), migrations={"1": "another"})
    with pytest.raises(BackupRefused, match="migration 0001 differs"):
        await restore(source, settings_for(tmp_path), file, replace=True)


async def test_a_key_from_the_environment_is_not_in_the_backup_and_is_required_to_restore(
    source: str, target: str, tmp_path: Path
) -> None:
    file = await saved(source, tmp_path)
    assert KEY not in zipfile.ZipFile(file).namelist()
    with pytest.raises(BackupRefused, match="contains no key"):
        await restore(target, settings_for(tmp_path / "new", key=""), file, replace=False)
    with pytest.raises(BackupRefused, match="not the key of this backup"):
        await restore(target, settings_for(tmp_path, OTHER_KEY), file, replace=False)


async def test_a_key_from_the_data_folder_is_restored_with_the_backup(source: str, target: str, tmp_path: Path) -> None:
    (tmp_path / KEY).write_text(SECRET_KEY + "\n")
    file = await saved(source, tmp_path, key="")
    new = tmp_path / "new"
    new.mkdir()
    (new / KEY).write_text(OTHER_KEY + "\n")
    await restore(target, settings_for(new, key=""), file, replace=False)
    assert (new / KEY).read_text().strip() == SECRET_KEY
    assert (new / KEY).stat().st_mode & 0o777 == 0o600
    assert [each.read_text().strip() for each in new.glob("secret.key.before-*")] == [OTHER_KEY]


async def test_an_empty_database_cannot_be_backed_up(target: str, tmp_path: Path) -> None:
    with pytest.raises(BackupRefused, match="never migrated"):
        await save(target, settings_for(tmp_path), io.BytesIO())


async def test_violated_invariants_are_found(source: str) -> None:
    db = await connect(source)
    await db.execute("INSERT INTO row_counts (store_id, resource, delta) SELECT id, 'products', 3 FROM stores")
    for table in ("audit_entries", "service_audit_entries"):
        await db.execute(f"UPDATE {table} SET actor = 'somebody else' WHERE position = 1")
    await db.close()
    assert await broken(source) == {"totals equal the number of rows": 1, "the audit chains verify": 2}


def test_a_password_is_never_on_a_command_line() -> None:
    address, environment = _connection(
        "postgresql://stoa:p%40ss@db.example.com:5432,db2.example.com/stoa?sslmode=require"
    )
    assert address == "postgresql://stoa@db.example.com:5432,db2.example.com/stoa?sslmode=require"
    assert environment["PGPASSWORD"] == "p@ss"


@pytest.mark.skipif(not DEBIAN.exists(), reason="Debian's PostgreSQL 15 is not installed")
@pytest.mark.long
async def test_a_server_of_an_older_version_is_backed_up_and_restored(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, debian_postgres(Path(folder)) as server:
        await accepts_connections(server)
        url = await new_database("stoa", server)
        await migrate(url)
        await fill(url)
        file = await saved(url, tmp_path)
        await restore(url, settings_for(tmp_path), file, replace=True)
        assert await stores(url) == ["saved"]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (b"(pg_attver=22448328)", None),
        (b"(pg_attver=22448328, n_distinct=1)", b"(n_distinct=1)"),
        (b"(n_distinct=1, pg_attver=22448328)", b"(n_distinct=1)"),
        (b"(n_distinct=1)", b"(n_distinct=1)"),
    ],
)
def test_the_version_of_a_column_is_not_restored(options: bytes, kept: bytes | None) -> None:
    line = b"ALTER TABLE ONLY public.products ALTER COLUMN id SET %b;\n"
    assert without_versions(line % options) == (b"" if kept is None else line % kept)


@pytest.mark.skipif(not DEBIAN.exists(), reason="Debian's PostgreSQL 15 is not installed")
@pytest.mark.long
async def test_a_backup_of_the_embedded_server_is_restored_into_an_older_one(source: str, tmp_path: Path) -> None:
    file = await saved(source, tmp_path)
    with tempfile.TemporaryDirectory() as folder, debian_postgres(Path(folder)) as server:
        await accepts_connections(server)
        url = await new_database("stoa", server)
        await restore(url, settings_for(tmp_path), file, replace=False)
        assert await stores(url) == ["saved"]
        assert await broken(url) == {}
        again = tmp_path / "again"
        again.mkdir()
        back = await saved(url, again)
    await restore(source, settings_for(tmp_path), back, replace=True)
    assert await broken(source) == {}


@pytest.mark.parametrize(
    ("major", "tls", "refusal"),
    [
        (99, False, "does not support PostgreSQL 99: install PostgreSQL's pg_restore of version 99 or newer"),
        (15, True, "does not support an encrypted connection: install PostgreSQL's pg_restore"),
    ],
)
async def test_a_program_that_cannot_do_the_work_is_refused_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, major: int, refusal: str, *, tls: bool
) -> None:
    assert await _program("pg_restore", major=15, tls=False) == binary("pg_restore")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackupRefused, match=refusal):
        await _program("pg_restore", major=major, tls=tls)


@pytest.mark.skipif(not DEBIAN.exists(), reason="Debian's PostgreSQL 15 is not installed")
async def test_the_system_has_the_programs_for_encrypted_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(DEBIAN))
    assert await _program("psql", major=15, tls=True) == DEBIAN / "psql"
    with pytest.raises(BackupRefused, match="version 19 or newer"):  # Debian's is older than that server
        await _program("pg_dump", major=19, tls=True)


async def keep_writing(account: Account) -> None:
    """Create products and adjust stock until cancelled."""
    async with account.client() as client:
        for number in range(1_000_000):
            body = {
                **SHIRT,
                "external_id": f"erp-{number}",
                "variants": [{"sku": f"S-{number}", "stock": {"on_hand": 9}}],
            }
            body |= {"options": []}
            assert (await client.post("/products", json=body)).status_code == 201
            items = [{"sku": f"S-{number}", "op": "adjust", "quantity": -2}]
            answer = await client.post("/products/inventory/adjustments", json={"reason": "other", "items": items})
            assert answer.status_code == 200, answer.text


async def check_pictures(saved: Service, restored: Service, path: str) -> None:
    """A restored service lacks a picture until its file is copied back."""
    lacking = await asyncio.to_thread(restored.run, "media", "check")
    assert (lacking.returncode, f"missing: {path.removeprefix('/media/')}" in lacking.stdout) == (1, True)
    shutil.copytree(saved.folder / "media", restored.folder / "media", dirs_exist_ok=True)
    checked = await asyncio.to_thread(restored.run, "media", "check")
    assert checked.returncode == 0, checked.stderr
    async with restored.client() as client:
        assert (await client.get(path)).status_code == 200


@pytest.mark.long
async def test_a_busy_service_is_backed_up_and_restored_with_every_credential(tmp_path: Path) -> None:
    """Back up under load, drill and restore with the commands of an operator."""
    file = tmp_path / "stoa.backup"
    copy_migrated(tmp_path / "first/postgres")
    first = Service(tmp_path / "first", workers=1, background=False)
    del first.environment["STOA_SECRET_KEY"]  # so that the key is in the data folder
    with first:
        key = (tmp_path / "first/secret.key").read_text().strip()
        first.environment["STOA_SECRET_KEY"] = key
        account = await first.account("busy")
        del first.environment["STOA_SECRET_KEY"]
        writing = asyncio.create_task(keep_writing(account))
        async with account.client() as client:
            pictured = {"name": "Mug", "price": "1.00", "images": [upload(picture())]}
            made = (await client.post("/products", json=pictured)).json()["data"]
            while not writing.done() and (await client.get("/products")).json()["meta"]["total"] < 5:
                await asyncio.sleep(0)
        taken = await asyncio.to_thread(first.run, "backup", str(file), "--json")
        assert taken.returncode == 0, taken.stderr
        assert f"the files of 1 pictures: copy {first.folder / 'media'} as well" in taken.stderr
        assert not writing.done(), "writes continued during the backup"
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
        again = await asyncio.to_thread(first.run, "backup", str(file))
        assert (again.returncode, "already exists" in again.stderr) == (1, True)
        running = await asyncio.to_thread(first.run, "restore", str(file), "--replace")
        assert (running.returncode, "in use by another Stoa" in running.stderr) == (1, True)
        drill = await asyncio.to_thread(first.run, "restore", str(file), "--drill", "--json")
        assert drill.returncode == 0, drill.stderr
        assert {each["broken"] for each in msgspec.json.decode(drill.stdout)["invariants"]} == {0}
    assert file.stat().st_mode & 0o777 == 0o600
    assert msgspec.json.decode(taken.stdout)["holds_key"] is True

    second = Service(tmp_path / "second", workers=1, background=False)
    del second.environment["STOA_SECRET_KEY"]
    resurrecting = second.run("restore", str(file))
    assert (resurrecting.returncode, "--no-erasures" in resurrecting.stderr) == (2, True)
    restored = second.run("restore", str(file), "--no-erasures", "--json")
    assert restored.returncode == 0, restored.stderr
    assert "1 pictures: copy their files back" in restored.stderr
    assert {each["broken"] for each in msgspec.json.decode(restored.stdout)["invariants"]} == {0}
    with second:
        await check_pictures(first, second, httpx.URL(made["images"][0]["url"]).path)
        moved = Account(second, account.handle, account.client_id, account.client_secret, account.token)
        async with moved.client() as client:
            found = (await client.get("/products")).json()["meta"]["total"]
            assert found >= 5
            assert (await client.post("/products", json={"name": "New", "price": "1.00"})).status_code == 201
