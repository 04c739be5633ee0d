"""The backlog metrics count pending deliveries of active subscriptions with a URL, and no others."""

import pytest

from stoa.webhooks.delivery.queries import BACKLOG, Backlog
from stoa.webhooks.delivery.router import route_events
from tests.support.shops import Shop
from tests.webhooks.subscriptions import add_products, subscribe

LONG_AGO = """UPDATE pending_deliveries SET created_at = '1999-01-01' WHERE store_id = $1
                AND store_id = $1"""
OPEN_BREAKER = "UPDATE lanes SET breaker = 'open' WHERE store_id = $1 AND store_id = $1"
OLD_S = 20 * 365 * 86_400.0


async def backlog(shop: Shop) -> Backlog:
    """The backlog after routing the events that other tests left unrouted."""
    while (await route_events(shop.db, range(64))).events:
        pass
    return await BACKLOG.one(shop.db)


async def test_pending_deliveries_of_an_active_subscription_count(shop: Shop) -> None:
    before = await backlog(shop)
    await subscribe(shop)
    await add_products(shop, "A", "B")
    await shop.db.execute(LONG_AGO, shop.store_id)
    await shop.db.execute(OPEN_BREAKER, shop.store_id)
    after = await backlog(shop)
    assert (after.pending - before.pending, after.open_breakers - before.open_breakers) == (2, 1)
    assert after.receivers - before.receivers == 1
    assert after.oldest_seconds > OLD_S
    await shop.db.execute("UPDATE webhooks SET status = 'paused' WHERE store_id = $1", shop.store_id)


@pytest.mark.parametrize(
    "change", ["url = NULL", "status = 'paused'", "status = 'disabled'", "ended_at = now()"], ids=lambda change: change
)
async def test_deliveries_of_a_subscription_that_does_not_send_do_not_count(shop: Shop, change: str) -> None:
    before = await backlog(shop)
    await subscribe(shop)
    await add_products(shop, "A", "B")
    await shop.db.execute(LONG_AGO, shop.store_id)
    await shop.db.execute(OPEN_BREAKER, shop.store_id)
    await shop.db.execute(f"UPDATE webhooks SET {change} WHERE store_id = $1", shop.store_id)
    after = await backlog(shop)
    assert (after.pending, after.open_breakers) == (before.pending, before.open_breakers)
    assert after.receivers == before.receivers
    assert after.oldest_seconds < OLD_S


@pytest.mark.parametrize(("sent", "counts"), [("1 hour", 1), ("2 days", 0)])
async def test_a_receiver_without_pending_deliveries_counts_for_a_day_after_an_attempt(
    shop: Shop, sent: str, counts: int
) -> None:
    before = await backlog(shop)
    await subscribe(shop)
    await shop.db.execute(
        f"UPDATE lanes SET last_attempt_at = now() - interval '{sent}' WHERE store_id = $1", shop.store_id
    )
    assert (await backlog(shop)).receivers - before.receivers == counts
