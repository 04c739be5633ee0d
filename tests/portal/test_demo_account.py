"""The account that `make demo` makes: its password is told for as long as it is the one."""

from pathlib import Path

import msgspec
import pytest

from stoa.accounts.registration import change_password, find_account
from stoa.accounts.sessions import sign_in
from stoa.db.pool import Database
from stoa.demo.run import EMAIL, prepare
from stoa.settings import Settings
from tests.portal.people import as_operator
from tests.support.service import new_database

CHOSEN = "a password of my own, at last"


@pytest.fixture
async def demo(settings: Settings, tmp_path: Path, worker_id: str) -> Settings:
    """A demo that was never started."""
    url = await new_database(f"demo_account_{worker_id}")
    return msgspec.structs.replace(settings, database_url=url, data_dir=tmp_path)


async def test_the_password_stays_the_same_from_one_start_to_the_next(demo: Settings) -> None:
    first, second = await prepare(demo), await prepare(demo)
    assert first == second
    assert first["STOA_PORTAL_PASSWORD"]


async def test_a_password_that_was_changed_is_neither_told_nor_undone(demo: Settings) -> None:
    before = (await prepare(demo))["STOA_PORTAL_PASSWORD"]
    db = Database(demo.database_url, size=2)
    by = as_operator(db, demo)
    await change_password(by, await find_account(db, EMAIL), CHOSEN, kept=0)
    for _ in range(2):
        assert "STOA_PORTAL_PASSWORD" not in await prepare(demo)
        assert before not in (demo.data_dir / "demo.env").read_text()
    assert (await sign_in(by, db, EMAIL, CHOSEN, peer="127.0.0.1", agent="Tests")).complete
    await db.close()


async def test_who_has_lost_the_file_gets_a_new_password(demo: Settings) -> None:
    before = await prepare(demo)
    (demo.data_dir / "demo.env").unlink()
    after = await prepare(demo)
    assert after["STOA_PORTAL_PASSWORD"] not in ("", before["STOA_PORTAL_PASSWORD"])
