"""Charts of requests, errors and latency, for the traffic of an app and of the whole service."""

from collections.abc import Sequence
from datetime import date

from stoa.portal.kit import charts
from stoa.portal.kit.charts import Chart, Series
from stoa.usage.queries import Metrics


def request_chart(times: Sequence[date], traffic: Sequence[Metrics], unit: str) -> Chart:
    requests = Series("Requests", "sea", "requests", [each.requests for each in traffic])
    return charts.bars("requests", "Requests", unit, times, [requests])


def error_chart(
    times: Sequence[date], traffic: Sequence[Metrics], unit: str, title: str = "Errors", more: Sequence[Series] = ()
) -> Chart:
    client = Series("Client errors (4xx)", "ochre", "client-errors", [each.client_errors for each in traffic])
    server = Series("Server errors (5xx)", "clay", "server-errors", [each.server_errors for each in traffic])
    return charts.bars("errors", title, unit, times, [client, server, *more])


def latency_chart(times: Sequence[date], traffic: Sequence[Metrics]) -> Chart:
    p95 = Series("95th percentile", "ochre", "p95", [each.p95_ms for each in traffic])
    p50 = Series("Median", "sea", "p50", [each.p50_ms for each in traffic])
    return charts.lines("latency", "Latency", "ms", times, [p95, p50])
