"""Usage reports for the portal: an app's requests by day, operation and store, and its request log."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import msgspec

from stoa.db.query import Executor, Query
from stoa.usage import queries
from stoa.usage.queries import DayMetrics, HourMetrics, LoggedRequest, Metrics, OperationMetrics, StoreMetrics

HOURS_OF_A_DAY, DAYS_OF_ACTIVITY = 24, 14


class UsageReport(msgspec.Struct):
    """An app's usage of one store or of all stores over a range of days or hours."""

    periods: Sequence[DayMetrics | HourMetrics]  # every day or hour of the range, also those without requests
    total: Metrics
    operations: list[OperationMetrics]  # busiest first


async def usage_report(
    db: Executor, app_id: int, first: date, last: date, *, store_id: int | None = None
) -> UsageReport:
    """Return the usage of the UTC days from `first` to `last`, both included."""
    if store_id is None:
        days = await queries.DAYS_ALL_STORES.all(db, app_id, first, last)
        operations = await queries.OPERATIONS_ALL_STORES.all(db, app_id, first, last)
    else:
        days = await queries.DAYS.all(db, store_id, app_id, first, last)
        operations = await queries.OPERATIONS.all(db, store_id, app_id, first, last)
    by_day = {each.day: each for each in days}
    dates = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return UsageReport([by_day.get(day) or DayMetrics(day=day) for day in dates], _sum(days), operations)


async def usage_of_last_day(db: Executor, app_id: int, *, store_id: int | None = None) -> UsageReport:
    """Return the usage of the last 24 hours, by hour; the current hour is the last one."""
    first, last = last_hours()
    if store_id is None:
        found = await queries.HOURS_ALL_STORES.all(db, app_id, first, last)
        operations = await queries.OPERATIONS_BY_HOUR_ALL_STORES.all(db, app_id, first, last)
    else:
        found = await queries.HOURS.all(db, store_id, app_id, first, last)
        operations = await queries.OPERATIONS_BY_HOUR.all(db, store_id, app_id, first, last)
    by_hour = {each.hour: each for each in found}
    hours = [first + timedelta(hours=number) for number in range(HOURS_OF_A_DAY)]
    return UsageReport([by_hour.get(hour) or HourMetrics(hour=hour) for hour in hours], _sum(found), operations)


class Activity(msgspec.Struct):
    """The requests of an app or a store on each of the last days, the last of which is today, and how many failed."""

    days: list[int] = msgspec.field(default_factory=lambda: [0] * DAYS_OF_ACTIVITY)
    errors: int = 0

    @property
    def requests(self) -> int:
        return sum(self.days)


async def activity(db: Executor, query: Query[queries.RequestsOfDay], ids: Sequence[int]) -> dict[int, Activity]:
    """Return the activity of apps (`REQUESTS_OF_APPS`) or stores (`REQUESTS_OF_STORES`), also of those without requests."""
    first = datetime.now(UTC).date() - timedelta(days=DAYS_OF_ACTIVITY - 1)
    found = {each: Activity() for each in ids}
    for row in await query.all(db, ids, first):
        number = (row.day - first).days
        if number < DAYS_OF_ACTIVITY:  # midnight can pass before the statement
            found[row.id].days[number] = row.requests
            found[row.id].errors += row.errors
    return found


def last_hours() -> tuple[datetime, datetime]:
    """Return the first and the last of the last 24 hours."""
    last = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    return last - timedelta(hours=HOURS_OF_A_DAY - 1), last


async def usage_by_store(db: Executor, app_id: int, first: date, last: date) -> list[StoreMetrics]:
    """Return the app's usage of each store, busiest first; by hour if the range is one of times."""
    query = queries.STORES_BY_HOUR if isinstance(first, datetime) else queries.STORES
    return await query.all(db, app_id, first, last)


class Outcome(msgspec.Struct, frozen=True):
    """A range of statuses. As in the usage figures, a response with 429 is rate limited and not an error."""

    lowest: int = 0
    highest: int = 999
    without_429: bool = False


OUTCOMES: Mapping[str, Outcome] = {
    "": Outcome(),
    "success": Outcome(highest=399),
    "error": Outcome(400, without_429=True),
    "4xx": Outcome(400, 499, without_429=True),
    "5xx": Outcome(500),
    "429": Outcome(429, 429),
}


class RequestFilter(msgspec.Struct, frozen=True):
    """Which requests of an app to list: those with ids from `first` to before `before`, and all further conditions."""

    before: int
    first: int = 0
    outcome: str = ""
    store_id: int | None = None
    operation: str | None = None  # empty for unknown routes
    request_id: str = ""


async def logged_requests(db: Executor, app_id: int, where: RequestFilter, limit: int) -> list[LoggedRequest]:
    """Return requests of the log, newest first."""
    outcome = OUTCOMES[where.outcome]
    statuses = (outcome.lowest, outcome.highest, outcome.without_429)
    conditions = (where.store_id, where.operation, where.request_id)
    return await queries.REQUESTS.all(db, app_id, where.first, where.before, *statuses, *conditions, limit)


def _sum(rows: Iterable[Metrics]) -> Metrics:
    total = Metrics()
    for row in rows:
        total.add(row)
    return total
