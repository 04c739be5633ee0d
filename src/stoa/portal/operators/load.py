"""The load page: traffic, errors, latency, queues and the database over a day or a month, as charts."""

from collections.abc import Sequence

import msgspec

from stoa.portal.kit import charts
from stoa.portal.kit.charts import Chart, Series
from stoa.portal.kit.pages import Audience, Pages, View
from stoa.portal.kit.traffic_charts import error_chart, latency_chart, request_chart
from stoa.portal.kit.visit import Visit
from stoa.usage.load import Load, load_of

pages = Pages()
_MEGABYTE = 1_000_000


class Range(msgspec.Struct, frozen=True):
    """A period, the length of the samples that cover it, and the length of the intervals on the charts."""

    name: str
    label: str
    hours: int
    sample_minutes: int
    shown_minutes: int
    interval: str


RANGES = (
    Range("24h", "24 hours", 24, 5, 30, "per 30 minutes"),
    Range("30d", "30 days", 30 * 24, 60, 720, "per 12 hours"),
)


@pages.page("/operators/load", audience=Audience.OPERATOR)
async def operator_load(visit: Visit) -> View:
    chosen = next((each for each in RANGES if each.name == visit.query("range")), RANGES[0])
    load = await load_of(visit.everywhere, chosen.sample_minutes, chosen.shown_minutes, chosen.hours)
    context = {
        "ranges": RANGES,
        "range": chosen,
        "load": load,
        "requests": sum(each.requests for each in load),
        "errors": sum(each.errors for each in load),
        "charts": load_charts(load, chosen.interval),
        "measured": any(each.pending is not None for each in load),
    }
    return View("operators/load.html", context)


def load_charts(load: Sequence[Load], interval: str) -> list[Chart]:
    times = [each.at for each in load]
    rate_limited = Series("Rate limited (429)", "sea", "rate-limited", [each.rate_limited for each in load])
    return [
        request_chart(times, load, interval),
        error_chart(times, load, interval, "Errors and rate limiting", [rate_limited]),
        latency_chart(times, load),
        charts.lines(
            "queues", "Queues", "waiting, at most", times,
            [
                Series("Deliveries", "sea", "pending", [each.pending for each in load]),
                Series("Imports", "ochre", "imports", [each.imports_waiting for each in load]),
            ],
        ),
        charts.lines(
            "delay", "Delivery delay", "seconds, at most", times,
            [Series("Waiting for a worker", "clay", "delay", [each.late_seconds for each in load])],
        ),
        charts.lines(
            "connections", "Database connections", "at most", times,
            [Series("Open connections", "sea", "connections", [each.connections for each in load])],
        ),
        charts.lines(
            "database", "Database response", "ms, at most", times,
            [Series("Simplest statement", "ochre", "database-ms", [each.database_ms for each in load])],
        ),
        charts.lines(
            "size", "Database size", "MB", times,
            [Series("Size", "sea", "size", [each.bytes and round(each.bytes / _MEGABYTE, 1) for each in load])],
        ),
    ]  # fmt: skip
