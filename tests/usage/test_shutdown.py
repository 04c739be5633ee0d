"""A stopping service writes its usage counts before it exits."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stoa.db.pool import Database
from stoa.usage.queries import DAYS_ALL_STORES
from tests.support.service import Service, migrated_database


async def test_a_stop_loses_no_counts(tmp_path: Path, worker_id: str) -> None:
    url = await migrated_database(f"usage_{worker_id}_{os.getpid()}")
    with Service(tmp_path, database_url=url, background=False) as service:
        account = await service.account("drained")
        today = datetime.now(UTC).date()
        async with account.client() as client:
            for _ in range(20):
                assert (await client.get("/products")).status_code == 200
        assert service.stop() == 0
        assert "Traceback" not in service.output()
    db = Database(url, size=1)
    [[app_id]] = await db.fetch("SELECT id FROM apps")
    days = await DAYS_ALL_STORES.all(db, app_id, today, today + timedelta(days=1))
    await db.close()
    assert sum(day.requests for day in days) == 20
