"""Usage pages: an app's requests, errors, latency and rate limiting by day and store."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from stoa.access.operator_queries import INSTALLATIONS_OF_APP
from stoa.portal.apps.snippets import Snippets
from stoa.portal.kit import charts
from stoa.portal.kit.charts import Chart, Series
from stoa.portal.kit.pages import Pages, View
from stoa.portal.kit.request_log import operations, stores_called
from stoa.portal.kit.traffic_charts import error_chart, latency_chart, request_chart
from stoa.portal.kit.visit import Visit
from stoa.usage.queries import DayMetrics, HourMetrics, StoreMetrics
from stoa.usage.reports import UsageReport, last_hours, usage_by_store, usage_of_last_day, usage_report

pages = Pages()
RANGES = (1, 7, 30, 90)  # in days; one day is shown by hour
_DEFAULT_RANGE = 30
_MAX_OPERATIONS, _MAX_STORES = 12, 12


@pages.page("/apps/{app_id:int}/usage", nav="list_apps")
async def app_usage(visit: Visit) -> View:
    days = next((each for each in RANGES if str(each) == visit.query("days")), _DEFAULT_RANGE)
    stores = await stores_called(visit.everywhere, visit.app.id)
    store = _selected_store(visit, stores)
    usage, by_store = await _usage(visit, days, store.store_id if store else None)
    installed = await INSTALLATIONS_OF_APP.all(visit.everywhere, visit.app.id)
    context = {
        "ranges": RANGES,
        "days": days,
        "stores": stores,
        "store": store,
        "usage": usage,
        "error_rate": error_rate(usage),
        "charts": usage_charts(usage.periods, "per hour" if days == 1 else "per day"),
        "operations": [(each, operations().get(each.operation)) for each in usage.operations[:_MAX_OPERATIONS]],
        "by_store": by_store[:_MAX_STORES],
        "snippets": Snippets(visit.origin, visit.app.client_id, handle=installed[0].store if installed else ""),
    }
    return View("apps/usage.html", context)


async def _usage(visit: Visit, days: int, store_id: int | None) -> tuple[UsageReport, list[StoreMetrics]]:
    """Return the usage of the last days, or of the last 24 hours, and that of each store."""
    app_id, everywhere = visit.app.id, visit.everywhere
    db = everywhere if store_id is None else await everywhere.of_store(store_id)
    if days == 1:
        usage = await usage_of_last_day(db, app_id, store_id=store_id)
        return usage, await usage_by_store(everywhere, app_id, *last_hours())
    last = datetime.now(UTC).date()
    first = last - timedelta(days=days - 1)
    usage = await usage_report(db, app_id, first, last, store_id=store_id)
    return usage, await usage_by_store(everywhere, app_id, first, last)


def usage_charts(metrics: Sequence[DayMetrics | HourMetrics], unit: str) -> list[Chart]:
    days: list[date] = [each.start for each in metrics]
    rate_limited = Series("Responses with 429", "ochre", "rate-limited", [each.rate_limited for each in metrics])
    return [
        request_chart(days, metrics, unit),
        error_chart(days, metrics, unit),
        latency_chart(days, metrics),
        charts.bars("rate-limited", "Rate limited", unit, days, [rate_limited]),
    ]


def error_rate(usage: UsageReport) -> float | None:
    """Return the percentage of requests that failed."""
    total = usage.total
    return round(100 * total.errors / total.requests, 2) if total.requests else None


def _selected_store(visit: Visit, stores: Sequence[StoreMetrics]) -> StoreMetrics | None:
    """Return the store in the URL, if the app has called it."""
    return next((each for each in stores if each.handle == visit.query("store")), None)
