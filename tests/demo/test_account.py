"""The account that `make demo` creates: its password is printed until it is changed."""

from pathlib import Path

import msgspec
import pytest

from stoa.accounts.registration import change_password, find_account
from stoa.accounts.sessions import sign_in
from stoa.db.pool import Database
from stoa.demo.run import EMAIL, prepare
from stoa.settings import Settings
from tests.support.demos import prepared_demo
from tests.support.people import as_operator

NEW_PASSWORD = "a password of my own, at last"


@pytest.fixture
async def demo(settings: Settings, tmp_path: Path, worker_id: str) -> Settings:
    """The settings of a demo that has run once."""
    url = await prepared_demo(f"demo_account_{worker_id}", tmp_path)
    return msgspec.structs.replace(settings, database_url=url, data_dir=tmp_path)


async def test_the_password_stays_the_same_after_a_restart(demo: Settings) -> None:
    first, second = await prepare(demo), await prepare(demo)
    assert first == second
    assert first["STOA_PORTAL_PASSWORD"]


async def test_a_changed_password_is_neither_printed_nor_reset(demo: Settings) -> None:
    before = (await prepare(demo))["STOA_PORTAL_PASSWORD"]
    db = Database(demo.database_url, size=2)
    by = as_operator(db, demo)
    await change_password(by, await find_account(db, EMAIL), NEW_PASSWORD)
    for _ in range(2):
        assert "STOA_PORTAL_PASSWORD" not in await prepare(demo)
        assert before not in (demo.data_dir / "demo.env").read_text()
    assert (await sign_in(by, db, EMAIL, NEW_PASSWORD, peer="127.0.0.1", agent="Tests")).complete
    await db.close()


async def test_a_lost_env_file_resets_the_password(demo: Settings) -> None:
    before = await prepare(demo)
    (demo.data_dir / "demo.env").unlink()
    after = await prepare(demo)
    assert after["STOA_PORTAL_PASSWORD"] not in ("", before["STOA_PORTAL_PASSWORD"])
