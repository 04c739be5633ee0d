"""The metrics that a service exports, and the values of a scrape."""

import os
import re
from collections.abc import Iterator

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric

from stoa.operations import telemetry
from stoa.operations.exposition import Process, ProcessCollector
from tests.support.service import Service


def exported() -> Iterator[Metric]:
    """Every metric that a service may export: those of its workers, and those of its main process."""
    for value in vars(telemetry).values():
        if isinstance(value, Counter | Gauge | Histogram):
            yield from value.describe()
    yield from ProcessCollector(lambda: [Process("main", 0, os.getpid())]).collect()


def metric(text: str, name: str, **labels: str) -> float:
    """The sum over all series of this name with these labels."""
    lines = [line for line in text.splitlines() if re.match(rf"{name}[ {{]", line)]
    chosen = [line for line in lines if all(f'{key}="{value}"' in line for key, value in labels.items())]
    return sum(float(line.rsplit(" ", 1)[1]) for line in chosen)


async def scrape(service: Service, address: str = "") -> str:
    """The metrics of a service, or of the worker at another address."""
    async with service.client(base_url=f"http://{address or service.environment['STOA_METRICS']}") as client:
        answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.text
