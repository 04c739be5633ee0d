"""What is measured as waiting: that which ought to be going out, and nothing that rests on purpose."""

import pytest

from stoa.webhooks.delivery.queries import BACKLOG, Backlog
from stoa.webhooks.delivery.router import route_events
from tests.support.shops import Shop
from tests.webhooks.subscriptions import sell, subscribe

LONG_AGO = """UPDATE pending_deliveries SET created_at = '1999-01-01' WHERE store_id = $1
                AND store_id = $1"""
OPEN_BREAKER = "UPDATE lanes SET breaker = 'open' WHERE store_id = $1 AND store_id = $1"
OLD_S = 20 * 365 * 86_400.0


async def seen(shop: Shop) -> Backlog:
    """What waits once all is routed that other tests left behind."""
    while (await route_events(shop.db, range(64))).events:
        pass
    return await BACKLOG.one(shop.db)


async def test_what_waits_for_a_receiver_counts(shop: Shop) -> None:
    before = await seen(shop)
    await subscribe(shop)
    await sell(shop, "A", "B")
    await shop.db.execute(LONG_AGO, shop.store_id)
    await shop.db.execute(OPEN_BREAKER, shop.store_id)
    after = await seen(shop)
    assert (after.pending - before.pending, after.open_breakers - before.open_breakers) == (2, 1)
    assert after.oldest_seconds > OLD_S
    await shop.db.execute("UPDATE webhooks SET status = 'paused' WHERE store_id = $1", shop.store_id)


@pytest.mark.parametrize(
    "rests", ["url = NULL", "status = 'paused'", "status = 'disabled'", "ended_at = now()"], ids=lambda words: words
)
async def test_what_rests_on_purpose_does_not(shop: Shop, rests: str) -> None:
    before = await seen(shop)
    await subscribe(shop)
    await sell(shop, "A", "B")
    await shop.db.execute(LONG_AGO, shop.store_id)
    await shop.db.execute(OPEN_BREAKER, shop.store_id)
    await shop.db.execute(f"UPDATE webhooks SET {rests} WHERE store_id = $1", shop.store_id)
    after = await seen(shop)
    assert (after.pending, after.open_breakers) == (before.pending, before.open_breakers)
    assert after.oldest_seconds < OLD_S
