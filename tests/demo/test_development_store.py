"""A development store has a past, written in the transaction that creates it; a reset gives it a new one."""

import re
from datetime import UTC, datetime, timedelta

from stoa.accounts.ownership import owned_store
from stoa.accounts.registration import create_account
from stoa.db.pool import Database
from stoa.demo.development_stores import create_development_store, reset_development_store
from tests.support.people import PASSWORD, new_email
from tests.support.shops import Shop

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


async def check_past(db: Database, store_id: int, now: datetime) -> None:
    orders = await db.fetch(
        "SELECT head, placed_at, created_at, updated_at, expires_at FROM orders WHERE store_id = $1 ORDER BY id",
        store_id,
    )
    assert len(orders) >= 30
    for head, placed_at, created_at, updated_at, expires_at in orders:
        assert placed_at <= created_at <= updated_at < now
        times = [datetime.fromisoformat(found) for found in _TIME.findall(head)]
        assert all(placed_at <= each < now or each == expires_at for each in times)
    days = {row[1].date() for row in orders}
    assert len([day for day in days if day > (now - timedelta(days=30)).date()]) > 8
    [(first, last)] = await db.fetch(
        "SELECT min(created_at), max(created_at) FROM events WHERE store_id = $1 AND resource_type = 'order'", store_id
    )
    assert first < now - timedelta(days=50)
    assert last < now


async def test_a_development_store_has_a_past_also_after_a_reset(shop: Shop, db: Database) -> None:
    account = await create_account(shop.operator, new_email(), "Maria Stone", PASSWORD)
    now = datetime.now(UTC)
    store = await create_development_store(shop.operator, account.id, name="Trial")
    await check_past(db, store.id, now)
    owned = await owned_store(db, account.id, store.handle)
    assert owned is not None
    now = datetime.now(UTC)
    await reset_development_store(shop.operator, owned)
    await check_past(db, store.id, now)
