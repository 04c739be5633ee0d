"""What the portal asks of usage: an app day by day or hour by hour, in one store or in all, and its latest refusals."""

from collections.abc import Iterable
from datetime import date, datetime, timedelta

import msgspec

from stoa.db.query import Executor
from stoa.usage import queries
from stoa.usage.queries import Day, Failure, Figures, Hour, OfApp, OfOperation, OfStore


class Usage(msgspec.Struct):
    """An app's use of one store or of all, over some days."""

    days: list[Day]  # every day of the span, the quiet ones too
    total: Figures
    operations: list[OfOperation]  # the busiest first


async def usage_of(db: Executor, app_id: int, first: date, last: date, *, store_id: int | None = None) -> Usage:
    """The days from first to last, both counted in UTC, with their sum and each operation's share."""
    if store_id is None:
        days = await queries.DAYS_OVERALL.all(db, app_id, first, last)
        operations = await queries.OPERATIONS_OVERALL.all(db, app_id, first, last)
    else:
        days = await queries.DAYS.all(db, store_id, app_id, first, last)
        operations = await queries.OPERATIONS.all(db, store_id, app_id, first, last)
    found = {each.day: each for each in days}
    span = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return Usage([found.get(day) or Day(day=day) for day in span], _sum(days), operations)


async def hours_of(
    db: Executor, app_id: int, first: datetime, hours: int, *, store_id: int | None = None
) -> list[Hour]:
    """So many hours from the one that `first` lies in, the quiet ones too; kept for 14 days."""
    first = first.replace(minute=0, second=0, microsecond=0)
    if store_id is None:
        rows = await queries.HOURS_OVERALL.all(db, app_id, first)
    else:
        rows = await queries.HOURS.all(db, store_id, app_id, first)
    found = {row.hour: row for row in rows}
    span = [first + timedelta(hours=number) for number in range(hours)]
    return [found.get(hour) or Hour(hour=hour) for hour in span]


async def stores_of(db: Executor, app_id: int, first: date, last: date) -> list[OfStore]:
    """What the app asked of each store, the busiest first."""
    return await queries.STORES.all(db, app_id, first, last)


async def apps_of(db: Executor, store_id: int, first: date, last: date) -> list[OfApp]:
    """What each app asked of a store, the busiest first: the merchant's view."""
    return await queries.APPS.all(db, store_id, first, last)


async def failures_of(db: Executor, app_id: int, *, store_id: int | None = None, most: int = 50) -> list[Failure]:
    """The latest refusals, the newest first."""
    if store_id is None:
        return await queries.FAILURES_OVERALL.all(db, app_id, most)
    return await queries.FAILURES.all(db, store_id, app_id, most)


def _sum(rows: Iterable[Figures]) -> Figures:
    total = Figures()
    for row in rows:
        total.requests += row.requests
        total.client_errors += row.client_errors
        total.rate_limited += row.rate_limited
        total.server_errors += row.server_errors
        total.total_us += row.total_us
        total.classes = [a + b for a, b in zip(total.classes, row.classes, strict=True)]
    return total
